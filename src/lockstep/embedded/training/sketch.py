"""The text encoder alone learns to sketch: what it gives at the places behind the words tells what the picture shows.

A denoiser that is given pure noise can only draw what the words tell it, and learning that through a UNet takes a
hundred thousand noisy pictures. Here the last places of a text, which hold no words, each stand for one field of the
picture, and a linear map turns their hidden states into the latents of that field. No noise, no UNet: several times
as many pictures a second, and every caption has one right answer. The UNet then finds the sketch in its
cross-attentions.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...models.text_encoders.clip import CLIPTextModel
from ...tokenizers.known_words import KnownWords
from ...training.loop import Run
from ...training.noise import generator_of
from ...training.pixels import to_bytes
from ...training.precision import autocast
from ...training.progress import Reporter
from ...training.sheets import save_sheet
from ...training.trainee import Trainee
from .data import DEFAULT_STYLE
from .diffusion import DiffusionData, build_text_encoder, pin_tokenizer
from .drawing import caption_random
from .latents import load_teacher
from .settings import SketchSettings
from .sketch_head import SketchHead
from .sketch_start import TIER_WEIGHTS, let_free, style_table, write_sketches
from .stage import run_stage


class SketchTraining:
    """A run of this stage: captions as people write them, and the latents of what they ask for."""

    def __init__(self, work: Path, settings: SketchSettings, run: Run, teacher_folder: Path) -> None:
        self.settings, self.run, self.teacher_folder = settings, run, teacher_folder
        pin_tokenizer(work, run)
        self.data = DiffusionData(work, settings, run.folder / "tokenizer")
        known = KnownWords.read(run.folder / "tokenizer")
        self.strangers = sorted(known.near) if known else []
        text_encoder = build_text_encoder(settings, run.folder / "tokenizer")
        head = SketchHead(settings.text_encoder["hidden_size"], settings.fields)
        if not run.checkpoint.is_file():
            self.begin(text_encoder, head)
        let_free(text_encoder, len(settings.mixture.styles))
        head.requires_grad_(False)
        self.trainee = Trainee({"text_encoder": text_encoder, "sketch": head}, settings.optimizer)

    def begin(self, text_encoder: CLIPTextModel, head: SketchHead) -> None:
        """The words as principal components of the pictures."""
        data, shares = self.data, self.settings.mixture.styles
        styles = sorted(shares, key=lambda style: (style != DEFAULT_STYLE, -shares[style]))
        rows = {item.index: latents for item, latents in zip(data.items, data.latents, strict=True)}
        codes, latents = style_table(data.table, rows, styles)
        concepts = [data.table.concepts[code] for code in codes]
        weights = torch.tensor([TIER_WEIGHTS[concept.tier] for concept in concepts])
        names = [concept.name for concept in concepts]
        write_sketches(
            text_encoder, head, data.tokenizer, names, latents, weights, {style: shares[style] for style in styles}
        )

    def sketch(self, modules: nn.ModuleDict, captions: Sequence[str]) -> Tensor:
        with autocast(self.settings.bfloat16):
            hidden = modules["text_encoder"](self.data.tokens(captions), return_dict=False)[0]
            return modules["sketch"](hidden).float()

    def loss_at(self, step: int) -> Tensor:
        """What of the latents' variance the sketches do not tell."""
        latents, captions = self.data.batch_at(step, generator_of(self.settings.seed, step))
        captions = [
            self.with_strangers(caption, caption_random(self.settings.seed, step, -1 - slot))
            for slot, caption in enumerate(captions)
        ]
        return F.mse_loss(self.sketch(self.trainee.modules, captions), latents)

    def with_strangers(self, caption: str, rng: random.Random) -> str:
        """Now and then one word that the model was not taught, seldom so many that they reach into the sketch."""
        if not self.strangers or rng.random() >= self.settings.stranger_share:
            return caption
        words = caption.split(" ")
        for _ in range(rng.randrange(8, 24) if rng.random() < 0.1 else 1):
            words.insert(rng.randrange(len(words) + 1), rng.choice(self.strangers))
        return " ".join(words)

    @torch.no_grad()
    def evaluate(self, reporter: Reporter) -> dict[str, float]:
        """What is not told of single things by their plain captions and by sentences, and the sketches of the
        prompts."""
        data, averaged = self.data, self.trainee.averaged
        rows = data.spread(self.settings.evaluation.loss_items, kind="base", mirror=False)
        plain = [data.table.caption(data.items[row]) for row in rows]
        written = [data.table.draw_caption(data.items[row], random.Random(row)) for row in rows]
        numbers = {
            name: F.mse_loss(self.sketch(averaged, captions), data.latents[rows]).item()
            for name, captions in (("plain_loss", plain), ("written_loss", written))
        }
        self.sheet(self.run.folder / "sheets" / f"{self.trainee.step:07d}.png")
        reporter.note(self.trainee.step, **numbers)
        return numbers

    @torch.no_grad()
    def sheet(self, path: Path) -> Path:
        """The sketches of the fixed prompts through the teacher's decoder."""
        prompts = self.settings.evaluation.prompts
        latents = self.data.normal.restore(self.sketch(self.trainee.averaged, prompts))
        return save_sheet(
            path, to_bytes(load_teacher(self.teacher_folder).decode(latents, return_dict=False)[0]), prompts
        )


def train_sketch(
    work: Path,
    settings: SketchSettings,
    *,
    run_name: str = "sketch",
    teacher_folder: Path,
    steps: int | None = None,
    settings_text: str = "",
) -> Path:
    """Train, or go on training, to the configured number of steps."""
    run = Run(work / "runs" / run_name)
    training = SketchTraining(work, settings, run, teacher_folder)
    return run_stage(training, settings, until=steps, settings_text=settings_text)
