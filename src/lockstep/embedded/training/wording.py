"""The text encoder alone learns to read captions as people write them, for a UNet that is already trained.

A UNet takes two things from a text: what its cross-attentions answer to their queries, and the pooled text beside the
time.
The wider text encoder is taught that "draw me a puppy please!" gives the same answers as "a dog" gave in the released
model.
No picture and no backward pass through the UNet is needed: thousands of sentences a minute, and the pictures of plain
prompts stay what they were.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import NotFoundError
from ...models.text_encoders.clip import CLIPTextModel
from ...models.unets.unet_2d_condition import UNet2DConditionModel
from ...schedulers import DDIMScheduler
from ...tokenizers.known_words import KnownWords
from ...training.loop import Run
from ...training.noise import generator_of
from ...training.progress import Reporter
from ...training.trainee import Trainee
from .data import BACKGROUNDS, COLOURS, DEFAULT_STYLE, Item, load_items
from .data.scenes import SceneDrawer
from .diffusion import pin_tokenizer, vocabulary_config
from .drawing import caption_random
from .latents import open_store
from .settings import WordingSettings
from .stage import run_stage
from .tokenizer import encode_batch, load_tokenizer
from .vocabulary import adopt_embedding, read_meanings


class Reader:
    """What a UNet takes from the hidden states of a text, asked by queries that it has really put."""

    def __init__(self, unet: nn.Module, queries: Sequence[Tensor]) -> None:
        self.unet, self.queries = unet, queries
        self.attentions = cross_attentions(unet)

    def answers(self, hidden: Tensor) -> list[Tensor]:
        """The answer of every cross-attention to its queries, and the pooled text."""
        found = [self.unet.add_embedding(hidden)]  # type: ignore[operator]
        for attention, queries in zip(self.attentions, self.queries, strict=True):
            keys, values = (split_heads(layer(hidden), attention.heads) for layer in (attention.to_k, attention.to_v))
            found.append(F.scaled_dot_product_attention(queries.expand(len(hidden), -1, -1, -1), keys, values))
        return found


def cross_attentions(unet: nn.Module) -> list[Any]:
    return [module for name, module in unet.named_modules() if name.endswith("attn2")]


def split_heads(values: Tensor, heads: int) -> Tensor:
    """[N, length, width] to [N, heads, length, width / heads]."""
    return values.unflatten(-1, (heads, -1)).transpose(1, 2)


@torch.no_grad()
def collect_queries(unet: nn.Module, noisy: Tensor, timesteps: Tensor, hidden: Tensor, count: int) -> list[Tensor]:
    """Some of the queries that the cross-attentions put while denoising, [1, heads, count, width] each."""
    kept: list[Tensor] = []
    hooks = [
        attention.to_q.register_forward_hook(lambda _module, _inputs, output: kept.append(output))
        for attention in cross_attentions(unet)
    ]
    try:
        unet(noisy, timesteps, encoder_hidden_states=hidden, return_dict=False)
    finally:
        for hook in hooks:
            hook.remove()
    queries = []
    for attention, output in zip(cross_attentions(unet), kept, strict=True):
        rows = output.flatten(0, 1)
        chosen = rows[torch.randperm(len(rows), generator=generator_of(3, 0))[:count]]
        queries.append(split_heads(chosen[None], attention.heads).clone())
    return queries


def widened_text_encoder(released: CLIPTextModel, tokenizer_folder: Path) -> CLIPTextModel:
    """The same text encoder for the vocabulary of another tokenizer; its embedding is still to be filled."""
    config = {**released.config, **vocabulary_config(tokenizer_folder)}
    wider = CLIPTextModel(**{name: value for name, value in config.items() if not name.startswith("_")})
    embedding = released.get_input_embeddings().weight.shape
    weights = {name: value for name, value in released.state_dict().items() if value.shape != embedding}
    wider.load_state_dict(weights, strict=False)
    return wider


class WordingTraining:
    """A run of this stage: the released model as teacher, the wider text encoder as pupil."""

    def __init__(self, work: Path, settings: WordingSettings, run: Run, released: Path) -> None:
        if not (released / "model_index.json").is_file():
            raise NotFoundError(f"Wanted a released model to learn from, and {released} has no model_index.json.")
        self.settings, self.run, self.table = settings, run, load_items(work)
        pin_tokenizer(work, run)
        self.wide, self.narrow = load_tokenizer(run.folder / "tokenizer"), load_tokenizer(released / "tokenizer")
        known = KnownWords.read(run.folder / "tokenizer")
        self.strangers = sorted(known.near) if known else []
        self.teacher = CLIPTextModel.from_pretrained(released / "text_encoder", dtype=torch.float32)
        self.teacher.requires_grad_(False)
        self.length = self.teacher.config.max_position_embeddings
        unet = UNet2DConditionModel.from_pretrained(released / "unet", dtype=torch.float32).requires_grad_(False)
        self.bases = {
            (item.concept, item.style): item
            for item in self.table.select(
                tiers=settings.tiers, styles=tuple(settings.styles), kinds=("base",), mirrored=False
            )
        }
        self.worn = SceneDrawer(self.table, kinds={"worn": 1.0})
        self.reader = Reader(unet, self.queries(unet, work, released))
        self.trainee = Trainee({"text_encoder": self.pupil(read_meanings(work))}, settings.optimizer)

    def pupil(self, meanings: dict[str, str]) -> CLIPTextModel:
        """The teacher with more words."""
        pupil = widened_text_encoder(self.teacher, self.run.folder / "tokenizer")
        released = self.teacher.get_input_embeddings().weight
        adopt_embedding(pupil.get_input_embeddings(), self.wide, released, self.narrow, meanings)
        return pupil

    def queries(self, unet: nn.Module, work: Path, released: Path) -> list[Tensor]:
        """Queries put while denoising true pictures at all noise levels."""
        store = open_store(work, self.table)
        items = [item for item in self.bases.values() if store.done[item.index]]
        items = items[:: max(1, len(items) // self.settings.pictures)]
        latents = store.read([item.index for item in items])
        scheduler = DDIMScheduler.from_pretrained(released / "scheduler")
        timesteps = torch.linspace(0, scheduler.config.num_train_timesteps - 1, len(items)).long()
        noise = torch.randn(latents.shape, generator=generator_of(3, 1))
        hidden = self.taught([self.plain(item) for item in items])
        return collect_queries(
            unet, scheduler.add_noise(latents, noise, timesteps), timesteps, hidden, self.settings.queries
        )

    def taught(self, captions: Sequence[str]) -> Tensor:
        """The teacher's hidden states."""
        with torch.no_grad():
            return self.teacher(torch.from_numpy(encode_batch(self.narrow, captions, self.length)), return_dict=False)[
                0
            ]

    def read(self, pupil: nn.Module, captions: Sequence[str]) -> Tensor:
        return pupil(torch.from_numpy(encode_batch(self.wide, captions, self.length)), return_dict=False)[0]

    def plain(self, item: Item) -> str:
        """How the released model was asked for it."""
        return self.table.prompt(item) if item.style == DEFAULT_STYLE else self.table.caption(item)

    def draw_item(self, rng: random.Random) -> Item:
        """Any thing in any style, now and then in another colour or on a background; never in what is held out."""
        base = self.bases[rng.choice(list(self.bases))]
        concept = self.table.concepts[base.concept]
        colour, background = rng.choice(list(COLOURS)), rng.choice(list(BACKGROUNDS))
        coloured = rng.random() < 0.3 and concept.recolour and colour != concept.held_out_colour
        on_ground = rng.random() < 0.2 and background not in (concept.held_out_background, colour)
        return replace(base, colour=colour if coloured else base.colour, background=background if on_ground else None)

    def captions_at(self, step: int) -> tuple[list[str], list[str]]:
        """Sentences as people write them, and the plain caption of each; some are plain themselves, some empty."""
        written, plain = [], []
        for slot in range(self.settings.batch_size):
            rng = caption_random(self.settings.seed, step, slot)
            if rng.random() < self.settings.worn_share and self.worn.heads:
                written.append(self.worn.draw(rng).caption)  # has no plainer words: it stays what it is
                plain.append(written[-1])
                continue
            item = self.draw_item(rng)
            plain.append(self.plain(item))
            kept = rng.random() < self.settings.plain_share
            written.append(plain[-1] if kept else self.with_stranger(self.table.draw_caption(item, rng), rng))
        written[0] = plain[0] = ""  # what guidance steers away from has to stay
        return written, plain

    def with_stranger(self, caption: str, rng: random.Random) -> str:
        """Now and then a word among the others that the model was not taught: it should not break the rest."""
        if not self.strangers or rng.random() >= self.settings.stranger_share:
            return caption
        words = caption.split(" ")
        words.insert(rng.randrange(len(words) + 1), rng.choice(self.strangers))
        return " ".join(words)

    def loss_at(self, step: int) -> Tensor:
        written, plain = self.captions_at(step)
        return self.difference(self.trainee.modules["text_encoder"], written, plain)

    def difference(self, pupil: nn.Module, written: Sequence[str], plain: Sequence[str]) -> Tensor:
        """How far the answers to the sentences are from those to the plain captions, as a share of their variance."""
        wanted = self.reader.answers(self.taught(plain))
        got = self.reader.answers(self.read(pupil, written))
        return torch.stack(
            [F.mse_loss(a, b) / (b - b.mean(0)).square().mean() for a, b in zip(got, wanted, strict=True)]
        ).mean()

    @torch.no_grad()
    def evaluate(self, reporter: Reporter) -> dict[str, float]:
        """Fixed sentences that are not drawn in training: the difference, and where another thing's caption would be
        nearer."""
        written, plain = self.captions_at(-1)
        pupil = self.trainee.averaged["text_encoder"]
        numbers = {"difference": self.difference(pupil, written[1:], plain[1:]).item()}
        wrong = plain[2:] + plain[1:2]
        numbers["difference_to_another"] = self.difference(pupil, written[1:], wrong).item()
        reporter.note(self.trainee.step, **numbers)
        return numbers


def train_wording(
    work: Path, settings: WordingSettings, released: Path, *, run_name: str = "wording", settings_text: str = ""
) -> Path:
    """Teach the words, from the start or from the run's checkpoint, to the configured number of steps."""
    run = Run(work / "runs" / run_name)
    training = WordingTraining(work, settings, run, released)
    return run_stage(training, settings, settings_text=settings_text)
