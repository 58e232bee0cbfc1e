"""The last stage: the decoder and the UNet's last blocks learn together to make the true pictures.

Before it the UNet answers for latents and the decoder for the teacher's latents; what neither answers for is seen in
the pictures alone: outlines that wobble, small marks that smear. Here the loss is the picture's. A step begins with
noise and words, goes the way that a sampler goes, and is learned from at its end. Words and all blocks before the
learning ones stay as they were released, so that a history of the weights grows by little.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import ConfigError, NotFoundError
from ...models.autoencoders.autoencoder_tiny import AutoencoderTiny, AutoencoderTinyBlock
from ...models.text_encoders.clip import CLIPTextModel
from ...models.unets.unet_2d_condition import UNet2DConditionModel
from ...schedulers import DDIMScheduler
from ...tokenizers import CLIPTokenizer
from ...training.loop import Run
from ...training.noise import generator_of
from ...training.pixels import to_bytes, to_pixels
from ...training.precision import autocast
from ...training.progress import Reporter
from ...training.sheets import save_sheet
from ...training.trainee import Trainee, averaged_tensors
from .autoencoder import picture_loss, psnr
from .data import DEFAULT_STYLE, Item, load_items, load_pictures
from .drawing import caption_random, draw_rows, drawing_weights, evenly, plain_caption
from .edges import edge_loss, edge_strength
from .kept_texts import KeptTexts
from .settings import PolishSettings
from .stage import run_stage


class PolishTraining:
    """A run of this stage: a released model, the items, the loss of a step, evaluation."""

    def __init__(self, work: Path, settings: PolishSettings, run: Run, released: Path) -> None:
        self.settings, self.run = settings, run
        self.table = load_items(work)
        self.rgba, _ = load_pictures(work)
        weights = drawing_weights(self.table.items, settings.mixture)
        tiers = settings.mixture.tiers
        self.items = [item for item in self.table.items if weights[item.index] > 0 and item.tier in tiers]
        if not self.items:
            raise NotFoundError("The mixture draws none of the items of this work folder.")
        self.weights = drawing_weights(self.items, settings.mixture)
        self.tokenizer = CLIPTokenizer.from_pretrained(released / "tokenizer")
        self.text_encoder = CLIPTextModel.from_pretrained(released / "text_encoder", dtype=torch.float32).eval()
        self.unet = UNet2DConditionModel.from_pretrained(released / "unet", dtype=torch.float32).requires_grad_(False)
        vae = AutoencoderTiny.from_pretrained(released / "vae", dtype=torch.float32).requires_grad_(False)
        self.encoder = vae.encoder
        scheduler = DDIMScheduler.from_pretrained(released / "scheduler")
        scheduler.set_timesteps(settings.sampler_steps)
        self.times: list[int] = scheduler.timesteps.tolist()
        self.signal = scheduler.alphas_cumprod.sqrt().float()
        self.noise = (1 - scheduler.alphas_cumprod).sqrt().float()
        self.texts = KeptTexts(self.text_encoder, self.tokens, settings.bfloat16, most=2 * len(self.items))
        decoder = deepened(vae, settings.decoder_blocks).decoder
        decoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.trainee = Trainee(
            {"decoder": decoder.requires_grad_(True), "unet": learning_parts(self.unet, settings.unet_parts)},
            settings.optimizer,
        )

    def tokens(self, captions: Sequence[str]) -> Tensor:
        ids: Tensor = self.tokenizer(list(captions), padding="max_length", return_tensors="pt")["input_ids"]
        return ids

    def pictures(self, items: Sequence[Item]) -> Tensor:
        return to_pixels(np.stack([self.table.render(item, self.rgba) for item in items]))

    def original(self, noisy: Tensor, now: int, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """The picture's latents and the noise that the UNet sees in noisy latents."""
        velocity = self.unet(noisy, torch.tensor(now), hidden).sample.float()
        signal, noise = self.signal[now], self.noise[now]
        return signal * noisy - noise * velocity, signal * velocity + noise * noisy

    def sampled(self, noisy: Tensor, hidden: Tensor, steps: int) -> Tensor:
        """The latents after so many steps of DDIM; only the last one is learned from."""
        for now, following in zip(self.times[: steps - 1], self.times[1:steps], strict=True):
            with torch.no_grad():
                original, noise = self.original(noisy, now, hidden)
            noisy = self.signal[following] * original + self.noise[following] * noise
        return self.original(noisy, self.times[steps - 1], hidden)[0]

    def loss_at(self, step: int) -> Tensor:
        """The loss of one step: the steps of the sampler take turns, everything random follows from (seed, step)."""
        settings, modules = self.settings, self.trainee.modules
        draw = generator_of(settings.seed, step)
        items = [self.items[row] for row in draw_rows(self.weights, settings.batch_size, draw).tolist()]
        pixels = self.pictures(items)
        words = [caption_random(settings.seed, step, slot) for slot in range(len(items))]
        hidden = self.texts.hidden([plain_caption(self.table, *drawn) for drawn in zip(items, words, strict=True)])
        with torch.no_grad():
            encoded = self.encoder(pixels)
        given = int(settings.encoded_share * settings.batch_size)
        with autocast(settings.bfloat16):
            latents = self.sampled(
                torch.randn(encoded.shape, generator=draw), hidden, 1 + step % settings.sampler_steps
            )
            drawn = modules["decoder"](latents.float()).float()
            decoded = modules["decoder"](encoded[:given]).float() if given else encoded[:0]
        loss = self.seen_loss(drawn, pixels) + settings.latent_weight * F.mse_loss(latents.float(), encoded)
        return loss + settings.encoded_weight * self.seen_loss(decoded, pixels[:given]) if given else loss

    def seen_loss(self, drawn: Tensor, pixels: Tensor) -> Tensor:
        edges = self.settings.edge_weight * edge_loss(drawn, pixels)
        return picture_loss(drawn, pixels, self.settings.gradient_weight) + edges

    @torch.no_grad()
    def evaluate(self, reporter: Reporter) -> dict[str, float]:
        """Everyday things in the default style beside the true ones, after each step of the sampler and from the
        encoder's latents; a sheet of both."""
        started, modules, averaged = time.monotonic(), self.trainee.modules, self.trainee.averaged
        everyday = self.table.select(core=True, styles=(DEFAULT_STYLE,), kinds=("base",), mirrored=False)
        items = evenly(everyday, self.settings.judged)
        pixels, hidden = self.pictures(items), self.texts.hidden([self.table.prompt(item) for item in items])
        noise = torch.randn((len(items), *self.encoder(pixels[:1]).shape[1:]), generator=generator_of(0, 0))
        learning = {name: value.clone() for name, value in modules["unet"].state_dict().items()}
        modules["unet"].load_state_dict(averaged["unet"].state_dict())
        counts = range(1, len(self.times) + 1)
        drawn = {f"{count}_steps": averaged["decoder"](self.sampled(noise, hidden, count)) for count in counts}
        modules["unet"].load_state_dict(learning)
        drawn["encoded"] = averaged["decoder"](self.encoder(pixels))
        numbers: dict[str, float] = {}
        for name, ours in drawn.items():
            numbers[f"psnr_{name}"] = psnr(ours, pixels).mean().item()
            numbers[f"edges_{name}"] = (edge_strength(ours) / edge_strength(pixels)).mean().item()
        both = torch.stack([pixels, drawn[f"{len(self.times)}_steps"]], dim=1).flatten(0, 1)
        path = self.run.folder / "sheets" / f"{self.trainee.step:07d}.png"
        save_sheet(path, to_bytes(both), ["true", "ours"] * len(items), columns=16)
        reporter.note(self.trainee.step, **numbers, evaluation_seconds=time.monotonic() - started)
        return numbers


def learning_parts(unet: nn.Module, names: Sequence[str]) -> nn.ModuleDict:
    """The parts of a UNet that learn, by their names with a dash for each dot."""
    known = dict(unet.named_modules())
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(f"unet_parts: the UNet has no part {unknown[0]!r}.")
    return nn.ModuleDict({name.replace(".", "-"): known[name].requires_grad_(True) for name in names})


@torch.no_grad()
def deepened(vae: AutoencoderTiny, blocks: Sequence[int]) -> AutoencoderTiny:
    """An autoencoder whose decoder has more blocks at the end of each stage; they begin as nothing."""
    before: list[int] = list(vae.config.num_decoder_blocks)
    blocks = list(blocks) or before
    more = [new - old for new, old in zip(blocks, before, strict=False)]
    if len(blocks) != len(before) or min(more) < 0 or more[-1]:  # the last stage ends without the activation of a block
        raise ConfigError(
            f"decoder_blocks wants at least {before}, the released decoder's, and no more in the last stage; got "
            f"{blocks}."
        )
    deeper = AutoencoderTiny.from_config(vae.config, num_decoder_blocks=tuple(blocks))
    deeper.encoder.load_state_dict(vae.encoder.state_dict())
    old, stage = iter(vae.decoder.layers), 0
    seen = 0  # blocks of this stage
    for layer in deeper.decoder.layers:
        seen += isinstance(layer, AutoencoderTinyBlock)
        if isinstance(layer, nn.Upsample):
            stage, seen = stage + 1, 0
        if isinstance(layer, AutoencoderTinyBlock) and seen > before[stage]:
            last = cast(nn.Conv2d, cast(nn.Sequential, layer.conv)[-1])
            nn.init.zeros_(last.weight)
            nn.init.zeros_(cast(Tensor, last.bias))
        else:
            layer.load_state_dict(next(old).state_dict())
    return deeper


def polished(released: Path, tensors: dict[str, Tensor], blocks: Sequence[int]) -> dict[str, nn.Module]:
    """The models of a released folder with what a run has made better, by the tensors of its checkpoint."""
    unet = UNet2DConditionModel.from_pretrained(released / "unet", dtype=torch.float32)
    parts = averaged_tensors(tensors, "unet")
    names = sorted({name.partition(".")[0] for name in parts})
    learning_parts(unet, [name.replace("-", ".") for name in names]).load_state_dict(parts)
    vae = deepened(AutoencoderTiny.from_pretrained(released / "vae", dtype=torch.float32), blocks)
    vae.decoder.load_state_dict(averaged_tensors(tensors, "decoder"))
    text_encoder = CLIPTextModel.from_pretrained(released / "text_encoder", dtype=torch.float32)
    return {"unet": unet, "text_encoder": text_encoder, "vae": vae}


def train_polish(
    work: Path, settings: PolishSettings, released: Path, *, run_name: str = "polish", settings_text: str = ""
) -> Path:
    """Train, or go on training, to the configured number of steps."""
    run = Run(work / "runs" / run_name)
    training = PolishTraining(work, settings, run, released)
    return run_stage(training, settings, settings_text=settings_text)
