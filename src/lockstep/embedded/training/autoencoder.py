"""Our own AutoencoderTiny: a decoder from the teacher's normalised latents to the pictures, then an encoder back to
them.

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
from ...training.trainee import Trainee, averaged_tensors
from .adversary import critic_loss, deceiving_loss, new_critic
from .collage import Collage
from .data import Item, load_items, load_pictures
from .data.scenes import SceneDrawer, render_scene
from .drawing import caption_random, draw_rows, drawing_weights, evenly
from .edges import edge_loss, edge_strength
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
        self.held_out = evenly(held_out, settings.held_out)
        self.weights = drawing_weights(self.items, settings.mixture)
        scenes = settings.mixture.scenes > 0 and part == "decoder"
        self.collage = Collage(work, SceneDrawer(self.table), self.store.normal()) if scenes else None
        modules: dict[str, nn.Module] = {part: getattr(build_autoencoder(settings), part)}
        if self.learns_from_critic:
            modules["critic"] = new_critic(settings.seed)
        self.trainee = Trainee(modules, settings.optimizer)

    @property
    def learns_from_critic(self) -> bool:
        return self.part == "decoder" and self.settings.adversarial_weight > 0

    def batch(self, items: list[Item]) -> tuple[Tensor, Tensor]:
        """Latents and pictures of some items."""
        pixels = to_pixels(np.stack([self.table.render(item, self.rgba) for item in items]))
        return self.store.read([item.index for item in items]).contiguous(memory_format=torch.channels_last), pixels

    def batch_at(self, step: int) -> tuple[Tensor, Tensor]:
        """Latents and pictures of one step, scenes among them where the settings want them."""
        settings = self.settings
        count = int(settings.mixture.scenes * settings.batch_size) if self.collage else 0
        rows = draw_rows(self.weights, settings.batch_size - count, generator_of(settings.seed, step))
        latents, pixels = self.batch([self.items[row] for row in rows.tolist()])
        if self.collage and count:
            scenes = [self.collage.drawer.draw(caption_random(settings.seed, step, slot)) for slot in range(count)]
            latents = torch.cat([latents, torch.stack([self.collage.paste(scene) for scene in scenes])])
            drawn = to_pixels(np.stack([render_scene(scene, self.rgba) for scene in scenes]))
            pixels = torch.cat([pixels, drawn])
        return latents.contiguous(memory_format=torch.channels_last), pixels

    def loss_at(self, step: int) -> Tensor:
        latents, pixels = self.batch_at(step)
        half = self.trainee.modules[self.part]
        if self.part == "encoder":
            with autocast(self.settings.bfloat16):
                return F.mse_loss(half(pixels).float(), latents)
        with autocast(self.settings.bfloat16):
            output = half(self.disturbed(latents, step)).float()
        loss = picture_loss(output, pixels, self.settings.gradient_weight)
        if self.settings.edge_weight > 0:
            loss = loss + self.settings.edge_weight * edge_loss(output, pixels)
        if self.learns_from_critic:
            critic = self.trainee.modules["critic"]
            loss = loss + self.settings.adversarial_weight * deceiving_loss(critic, output)
            loss = loss + critic_loss(critic, output, pixels)
        return loss

    def disturbed(self, latents: Tensor, step: int) -> Tensor:
        """Latents with a little noise, another deviation for each."""
        if self.settings.latent_noise == 0:
            return latents
        draw = generator_of(self.settings.seed + 1, step)
        deviation = torch.rand((len(latents), 1, 1, 1), generator=draw) * self.settings.latent_noise
        return latents + deviation * torch.randn(latents.shape, generator=draw)

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
                numbers.setdefault("edges", []).append(edge_strength(ours) / edge_strength(pixels))
                numbers.setdefault("teacher_edges", []).append(edge_strength(taught) / edge_strength(pixels))
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
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def picture_loss(output: Tensor, pixels: Tensor, gradient_weight: float) -> Tensor:
    """Absolute and squared error, and the error of differences between neighbours, which keeps edges sharp."""
    error = output - pixels
    across, down = error.diff(dim=3), error.diff(dim=2)
    return error.abs().mean() + error.square().mean() + gradient_weight * (across.abs().mean() + down.abs().mean())


def psnr(output: Tensor, pixels: Tensor) -> Tensor:
    """Peak signal-to-noise ratio per picture, for values in [-1, 1]."""
    return -10 * torch.log10((output.clamp(-1, 1) - pixels).square().mean((1, 2, 3)) / 4)


def train_autoencoder(
    work: Path, settings: AutoencoderSettings, part: Part, teacher_folder: Path, released: Path | None = None
) -> Path:
    """Train one half from its checkpoint, or else from a released model or from the start, to the configured steps."""
    training = AutoencoderTraining(work, settings, part, teacher_folder)
    steps = settings.decoder_steps if part == "decoder" else settings.encoder_steps
    if not training.run.resume(training.trainee) and released is not None:
        weights = getattr(AutoencoderTiny.from_pretrained(released / "vae", dtype=torch.float32), part).state_dict()
        for modules in (training.trainee.modules, training.trainee.averaged):
            modules[part].load_state_dict(weights)
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
        getattr(model, part).load_state_dict(averaged_tensors(tensors, part))
    return model.eval()
