"""Text encoder and UNet, trained together: v-prediction (arXiv:2202.00512) on the very noise path that DDIM samples
along."""

from __future__ import annotations

import math
import random
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ... import files
from ...errors import NotFoundError, UnknownNameError
from ...models.autoencoders.autoencoder_tiny import AutoencoderTiny
from ...models.text_encoders.clip import CLIPTextModel
from ...models.unets.unet_2d_condition import UNet2DConditionModel
from ...schedulers import DDIMScheduler
from ...training.checkpoint import load_checkpoint
from ...training.loop import Run, train
from ...training.noise import draw_timesteps, generator_of
from ...training.pixels import to_bytes
from ...training.precision import autocast
from ...training.progress import Reporter
from ...training.sampling import denoise, sample_latents
from ...training.settings import load_settings
from ...training.sheets import save_sheet
from ...training.trainee import Trainee, averaged_tensors
from .collage import Collage
from .data import Item, ItemTable, load_items
from .data.scenes import KINDS, SceneDrawer
from .drawing import caption_random, draw_rows, drawing_weights, evenly, plain_caption
from .evaluation import conditional_losses, retrieval_ranks, top_k
from .kept_texts import KeptTexts
from .latents import SHAPE, Normal, load_teacher, open_store
from .settings import DiffusionSettings, Mixture, TextSettings
from .sketch_head import SketchHead
from .sketch_reading import ReadingLoss, write_reading
from .tokenizer import encode_batch, load_tokenizer, token_vectors
from .vocabulary import adopt_embedding, read_meanings


class DiffusionData:
    """Items, their latents in memory, and how they are drawn."""

    def __init__(self, work: Path, settings: TextSettings, tokenizer_folder: Path) -> None:
        self.table: ItemTable = load_items(work)
        self.tokenizer = load_tokenizer(tokenizer_folder)
        self.length = settings.text_encoder["max_position_embeddings"]
        store = open_store(work, self.table)
        self.normal: Normal = store.normal()
        wanted = drawing_weights(self.table.items, settings.mixture) > 0
        chosen, tiers = chosen_concepts(self.table, settings.mixture.concepts), settings.mixture.tiers
        self.items: list[Item] = [
            i
            for i in self.table.items
            if wanted[i.index] and store.done[i.index] and i.concept in chosen and i.tier in tiers
        ]
        if not self.items:
            raise NotFoundError("None of the items that the mixture draws is encoded. Run the `latents` stage first.")
        self.latents = store.read([item.index for item in self.items])
        self.weights = self.favoured(drawing_weights(self.items, settings.mixture), settings.mixture)
        self.settings = settings
        self.collage = self.make_collage(work, settings.mixture) if settings.mixture.scenes > 0 else None

    def make_collage(self, work: Path, mixture: Mixture) -> Collage:
        favourites = frozenset(chosen_concepts(self.table, mixture.favourites) if mixture.favourites else ())
        tiers = tuple(mixture.tiers) if mixture.beyond_core > 0 else (1,)
        kinds = chosen_kinds(mixture.scene_kinds)
        return Collage(work, SceneDrawer(self.table, favourites, mixture.favour_in_scenes, tiers, kinds), self.normal)

    def favoured(self, weights: Tensor, mixture: Mixture) -> Tensor:
        """The weights with the favourites drawn more often."""
        if not mixture.favourites:
            return weights
        favourites = chosen_concepts(self.table, mixture.favourites)
        often = torch.tensor([mixture.favour if item.concept in favourites else 1.0 for item in self.items])
        return weights * often / (weights * often).sum()

    def tokens(self, captions: Sequence[str]) -> Tensor:
        return torch.from_numpy(encode_batch(self.tokenizer, list(captions), self.length))

    def batch_at(self, step: int, draw: torch.Generator) -> tuple[Tensor, list[str]]:
        """Latents and varied captions of one step: scenes first, then single things."""
        seed, size = self.settings.seed, self.settings.batch_size
        scenes = self.scenes_at(step) if self.collage else []
        rows = draw_rows(self.weights, size - len(scenes), draw)
        singles = [
            self.draw_caption(self.items[row], caption_random(seed, step, slot))
            for slot, row in enumerate(rows.tolist(), start=len(scenes))
        ]
        latents = torch.cat([*(latents[None] for latents, _ in scenes), self.latents[rows]])
        return latents, [*(caption for _, caption in scenes), *singles]

    def draw_caption(self, item: Item, rng: random.Random) -> str:
        """A caption as people write it, or as the reader of sentences hands it to the model."""
        if rng.random() >= self.settings.plain_captions:
            return self.table.draw_caption(item, rng)
        return plain_caption(self.table, item, rng)

    def scenes_at(self, step: int) -> list[tuple[Tensor, str]]:
        """This step's scenes; the share is kept from step to step where it is no whole number."""
        assert self.collage is not None
        seed, share = self.settings.seed, self.settings.mixture.scenes * self.settings.batch_size
        count = int((step + 1) * share) - int(step * share)
        return [self.collage.draw(caption_random(seed, step, slot)) for slot in range(count)]

    def spread(self, count: int, **selection: Any) -> list[int]:
        """Rows of `count` items of a selection, evenly spaced."""
        rows = [
            row
            for row, item in enumerate(self.items)
            if all(getattr(item, key) == value for key, value in selection.items())
        ]
        return evenly(rows, count)


def chosen_kinds(shares: dict[str, float]) -> dict[str, float]:
    """The named kinds of scenes with their shares, or the usual ones."""
    for kind in shares:
        if kind not in KINDS:
            raise UnknownNameError("kind of scene in the mixture", kind, KINDS)
    return dict(shares or KINDS)


def chosen_concepts(table: ItemTable, names: Sequence[str]) -> set[str]:
    """The codes of the named concepts, or of all."""
    codes = {name: concept.code for concept in table.concepts.values() for name in concept.names}
    unknown = [name for name in names if name not in codes]
    if unknown:
        raise UnknownNameError("concept in the mixture", unknown[0], codes)
    return {codes[name] for name in names} or set(table.concepts)


def build_models(settings: DiffusionSettings, tokenizer_folder: Path) -> dict[str, nn.Module]:
    """Fresh models of the configured sizes."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        unet = UNet2DConditionModel(**settings.unet)
        unet.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        text_encoder = build_text_encoder(settings, tokenizer_folder)
    return {"unet": unet, "text_encoder": text_encoder}


def build_text_encoder(settings: TextSettings, tokenizer_folder: Path) -> CLIPTextModel:
    """A fresh text encoder for the tokenizer of a folder."""
    return CLIPTextModel(**{**settings.text_encoder, **vocabulary_config(tokenizer_folder)})


def vocabulary_config(tokenizer_folder: Path) -> dict[str, int]:
    """What the text encoder has to know of the tokenizer."""
    tokenizer = load_tokenizer(tokenizer_folder)
    marks = tokenizer.get_vocab()
    begin, end = marks["<|startoftext|>"], marks["<|endoftext|>"]
    return {"vocab_size": tokenizer.get_vocab_size(), "bos_token_id": begin, "eos_token_id": end, "pad_token_id": end}


def seed_words(text_encoder: nn.Module, work: Path, scale: float) -> None:
    """Words that have a vector start there, if the work folder has the tokenizer of this text encoder."""
    vectors, known = token_vectors(work)
    embedding = text_encoder.get_input_embeddings()  # type: ignore[operator]
    if len(vectors) == embedding.num_embeddings:
        seed_embedding(embedding, vectors, known, scale=scale)


@torch.no_grad()
def seed_embedding(embedding: nn.Embedding, vectors: Any, known: Any, scale: float) -> None:
    """Turn word vectors into the width of the embedding without changing their angles, at the given deviation."""
    source = torch.as_tensor(vectors, dtype=torch.float32)
    mask = torch.as_tensor(known, dtype=torch.bool)
    turn = torch.linalg.qr(torch.randn(embedding.embedding_dim, source.shape[1], generator=generator_of(2, 0)))[0]
    embedding.weight.normal_(std=scale, generator=generator_of(2, 1))
    if mask.any():
        turned = (source[mask] - source[mask].mean(0)) @ turn.T
        embedding.weight[mask] = turned * (scale / turned.std())


def pin_tokenizer(work: Path, run: Run) -> None:
    """A run keeps the tokenizer that it began with: other ids would make its text encoder worthless."""
    own, learned = run.folder / "tokenizer", work / "tokenizer"
    if own.is_dir():
        return
    if not learned.is_dir():
        raise NotFoundError(f"Wanted the tokenizer in {learned}, and it is not there. Run the stage `tokenizer` first.")
    shutil.copytree(learned, own)


class DiffusionTraining:
    """A run of this stage: data, models, loss of a step, evaluation."""

    def __init__(self, work: Path, settings: DiffusionSettings, run: Run, teacher_folder: Path) -> None:
        self.work, self.settings, self.run, self.teacher_folder = work, settings, run, teacher_folder
        pin_tokenizer(work, run)
        self.data = DiffusionData(work, settings, run.folder / "tokenizer")
        self.scheduler = DDIMScheduler(**settings.scheduler)
        self.trainee = Trainee(self.fresh_models(), settings.optimizer)
        self.forward = torch.compile(denoise) if settings.compile else denoise
        text_encoder = self.trainee.modules["text_encoder"]
        self.texts = KeptTexts(text_encoder, self.data.tokens, settings.bfloat16, settings.kept_texts)
        reads = settings.reading_weight > 0
        self.reading = ReadingLoss(self.trainee.modules["unet"], settings.fields) if reads else None
        self.autoencoder: AutoencoderTiny | None = None

    def fresh_models(self) -> dict[str, nn.Module]:
        """The models before the first step; the words that have a vector start there, so that likeness of words
        helps."""
        models = build_models(self.settings, self.run.folder / "tokenizer")
        models["unet"].set_attention_backend("native_math")  # type: ignore[operator]  # texts and maps are short: 1.1 x
        if self.settings.word_vectors > 0 and not self.run.checkpoint.is_file():
            seed_words(models["text_encoder"], self.work, self.settings.word_vectors)
        return models

    def loss_at(self, step: int) -> Tensor:
        """The loss of one step: everything random in it follows from (seed, step)."""
        settings, data = self.settings, self.data
        draw = generator_of(settings.seed, step)
        latents, captions = data.batch_at(step, draw)
        count = len(latents)
        noise = torch.randn(latents.shape, generator=draw)
        timesteps = draw_timesteps(count, self.scheduler.config.num_train_timesteps, settings.noise_power, draw)
        timesteps = timesteps[torch.randperm(count, generator=draw)]  # scenes come first, strata do, too
        empty = torch.rand(count, generator=draw) < settings.empty_captions  # what guidance steers away from
        captions = ["" if nothing else text for text, nothing in zip(captions, empty.tolist(), strict=True)]
        if settings.astray > 0:
            noise = noise + self.astray(latents, timesteps, draw)
        noisy = self.scheduler.add_noise(latents, noise, timesteps).contiguous(memory_format=torch.channels_last)
        modules = self.trainee.modules
        if settings.frozen_words:
            hidden = self.texts.hidden(captions)
        else:
            hidden = modules["text_encoder"](data.tokens(captions), return_dict=False)[0]
        with autocast(settings.bfloat16):
            output = self.forward(modules["unet"], noisy, timesteps, hidden)
        loss = F.mse_loss(output.float(), self.scheduler.get_velocity(latents, noise, timesteps))
        return loss if self.reading is None else loss + settings.reading_weight * self.reading.take()

    def astray(self, latents: Tensor, timesteps: Tensor, draw: torch.Generator) -> Tensor:
        """What of another picture is in the noise. Over several steps a sampler meets its own errors, which look like
        parts of pictures; whoever takes them for true goes on to draw them."""
        share = self.settings.astray * torch.rand((len(latents), 1, 1, 1), generator=draw)
        kept = self.scheduler.alphas_cumprod[timesteps].sqrt().view(-1, 1, 1, 1)
        return share * kept * (latents.roll(1, 0) - latents)

    @torch.no_grad()
    def examples(self, count: int = 6) -> tuple[Callable[[], Tensor], Tensor]:
        """What runs the UNet on a few batches of noisy latents, and the hidden states of their captions."""
        draws = [generator_of(self.settings.seed, step) for step in range(count)]
        batches = [self.data.batch_at(step, draw) for step, draw in enumerate(draws)]
        latents = torch.cat([latents for latents, _ in batches])
        captions = [caption for _, captions in batches for caption in captions]
        hidden = self.trainee.modules["text_encoder"](self.data.tokens(captions), return_dict=False)[0]
        steps = self.scheduler.config.num_train_timesteps
        timesteps = draw_timesteps(len(latents), steps, self.settings.noise_power, draws[0])
        noisy = self.scheduler.add_noise(latents, torch.randn(latents.shape, generator=draws[0]), timesteps)
        return lambda: denoise(self.trainee.modules["unet"], noisy, timesteps, hidden), hidden

    def evaluate(self, reporter: Reporter) -> dict[str, float]:
        """Losses with right and wrong captions, retrieval in latent space, and a sheet of fixed prompts."""
        started, settings = time.monotonic(), self.settings.evaluation
        data, modules = self.data, self.trainee.averaged
        rows = data.spread(settings.loss_items)
        tokens = data.tokens([data.table.caption(data.items[row]) for row in rows])
        right, wrong = conditional_losses(modules, self.scheduler, data.latents[rows], tokens)
        numbers = {"eval_loss": right, "shuffled_loss": wrong, **self.retrieval()}
        self.sheet(self.run.folder / "sheets" / f"{self.trainee.step:07d}.png")
        reporter.note(self.trainee.step, **numbers, evaluation_seconds=time.monotonic() - started)
        return numbers

    def retrieval(self) -> dict[str, float]:
        """Top-1 and top-5: the nearest base pictures of the style asked for, over all its concepts in the core."""
        data, by_style = self.data, defaultdict(list)
        rows = data.spread(self.settings.evaluation.retrieval_items, kind="base", mirror=False, core=True)
        tokens = data.tokens([data.table.caption(data.items[row]) for row in rows])
        samples = self.sample(tokens)
        ranks: list[int] = []
        for index, row in enumerate(rows):
            by_style[data.items[row].style].append(index)
        for style, indices in by_style.items():
            gallery = [
                r for r, item in enumerate(data.items) if item.style == style and item.kind == "base" and item.core
            ]
            concepts = [data.items[r].concept for r in gallery]
            wanted = [data.items[rows[index]].concept for index in indices]
            ranks += retrieval_ranks(samples[indices], wanted, data.latents[gallery], concepts)
        return {"top1": top_k(ranks, 1), "top5": top_k(ranks, 5)}

    def sample(self, tokens: Tensor) -> Tensor:
        """Latents from the averaged weights."""
        evaluation, unet = self.settings.evaluation, self.settings.unet
        shape = (unet["in_channels"], unet["sample_size"], unet["sample_size"])
        empty = self.data.tokens([""])
        parts = [
            sample_latents(
                self.trainee.averaged, self.scheduler.config, part, empty,
                shape=shape, steps=evaluation.steps, guidance=evaluation.guidance, seed=evaluation.seed,
            )
            for part in tokens.split(16)
        ]  # fmt: skip
        return torch.cat(parts)

    @torch.inference_mode()
    def sheet(self, path: Path, prompts: Sequence[str] | None = None) -> Path:
        """The fixed prompts, or others, as pictures, through the teacher's decoder."""
        prompts = prompts or self.settings.evaluation.prompts
        latents = self.data.normal.restore(self.sample(self.data.tokens(prompts)))
        self.autoencoder = self.autoencoder or load_teacher(self.teacher_folder)
        return save_sheet(path, to_bytes(self.autoencoder.decode(latents, return_dict=False)[0]), prompts)


def train_diffusion(
    work: Path,
    settings: DiffusionSettings,
    *,
    run_name: str = "main",
    teacher_folder: Path,
    steps: int | None = None,
    start_from: str | None = None,
    sketch: str | None = None,
    decay_steps: int = 0,
    settings_text: str = "",
) -> Path:
    """Train, or go on training, with the text encoder of a run that has learned to sketch if one is named; with
    `decay_steps` the learning rate falls to its end over that many steps."""
    run = Run(work / "runs" / run_name)
    source = None
    if sketch is not None and not run.folder.exists():
        require_run(work / "runs" / sketch)
        shutil.copytree(work / "runs" / sketch / "tokenizer", run.folder / "tokenizer")
    if start_from is not None and not (Path(start_from) / "model_index.json").is_file():
        require_run(work / "runs" / start_from)
        source = work / "runs" / start_from / "checkpoint.safetensors"
        if not run.folder.exists():
            shutil.copytree(work / "runs" / start_from / "tokenizer", run.folder / "tokenizer")
    training = DiffusionTraining(work, settings, run, teacher_folder)
    is_new = not run.checkpoint.is_file()
    if not run.resume(training.trainee, source):
        if start_from is not None:
            adopt_release(training, Path(start_from), words=sketch is None)
        if sketch is not None:
            adopt_sketch(training, work / "runs" / sketch / "checkpoint.safetensors")
    elif is_new and sketch is not None:  # the UNet of another run finds the fields already
        adopt_words(training, load_checkpoint(work / "runs" / sketch / "checkpoint.safetensors")[0])
    if decay_steps:
        run.begin_decay(training.trainee.step, decay_steps)
    describe(training, settings_text)
    train(
        training.trainee, run, training.loss_at, title=f"diffusion {run_name}", batch_size=settings.batch_size,
        until=steps, cadence=settings.cadence, evaluate=training.evaluate,
    )  # fmt: skip
    return run.checkpoint


@torch.no_grad()
def adopt_release(training: DiffusionTraining, folder: Path, *, words: bool = True) -> None:
    """Begin with the weights of a released folder as far as their shapes fit, with its `words` or its UNet alone;
    tokens that it does not have take the embedding of what they mean."""
    unet = UNet2DConditionModel.from_pretrained(folder / "unet", dtype=torch.float32)
    for modules in (training.trainee.modules, training.trainee.averaged):
        load_fitting(modules["unet"], unet.state_dict())
    if not words:
        return
    wider, narrower = training.data.tokenizer, load_tokenizer(folder / "tokenizer")
    text_encoder = CLIPTextModel.from_pretrained(folder / "text_encoder", dtype=torch.float32)
    released = text_encoder.get_input_embeddings().weight
    stored = {name: value for name, value in text_encoder.state_dict().items() if value.shape != released.shape}
    for modules in (training.trainee.modules, training.trainee.averaged):
        embedding = modules["text_encoder"].get_input_embeddings()  # type: ignore[operator]
        adopt_embedding(embedding, wider, released, narrower, read_meanings(training.work))
        modules["text_encoder"].load_state_dict(stored, strict=False)


def load_fitting(module: nn.Module, stored: Mapping[str, Tensor]) -> None:
    """The stored tensors whose shapes are the module's; what reads a text of another width begins anew."""
    shapes = {name: value.shape for name, value in module.state_dict().items()}
    module.load_state_dict({name: value for name, value in stored.items() if value.shape == shapes[name]}, strict=False)


def adopt_sketch(training: DiffusionTraining, checkpoint: Path) -> None:
    """Begin with a text encoder that has learned to sketch, and a UNet that finds its fields."""
    tensors, _ = load_checkpoint(checkpoint)
    averaged = averaged_tensors(tensors, "sketch")
    values, width = averaged["out.weight"].shape
    head = SketchHead(width, fields=int((math.prod(SHAPE) // values) ** 0.5))
    head.load_state_dict(averaged)
    adopt_words(training, tensors)
    unet, averaged_unet = (modules["unet"] for modules in (training.trainee.modules, training.trainee.averaged))
    write_reading(unet, head, *training.examples())
    averaged_unet.load_state_dict(unet.state_dict())


def adopt_words(training: DiffusionTraining, tensors: Mapping[str, Tensor]) -> None:
    """Go on with the text encoder of a sketch's checkpoint."""
    for modules in (training.trainee.modules, training.trainee.averaged):
        modules["text_encoder"].load_state_dict(averaged_tensors(tensors, "text_encoder"))


def draw_sheet(
    work: Path, run_name: str, teacher_folder: Path, target: Path, prompts: Sequence[str] | None = None
) -> Path:
    """Pictures of a run as far as it has come; the run itself stays as it is."""
    run = Run(work / "runs" / run_name)
    training = DiffusionTraining(work, settings_of(work, run_name), run, teacher_folder)
    run.resume(training.trainee)
    return training.sheet(target, prompts)


def settings_of(work: Path, run_name: str) -> DiffusionSettings:
    """The settings that a run was last started with."""
    folder = work / "runs" / run_name
    require_run(folder)
    return load_settings(DiffusionSettings, folder / "settings.toml")


def require_run(folder: Path) -> None:
    if not (folder / "checkpoint.safetensors").is_file():
        known = ", ".join(sorted(p.name for p in folder.parent.glob("*") if p.is_dir())) or "none"
        raise NotFoundError(f"There is no run {folder.name!r} with a checkpoint. Runs: {known}.")


def describe(training: DiffusionTraining, settings_text: str) -> None:
    """Say what is about to be trained, and keep the settings beside the checkpoint."""
    sizes = {name: sum(p.numel() for p in module.parameters()) for name, module in training.trainee.modules.items()}
    shown = ", ".join(f"{name} {size / 1e6:.2f} M" for name, size in sizes.items())
    print(f"{shown} parameters; {len(training.data.items)} pictures; from step {training.trainee.step}", flush=True)
    if settings_text:
        files.write_text(training.run.folder / "settings.toml", settings_text)
        files.write_text(training.run.folder / f"settings-from-{training.trainee.step:07d}.toml", settings_text)
