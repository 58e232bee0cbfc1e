"""LoRA (arXiv:2106.09685): teach a model a few pictures by small additions to its weights.

The folder of pictures has a caption for each: a text file of the same name beside it, or one `metadata.jsonl` with
`file_name` and `text` per line. The result is one safetensors file with the names that the field uses
(`unet.….lora_A.weight`), loadable by `load_lora_weights`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, UnidentifiedImageError
from safetensors.torch import save_file
from torch import Tensor, nn

from .. import files
from ..errors import BackendError, ConfigError, FileFormatError, InputError, NotFoundError
from ..pipelines.pipeline import DiffusionPipeline
from ..training.loop import Run, train
from ..training.noise import draw_timesteps, generator_of
from ..training.pixels import to_bytes, to_pixels
from ..training.precision import autocast
from ..training.progress import Reporter
from ..training.sampling import sample_latents
from ..training.settings import TrainingSettings
from ..training.sheets import save_sheet
from ..training.trainee import Trainee

PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp")
CONFIGS = Path(__file__).parent / "configs"
WEIGHTS_NAME = "pytorch_lora_weights.safetensors"


@dataclass(frozen=True)
class LoraSettings(TrainingSettings):
    """What a LoRA is made of; `targets` are the ends of the names of the layers that get one."""

    rank: int = 16
    targets: list[str] = field(default_factory=lambda: ["to_q", "to_k", "to_v", "to_out.0"])
    steps: int = 300
    decay_share: float = 0.5
    batch_size: int = 8
    noise_power: float = 0.7
    empty_captions: float = 0.1
    mirrored: bool = True
    guidance: float = 4.0
    sample_steps: int = 20
    prompts: list[str] = field(default_factory=list)


def read_captioned_folder(folder: Path) -> list[tuple[Path, str]]:
    """Pictures and their captions, in the order of their names."""
    if not folder.is_dir():
        raise NotFoundError(f"Wanted a folder of pictures with captions, and there is none at {folder}.")
    listed = folder / "metadata.jsonl"
    if listed.is_file():
        pairs = [
            _captioned(folder, line, number)
            for number, line in enumerate(listed.read_text("utf-8").splitlines(), 1)
            if line
        ]
    else:
        paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in PICTURES)
        pairs = [(path, _caption_beside(path)) for path in paths]
    if not pairs:
        raise NotFoundError(
            f"No pictures in {folder}. Wanted files that end in {', '.join(PICTURES)}, each with a caption."
        )
    return pairs


def _captioned(folder: Path, line: str, number: int) -> tuple[Path, str]:
    try:
        record = json.loads(line)
        path, caption = folder / record["file_name"], record["text"]
    except (json.JSONDecodeError, KeyError, TypeError) as problem:
        raise FileFormatError(
            f'{folder / "metadata.jsonl"}, line {number}: wanted {{"file_name": …, "text": …}}: {problem!r}.'
        ) from None
    if not path.is_file():
        raise NotFoundError(f"metadata.jsonl names {record['file_name']!r}, and it is not in {folder}.")
    return path, caption


def _caption_beside(path: Path) -> str:
    text = path.with_suffix(".txt")
    if not text.is_file():
        raise NotFoundError(
            f"{path.name} has no caption: wanted {text.name} beside it, or a metadata.jsonl in the folder."
        )
    return text.read_text(encoding="utf-8").strip()


def read_picture(path: Path, side: int) -> np.ndarray:
    """uint8 [side, side, 3]: on white where it is transparent, the middle square, resized."""
    try:
        with Image.open(path) as opened:
            picture = opened.convert("RGBA")
    except UnidentifiedImageError:
        raise FileFormatError(f"{path} is not a picture that can be read.") from None
    flat = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")
    edge = min(flat.size)
    left, top = (flat.width - edge) // 2, (flat.height - edge) // 2
    return np.asarray(flat.crop((left, top, left + edge, top + edge)).resize((side, side), Image.Resampling.LANCZOS))


class Adapter(nn.Module):
    """The LoRA parameters of a model as a module of their own, so that only they are averaged, stored and trained."""

    def __init__(self, model: nn.Module, rank: int, targets: Sequence[str], seed: int) -> None:
        super().__init__()
        try:
            from peft import LoraConfig, inject_adapter_in_model
        except ImportError as problem:
            raise BackendError(
                "Training a LoRA wants peft, and it is not installed. Install `lockstep-diffusion[lora]`."
            ) from problem
        if not any(name.endswith(f".{target}") for name, _ in model.named_modules() for target in targets):
            raise ConfigError(
                f"No layer of {type(model).__name__} has a name that ends in {', '.join(targets)}. Choose other "
                "targets."
            )
        model.requires_grad_(False)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            inject_adapter_in_model(LoraConfig(r=rank, lora_alpha=rank, target_modules=list(targets)), model)
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                self.register_parameter(name.replace(".", "/"), parameter)

    def published(self) -> dict[str, Tensor]:
        """Copies of the weights by the names that LoRA files use."""
        return {
            f"unet.{name.replace('/', '.').replace('.default.', '.')}": parameter.detach().clone().contiguous()
            for name, parameter in self.named_parameters()
        }


class LoraTraining:
    """A run of this stage: pictures, frozen model, adapter."""

    def __init__(self, model: str | Path, pictures: Path, settings: LoraSettings, run: Run) -> None:
        self.settings, self.run = settings, run
        self.pairs = read_captioned_folder(pictures)
        pipe = DiffusionPipeline.from_pretrained(model, dtype=torch.float32)
        self.unet, self.vae, self.text_encoder = pipe.unet, pipe.vae, pipe.text_encoder
        self.tokenizer, self.scheduler = pipe.tokenizer, pipe.scheduler
        self.latents = self.encode_pictures()
        self.hidden = self.encode_texts([caption for _, caption in self.pairs])
        self.empty = self.encode_texts([""])
        self.adapter = Adapter(self.unet, settings.rank, settings.targets, settings.seed)
        self.trainee = Trainee({"lora": self.adapter}, settings.optimizer)

    @torch.inference_mode()
    def encode_pictures(self) -> Tensor:
        """Latents of every picture and, if wanted, of its mirror image: [pictures, 1 or 2, C, h, w]."""
        factor = 2 ** (len(self.vae.config.block_out_channels) - 1)
        side = self.unet.config.sample_size * factor
        both = []
        for path, _ in self.pairs:
            picture = read_picture(path, side)
            both.append([picture, picture[:, ::-1]] if self.settings.mirrored else [picture])
        parts = [self.encode(to_pixels(np.stack(views))) for views in both]
        return torch.stack(parts)

    def encode(self, pixels: Tensor) -> Tensor:
        found = self.vae.encode(pixels)
        latents = found.latents if hasattr(found, "latents") else found.latent_dist.mode()
        return latents * self.vae.config.scaling_factor

    def tokens(self, texts: Sequence[str]) -> Tensor:
        length = self.tokenizer.model_max_length
        return self.tokenizer(
            list(texts), padding="max_length", truncation=True, max_length=length, return_tensors="pt"
        ).input_ids

    @torch.inference_mode()
    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        return self.text_encoder(self.tokens(texts), return_dict=False)[0]

    def loss_at(self, step: int) -> Tensor:
        """The loss of one step, from (seed, step) alone."""
        settings, scheduler = self.settings, self.scheduler
        draw = generator_of(settings.seed, step)
        rows = torch.randint(len(self.latents), (settings.batch_size,), generator=draw)
        views = torch.randint(self.latents.shape[1], (settings.batch_size,), generator=draw)
        latents = self.latents[rows, views].clone()
        noise = torch.randn(latents.shape, generator=draw)
        timesteps = draw_timesteps(len(rows), scheduler.config.num_train_timesteps, settings.noise_power, draw)
        without = torch.rand(len(rows), generator=draw) < settings.empty_captions
        hidden = torch.where(without[:, None, None], self.empty, self.hidden[rows])
        noisy = scheduler.add_noise(latents, noise, timesteps)
        with autocast():
            output = self.unet(noisy, timesteps, encoder_hidden_states=hidden, return_dict=False)[0]
        return F.mse_loss(output.float(), self.target(latents, noise, timesteps))

    def target(self, latents: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        kind = self.scheduler.config.prediction_type
        if kind == "v_prediction":
            return self.scheduler.get_velocity(latents, noise, timesteps)
        return {"epsilon": noise, "sample": latents}[kind]

    @contextmanager
    def weights(self, values: Sequence[Tensor]) -> Iterator[None]:
        """The model with other adapter weights for a moment."""
        own = [parameter.detach().clone() for parameter in self.adapter.parameters()]
        try:
            self._assign(values)
            yield
        finally:
            self._assign(own)

    @torch.no_grad()
    def _assign(self, values: Sequence[Tensor]) -> None:
        for parameter, value in zip(self.adapter.parameters(), values, strict=True):
            parameter.copy_(value)

    @torch.inference_mode()
    def evaluate(self, reporter: Reporter) -> None:
        """A sheet: the prompts by the model as it was, and with the averaged adapter."""
        prompts = self.settings.prompts or list(dict.fromkeys(caption for _, caption in self.pairs))[:8]
        before = [torch.zeros_like(parameter) for parameter in self.adapter.parameters()]
        rows: list[np.ndarray] = []
        for values in (before, list(self.trainee.averaged["lora"].parameters())):
            with self.weights(values):
                rows += list(self.sample(prompts))
        labels = [f"{when}: {prompt}" for when in ("before", "after") for prompt in prompts]
        path = save_sheet(
            self.run.folder / "sheets" / f"{self.trainee.step:07d}.png", rows, labels, columns=len(prompts)
        )
        reporter.note(self.trainee.step, sheet=str(path))

    def sample(self, prompts: Sequence[str]) -> np.ndarray:
        unet = self.unet.config
        latents = sample_latents(
            {"unet": self.unet, "text_encoder": self.text_encoder},
            self.scheduler.config,
            self.tokens(prompts),
            self.tokens([""]),
            shape=(unet.in_channels, unet.sample_size, unet.sample_size),
            steps=self.settings.sample_steps,
            guidance=self.settings.guidance,
        )
        return to_bytes(self.vae.decode(latents / self.vae.config.scaling_factor, return_dict=False)[0])


def train_lora(model: str | Path, pictures: Path, output: Path, settings: LoraSettings) -> Path:
    """Train a LoRA on a folder of pictures; a run that was stopped goes on. Returns the file to load."""
    if output.is_file():
        raise InputError(f"The LoRA wants a folder to write to, but {output} is a file.")
    run = Run(output / "training")
    training = LoraTraining(model, pictures, settings, run)
    run.resume(training.trainee)
    falling = int(settings.steps * settings.decay_share)
    run.begin_decay(settings.steps - falling, falling)
    size = sum(parameter.numel() for parameter in training.adapter.parameters())
    print(
        f"LoRA of {size / 1e3:.0f} k parameters; {len(training.pairs)} pictures; from step {training.trainee.step}",
        flush=True,
    )
    train(
        training.trainee, run, training.loss_at, title="lora", batch_size=settings.batch_size, until=settings.steps,
        cadence=settings.cadence, evaluate=training.evaluate,
    )  # fmt: skip
    averaged: Any = training.trainee.averaged["lora"]
    with files.atomic(output / WEIGHTS_NAME) as temporary:
        save_file(averaged.published(), temporary, metadata={"format": "pt"})
    return output / WEIGHTS_NAME
