"""What the recipe of the embedded model is made of: the mixture of pictures, both networks, and the questions asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...training.settings import TrainingSettings

CONFIGS = Path(__file__).parent / "configs"


@dataclass(frozen=True)
class Mixture:
    """Shares of the training draws; a style or kind that is not named is not drawn."""

    styles: dict[str, float] = field(default_factory=lambda: {"3d": 0.34, "noto": 0.33, "flat": 0.33})
    kinds: dict[str, float] = field(default_factory=lambda: {"base": 0.75, "colour": 0.15, "background": 0.1})
    mirrored: float = 0.2
    beyond_core: float = 0.0
    tiers: list[int] = field(default_factory=lambda: [1, 2])  # of the concepts: the core, what comes next, the others
    concepts: list[str] = field(default_factory=list)  # only these, by name; all of them where the list is empty
    favourites: list[str] = field(default_factory=list)  # what people ask for first …
    favour: float = 1.0  # … is drawn this many times as often
    scenes: float = 0.0  # of all draws: counts, pairs, places, put together for the step
    scene_kinds: dict[str, float] = field(default_factory=dict)  # shares of what scenes show; the usual ones if empty
    favour_in_scenes: float = (
        1.0  # how often the favourites come there: each thing has to be learned once more, smaller
    )


@dataclass(frozen=True)
class EvaluationSettings:
    """Fixed questions to a model in training."""

    loss_items: int = 256
    retrieval_items: int = 48
    steps: int = 25
    guidance: float = 4.0
    seed: int = 0
    prompts: list[str] = field(default_factory=lambda: ["a red heart", "a dog"])


@dataclass(frozen=True)
class TextSettings(TrainingSettings):
    """A text encoder that learns from captions and latents."""

    batch_size: int = 32
    bfloat16: bool = False  # native bf16 is no promise of speed: time 20 steps of both before a run
    word_vectors: float = 0.1
    plain_captions: float = 0.0  # of captions: as canonical as the reader of sentences makes them
    fields: int = 8  # a side of the sketch: so many squared places of the text, the last ones, tell a field each
    text_encoder: dict[str, Any] = field(default_factory=dict)
    mixture: Mixture = field(default_factory=Mixture)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)


@dataclass(frozen=True)
class SketchSettings(TextSettings):
    """The text encoder alone, learning what the picture of a caption is."""

    steps: int = 10_000
    decay_share: float = 0.5
    stranger_share: float = 0.1  # of sentences with a word that the model was not taught


@dataclass(frozen=True)
class DiffusionSettings(TextSettings):
    """Text encoder and UNet, trained together on latents."""

    noise_power: float = 0.7
    empty_captions: float = 0.1
    frozen_words: bool = False  # the text encoder stays as it is: it has learned to sketch
    reading_weight: float = 0.0  # of the loss that the finest cross-attentions look at their own fields
    astray: float = 0.0  # of another picture at most that is mixed into the noisy one, to be led back by the words
    kept_texts: int = 0  # hidden states of so many captions stay in memory, where the words are frozen
    compile: bool = False
    unet: dict[str, Any] = field(default_factory=dict)
    scheduler: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class WordingSettings(TrainingSettings):
    """A wider text encoder that learns the words of people from a released model."""

    steps: int = 3000
    batch_size: int = 64
    decay_share: float = 0.5
    plain_share: float = 0.15  # of sentences that are the plain caption itself
    stranger_share: float = 0.1  # of sentences with a word that the model was not taught
    worn_share: float = 0.0  # of sentences about heads that wear something, which the model was taught as they are
    tiers: list[int] = field(default_factory=lambda: [1])  # of the concepts that the model was taught
    pictures: int = 64  # whose denoising the queries are taken from
    queries: int = 128  # of each cross-attention
    styles: list[str] = field(default_factory=lambda: ["3d", "noto", "flat"])


@dataclass(frozen=True)
class AutoencoderSettings(TrainingSettings):
    """Decoder and encoder of the shipped folder, learned from the teacher's latents."""

    batch_size: int = 16
    decoder_steps: int = 3000
    encoder_steps: int = 1500
    decay_share: float = 0.5
    held_out: int = 96
    held_out_share: float = 0.06
    gradient_weight: float = 1.0
    edge_weight: float = 0.0  # of the strength of edges, wherever exactly they lie
    adversarial_weight: float = 0.0  # of a critic's opinion in the decoder's loss
    latent_noise: float = 0.0  # up to this deviation is added: drawn latents are not quite the teacher's
    bfloat16: bool = False
    model: dict[str, Any] = field(default_factory=dict)
    mixture: Mixture = field(default_factory=Mixture)


@dataclass(frozen=True)
class PolishSettings(TrainingSettings):
    """Decoder and last blocks of the UNet, learned together from the true pictures."""

    steps: int = 5000
    batch_size: int = 8
    decay_share: float = 0.6
    sampler_steps: int = 2  # that the released model takes; a training step ends at one of them
    decoder_blocks: list[int] = field(default_factory=list)  # of each stage; the released decoder's where empty
    unet_parts: list[str] = field(default_factory=lambda: ["up_blocks.2", "conv_norm_out", "conv_out"])
    gradient_weight: float = 0.5
    edge_weight: float = 0.5
    latent_weight: float = 0.05  # of the latents' distance to the encoder's: others read them, too
    encoded_share: float = 0.25  # of pictures that are decoded from the encoder's latents as well …
    encoded_weight: float = 0.25  # … and what that counts
    judged: int = 40  # everyday things in the default style
    bfloat16: bool = False
    mixture: Mixture = field(default_factory=Mixture)
