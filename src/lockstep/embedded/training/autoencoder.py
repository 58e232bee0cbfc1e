"""Our own AutoencoderTiny: a decoder from the teacher's normalised latents to the pictures, then an encoder back to them.

The teacher's latents are the common language: the diffusion model is trained on them, and both halves learn them apart,
so neither waits for the other. The shipped folder produces and takes normalised latents and needs no scale of its own.
"""

from __future__ import annotations

import time
import typing
import zlib
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import NotFoundError
from ...models.autoencoders.autoencoder_tiny import AutoencoderTiny, AutoencoderTinyBlock
from ...training.checkpoint import load_checkpoint
from ...training.loop import Run, train
from ...training.noise import generator_of
from ...training.pixels import to_bytes, to_pixels
from ...training.precision import autocast
from ...training.progress import Reporter
from ...training.sheets import save_sheet
from ...training.trainee import Trainee
from .data import Item, load_items, load_pictures
from .drawing import draw_rows, drawing_weights
from .latents import load_teacher, open_store
from .settings import AutoencoderSettings

Part = Literal["decoder", "encoder"]


class AutoencoderTraining:
    """One half of the autoencoder in training."""

    def __init__(self, work: Path, settings: AutoencoderSettings, part: Part, teacher_folder: Path) -> None:
        self.work, self.settings, self.part, self.teacher_folder = work, settings, part, teacher_folder
        self.run = Run(run_folder(work, part))
        self.table = load_items(work)
        self.rgba, _ = load_pictures(work)
        self.store = open_store(work, self.table)
        weights = drawing_weights(self.table.items, settings.mixture)
        known = [item for item in self.table.items if self.store.done[item.index] and weights[item.index] > 0]
        self.items = [item for item in known if not is_held_out(item, settings.held_out_share)]
        held_out = [item for item in known if is_held_out(item, settings.held_out_share)]
        if not self.items or not held_out:
            raise NotFoundError(
                f"Too few encoded pictures to train and to judge the {part} with. Run the `latents` stage first."
            )
        self.held_out = [
            held_out[k * len(held_out) // settings.held_out] for k in range(min(settings.held_out, len(held_out)))
        ]
        self.weights = drawing_weights(self.items, settings.mixture)
        self.trainee = Trainee({part: getattr(build_autoencoder(settings), part)}, settings.optimizer)

    def batch(self, items: list[Item]) -> tuple[Tensor, Tensor]:
        """Latents and pictures of some items."""
        pixels = to_pixels(np.stack([self.table.render(item, self.rgba) for item in items]))
        return self.store.read([item.index for item in items]).contiguous(memory_format=torch.channels_last), pixels

    def loss_at(self, step: int) -> Tensor:
        rows = draw_rows(self.weights, self.settings.batch_size, generator_of(self.settings.seed, step))
        latents, pixels = self.batch([self.items[row] for row in rows.tolist()])
        half = self.trainee.modules[self.part]
        with autocast(self.settings.bfloat16):
            output = half(latents if self.part == "decoder" else pixels)
        if self.part == "encoder":
            return F.mse_loss(output.float(), latents)
        return picture_loss(output.float(), pixels, self.settings.gradient_weight)

    @torch.inference_mode()
    def evaluate(self, reporter: Reporter) -> dict[str, float]:
        """Held-out quality beside the teacher's, and a sheet: the picture, the teacher's, ours."""
        started = time.monotonic()
        half, teacher = self.trainee.averaged[self.part], load_teacher(self.teacher_folder)
        numbers: dict[str, list[Tensor]] = {}
        shown: list[Tensor] = []
        for start in range(0, len(self.held_out), 16):
            latents, pixels = self.batch(self.held_out[start : start + 16])
            taught = teacher.decode(self.store.normal().restore(latents), return_dict=False)[0]
            if self.part == "decoder":
                ours = half(latents)
                numbers.setdefault("psnr", []).append(psnr(ours, pixels))
            else:
                encoded = half(pixels)
                numbers.setdefault("latent_error", []).append((encoded - latents).square().mean((1, 2, 3)))
                ours = teacher.decode(self.store.normal().restore(encoded), return_dict=False)[0]
                numbers.setdefault("psnr_through_teacher", []).append(psnr(ours, pixels))
            numbers.setdefault("teacher_psnr", []).append(psnr(taught, pixels))
            shown += [torch.stack([a, b, c]) for a, b, c in zip(pixels, taught, ours, strict=True)][
                : 8 if start < 32 else 0
            ]
        means = {name: torch.cat(values).mean().item() for name, values in numbers.items()}
        labels = [label for _ in shown for label in ("picture", "teacher", "ours")]
        save_sheet(
            self.run.folder / "sheets" / f"{self.trainee.step:07d}.png", to_bytes(torch.cat(shown)), labels, columns=12
        )
        reporter.note(self.trainee.step, **means, evaluation_seconds=time.monotonic() - started)
        return means


def run_folder(work: Path, part: str) -> Path:
    return work / "runs" / f"autoencoder-{part}"


def is_held_out(item: Item, share: float) -> bool:
    """Whether the autoencoder is judged, and not trained, on this concept."""
    return zlib.crc32(item.concept.encode()) / 2**32 < share


def build_autoencoder(settings: AutoencoderSettings) -> AutoencoderTiny:
    """Fresh weights of the configured widths."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = AutoencoderTiny(**settings.model)
    # Residual branches begin as nothing: without any normalisation, deep stacks of fresh blocks explode.
    for block in model.modules():
        if isinstance(block, AutoencoderTinyBlock):
            last = typing.cast(nn.Conv2d, block.conv[-1])
            nn.init.zeros_(last.weight)
            nn.init.zeros_(typing.cast(Tensor, last.bias))
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def picture_loss(output: Tensor, pixels: Tensor, gradient_weight: float) -> Tensor:
    """Absolute and squared error, and the error of differences between neighbours, which keeps edges sharp."""
    error = output - pixels
    across, down = error.diff(dim=3), error.diff(dim=2)
    return error.abs().mean() + error.square().mean() + gradient_weight * (across.abs().mean() + down.abs().mean())


def psnr(output: Tensor, pixels: Tensor) -> Tensor:
    """Peak signal-to-noise ratio per picture, for values in [-1, 1]."""
    return -10 * torch.log10((output.clamp(-1, 1) - pixels).square().mean((1, 2, 3)) / 4)


def train_autoencoder(work: Path, settings: AutoencoderSettings, part: Part, teacher_folder: Path) -> Path:
    """Train one half from the start or from its checkpoint to the configured number of steps."""
    training = AutoencoderTraining(work, settings, part, teacher_folder)
    steps = settings.decoder_steps if part == "decoder" else settings.encoder_steps
    training.run.resume(training.trainee)
    falling = int(steps * settings.decay_share)
    training.run.begin_decay(steps - falling, falling)
    size = sum(p.numel() for p in training.trainee.modules.parameters())
    print(
        f"{part} {size / 1e6:.2f} M parameters; {len(training.items)} pictures; from step {training.trainee.step}",
        flush=True,
    )
    train(
        training.trainee, training.run, training.loss_at, title=part, batch_size=settings.batch_size, until=steps,
        cadence=settings.cadence, evaluate=training.evaluate,
    )  # fmt: skip
    return training.run.checkpoint


def load_trained_autoencoder(work: Path, settings: AutoencoderSettings) -> AutoencoderTiny:
    """Both halves with their averaged weights."""
    model = build_autoencoder(settings)
    for part in ("decoder", "encoder"):
        tensors, _ = load_checkpoint(run_folder(work, part) / "checkpoint.safetensors")
        prefix = f"average.{part}."
        getattr(model, part).load_state_dict(
            {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        )
    return model.eval()
