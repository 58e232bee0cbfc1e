"""Folders to single files and back: every tensor bit for bit, and the small files in the header of the single file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from .. import files
from ..errors import InputError, LoadError, UnsupportedError, WeightsError
from ..models.autoencoders.autoencoder_kl import AutoencoderKL
from ..models.autoencoders.autoencoder_kl_ltx_video import AutoencoderKLLTXVideo
from ..models.autoencoders.autoencoder_kl_qwen_image import AutoencoderKLQwenImage
from ..models.autoencoders.autoencoder_kl_wan import AutoencoderKLWan
from ..models.autoencoders.autoencoder_tiny import AutoencoderTiny
from ..models.controlnets.controlnet import ControlNetModel
from ..models.modeling import ModelMixin
from ..models.text_encoders.clip import CLIPTextModel, CLIPTextModelWithProjection
from ..models.text_encoders.qwen2_5_vl import Qwen2_5_VLForConditionalGeneration
from ..models.text_encoders.qwen3 import Qwen3Model
from ..models.text_encoders.t5 import T5EncoderModel, UMT5EncoderModel
from ..models.transformers.transformer_flux import FluxTransformer2DModel
from ..models.transformers.transformer_ltx_video import LTXVideoTransformer3DModel
from ..models.transformers.transformer_qwen_image import QwenImageTransformer2DModel
from ..models.transformers.transformer_sd3 import SD3Transformer2DModel
from ..models.transformers.transformer_wan import WanTransformer3DModel
from ..models.transformers.transformer_z_image import ZImageTransformer2DModel
from ..models.unets.unet_2d_condition import UNet2DConditionModel
from ..models.weights import MappedFiles, StoredTensor, check_tensors, open_folder, parse_size
from ..tokenizers import CLIPTokenizer
from ..tokenizers.clip import published_merges
from .checkpoint import open_checkpoint
from .detect import known_families
from .folder_files import FOLDER_KEY
from .header import container_of, is_checkpoint
from .parts import DENOISERS, ROLES, Part
from .single_file import CLASSES, TOKENIZER_FILES, SingleFile, component_of, weight_map
from .streaming import Report, num_bytes, write_safetensors, write_weights

MODELS: dict[str, type[ModelMixin]] = {
    kind.__name__: kind
    for kind in (
        UNet2DConditionModel,
        AutoencoderKL,
        CLIPTextModel,
        CLIPTextModelWithProjection,
        ControlNetModel,
        AutoencoderTiny,
        FluxTransformer2DModel,
        SD3Transformer2DModel,
        WanTransformer3DModel,
        AutoencoderKLWan,
        T5EncoderModel,
        UMT5EncoderModel,
        ZImageTransformer2DModel,
        Qwen3Model,
        QwenImageTransformer2DModel,
        AutoencoderKLQwenImage,
        Qwen2_5_VLForConditionalGeneration,
        LTXVideoTransformer3DModel,
        AutoencoderKLLTXVideo,
    )
}
LONE = {
    "UNet2DConditionModel": ("unet", "original", ""),
    "AutoencoderKL": ("vae", "original", ""),
    "AutoencoderTiny": ("tiny", "original", ""),
    "ControlNetModel": ("controlnet", "original", "control_model."),
    "FluxTransformer2DModel": ("flux", "original", ""),
    "SD3Transformer2DModel": ("sd3", "original", "model.diffusion_model."),
    "CLIPTextModel": ("text", "clip", ""),
    "CLIPTextModelWithProjection": ("text", "open_clip", ""),
    "WanTransformer3DModel": ("wan", "original", ""),
    "AutoencoderKLWan": ("wan_vae", "original", ""),
    "T5EncoderModel": ("t5", "published", ""),
    "UMT5EncoderModel": ("umt5", "published", ""),
    "ZImageTransformer2DModel": ("z_image", "original", ""),
    "Qwen3Model": ("qwen3", "published", "model."),
    "QwenImageTransformer2DModel": ("qwen_image", "published", ""),
    "AutoencoderKLQwenImage": ("wan_vae", "original", ""),
    "Qwen2_5_VLForConditionalGeneration": ("qwen2_5_vl", "original", ""),
    "LTXVideoTransformer3DModel": ("ltx", "original", ""),
    "AutoencoderKLLTXVideo": ("ltx_vae", "original", ""),
}
FAMILY_OF = {  # class of a denoiser -> the family whose layout its pipelines are written in
    "FluxTransformer2DModel": "flux",
    "SD3Transformer2DModel": "sd3",
    "WanTransformer3DModel": "wan",
    "ZImageTransformer2DModel": "z_image",
    "QwenImageTransformer2DModel": "qwen_image",
    "LTXVideoTransformer3DModel": "ltx",
}
SHARD_SIZE = "10GB"
MAX_SMALL_FILE = 16 * 2**20
SMALL_ENDINGS = (".json", ".txt", ".md", ".model")


@dataclass
class Conversion:
    """What is written: told before it happens, and reported on while it does."""

    source: Path
    target: Path
    dtype: torch.dtype | None = None
    max_shard_size: int = 10 * 10**9
    notes: list[str] = field(default_factory=list)
    report: Callable[[int, int], None] = lambda done, total: None  # bytes written, of how many
    change: Callable[[str, dict[str, StoredTensor]], dict[str, StoredTensor]] = lambda component, stored: stored
    _done: int = 0
    _total: int = 0

    def expect(self, stored: Mapping[str, StoredTensor]) -> None:
        self._total += sum(num_bytes(tensor, self.dtype) for tensor in stored.values())

    def progress(self) -> Report:
        def wrote(count: int) -> None:
            self._done += count
            self.report(self._done, self._total)

        return wrote


def convert(
    source: str | Path,
    target: str | Path,
    *,
    to: str | None = None,
    dtype: torch.dtype | None = None,
    max_shard_size: int | str | None = None,
    allow_pickle: bool = False,
    family: str | None = None,
    prediction_type: str | None = None,
    config: str | Path | None = None,
    variant: str | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Conversion:
    """Write a folder or a file anew as a folder or a single file; nothing of it shows until all of it is written."""
    source, target = Path(source), Path(target)
    wanted = to or ("single" if is_checkpoint(target) else "folder")
    if wanted not in ("single", "folder"):
        raise InputError(f"A conversion goes to 'single' or 'folder', got {to!r}.")
    files.require_there(source)
    check_target(source, target, wanted)
    if max_shard_size is not None and wanted == "single":
        raise InputError("A single file has no shards: max_shard_size is for folders.")
    if dtype not in (None, torch.float32, torch.bfloat16, torch.float16):
        raise InputError(f"Weights are written in float32, bfloat16, float16 or as they are ('keep'), got {dtype}.")
    job = Conversion(source, target, dtype, parse_size(max_shard_size or SHARD_SIZE), report=report)
    options = {"config": config, "family": family, "prediction_type": prediction_type, "allow_pickle": allow_pickle}
    if source.is_dir():
        (folder_to_single if wanted == "single" else folder_to_folder)(job, variant)
    elif wanted == "single":
        file_to_file(job, allow_pickle)
    else:
        single_to_folder(job, SingleFile(source, **options, opened=MappedFiles(copies=True)))  # type: ignore[arg-type]
    return job


def check_target(source: Path, target: Path, wanted: str) -> None:
    if wanted == "single" and target.suffix not in (".safetensors", ".sft"):
        raise InputError(f"A single file is written as safetensors; give a name that ends so, got {target.name!r}.")
    if wanted == "folder" and (target.is_file() or (target.is_dir() and any(target.iterdir()))):
        raise InputError(f"{target} is there already and is not an empty folder. Choose another name.")
    if wanted == "single" and target.exists():
        raise InputError(f"{target} is there already. Choose another name, or remove it first.")
    if source.resolve() in (target.resolve(), *target.resolve().parents):
        raise InputError(f"{source} cannot be written over itself, nor into itself. Choose another place.")


# ---- to a single file ----


def folder_to_single(job: Conversion, variant: str | None) -> None:
    """A pipeline's folder (or one model's) as a file in the original layout."""
    index = job.source / "model_index.json"
    opened = MappedFiles(copies=True)
    stored: dict[str, StoredTensor] = {}
    if index.is_file():
        models = {name: model_of(job.source / name) for name in component_names(job.source, files.read_json(index))}
        family = family_of(models)
        known = known_families()[family]
        for name, (kind, config) in models.items():
            if name not in known["places"] or kind.__name__ not in _classes_at(known, name):
                raise UnsupportedError(
                    f"The original layout of {family} has no place for the component {name!r} ({kind.__name__}). "
                    f"Convert it by itself (lockstep convert {job.source / name} …), and the others without it."
                )
            layout, prefix = known["places"][name]
            part = Part(LONE[kind.__name__][0], layout, prefix, {})
            stored |= original_tensors(job.source / name, kind, config, part, variant, opened)
        small = small_files(job.source, job.notes)
        for name in component_names(job.source, files.read_json(index), known=False):
            said = class_name(files.read_json(job.source / name / "config.json"))
            job.notes.append(f"left out: {name} ({said}), which the original layout has no place for")
            small = {key: text for key, text in small.items() if not key.startswith(f"{name}/")}
            small[index.name] = json.dumps({**json.loads(small[index.name]), name: [None, None]}, indent=2) + "\n"
        metadata = {"modelspec.architecture": known["architecture"], FOLDER_KEY: json.dumps(small)}
        if "unet" in models:  # what flow matching predicts needs no telling
            metadata["modelspec.prediction_type"] = told_prediction(job.source)
    else:
        kind, config = model_of(job.source)
        if kind.__name__ not in LONE:
            raise UnsupportedError(f"There is no single-file layout for {kind.__name__}.")
        part = Part(*LONE[kind.__name__], {})
        stored = original_tensors(job.source, kind, config, part, variant, opened)
        component = ROLES.get(part.kind, part.kind)
        component += "_2" if kind is CLIPTextModelWithProjection else ""
        small = {f"{component}/{name}": text for name, text in small_files(job.source, job.notes).items()}
        metadata = {FOLDER_KEY: json.dumps(small)}
    job.expect(stored)
    write_safetensors(job.target, stored, dtype=job.dtype, metadata=metadata, report=job.progress())


def told_prediction(folder: Path) -> str:
    """What a folder's scheduler says that the denoiser predicts, as the metadata of single files call it."""
    scheduler = folder / "scheduler" / "scheduler_config.json"
    said = files.read_json(scheduler).get("prediction_type", "epsilon") if scheduler.is_file() else "epsilon"
    return {"v_prediction": "v"}.get(str(said), str(said))


def _classes_at(family: Mapping[str, Any], component: str) -> list[str]:
    """The classes that a component of a family may have."""
    said = family.get("classes", {}).get(component)
    role = component.rstrip("_0123456789")
    return [said] if said else [name for kind, name in CLASSES.items() if ROLES.get(kind, kind) == role]


def original_tensors(
    folder: Path,
    kind: type[ModelMixin],
    config: Mapping[str, Any],
    part: Part,
    variant: str | None,
    opened: MappedFiles,
) -> dict[str, StoredTensor]:
    """The weights of a folder in the original layout, under their prefix, none of them read yet."""
    ours = kind.stored_tensors(open_folder(folder, kind.weights_name, variant))
    full = dict(kind.on_meta(config).config)
    if part.layout == "published":
        return {part.prefix + name: tensor for name, tensor in ours.items()}
    theirs = weight_map(part, full, kind is CLIPTextModelWithProjection).to_theirs(ours, opened)
    return {part.prefix + name: tensor for name, tensor in theirs.items()}


def component_names(folder: Path, index: Mapping[str, Any], known: bool = True) -> list[str]:
    """The components of an index that are models whose class is known here, or those whose class is not."""
    entries = [name for name, entry in index.items() if isinstance(entry, list) and entry and entry[0] is not None]
    models = [name for name in entries if (folder / name / "config.json").is_file()]
    return [name for name in models if (class_name(files.read_json(folder / name / "config.json")) in MODELS) == known]


def class_name(config: Mapping[str, Any]) -> str | None:
    """The class that a config is of."""
    return config.get("_class_name") or next(iter(config.get("architectures") or []), None)


def model_of(folder: Path) -> tuple[type[ModelMixin], dict[str, Any]]:
    """The class and the config of a model's folder."""
    config = files.read_json(folder / "config.json")
    name = class_name(config)
    if name is None or name not in MODELS:
        raise UnsupportedError(f"{folder} holds a {name or 'model without a class name'}, which is not converted.")
    return MODELS[name], config


def family_of(models: Mapping[str, tuple[type[ModelMixin], Mapping[str, Any]]]) -> str:
    """Which original layout a pipeline's folder goes to."""
    if "transformer_2" in models:
        raise UnsupportedError(
            "The original layout has a file for each of two experts: convert the folders transformer and "
            "transformer_2 by themselves."
        )
    if "transformer" in models and models["transformer"][0].__name__ in FAMILY_OF:
        return FAMILY_OF[models["transformer"][0].__name__]
    if "unet" not in models:
        raise LoadError(f"A single file wants a denoiser; the folder has: {', '.join(models) or 'no model'}.")
    config = models["unet"][1]
    if config.get("addition_embed_type") == "text_time":
        return "sdxl" if {"text_encoder", "text_encoder_2"} <= set(models) else "refiner"
    return "sd2" if config.get("use_linear_projection") else "sd1"


def small_files(folder: Path, notes: list[str]) -> dict[str, str]:
    """Configs and tokenizers of a folder by name; CLIP's published vocabulary is left out, because Lockstep has it.

    What is too large for a header, or no text, is told; a SentencePiece model beside its tokenizer.json says the same.
    """
    found = {}
    for path in sorted([*folder.glob("*"), *folder.glob("*/*")], key=lambda path: (path.suffix == ".model", path)):
        name = path.relative_to(folder).as_posix()
        known = path.suffix in SMALL_ENDINGS and not name.endswith(".index.json")
        if path.is_file() and known:
            text = _text_of(path)
            if text is not None:
                found[name] = text
            elif path.suffix != ".model" or name.replace(path.name, "tokenizer.json") not in found:
                notes.append(f"{name} stays behind (no text, or over 16 MiB): load the file with config={folder}.")
    for tokenizer in {name.partition("/")[0] for name in found if name.startswith("tokenizer")}:
        vocabulary = [name for name in found if name.startswith(f"{tokenizer}/") and TOKENIZER_FILES.search(name)]
        two = [f"{tokenizer}/merges.txt", f"{tokenizer}/vocab.json"]
        if sorted(vocabulary) == two and _is_published(folder / tokenizer):
            found = {name: text for name, text in found.items() if name not in vocabulary}
    return found


def _text_of(path: Path) -> str | None:
    """The text in a file that is short enough for a header."""
    if path.stat().st_size > MAX_SMALL_FILE:
        return None
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return None


def _is_published(folder: Path) -> bool:
    """Whether a tokenizer's vocabulary is the published one."""
    lines = "\n".join(["#version: 0.2", *(" ".join(pair) for pair in published_merges())]) + "\n"
    if (folder / "merges.txt").read_bytes().decode("utf-8", "replace") != lines:
        return False
    return json.loads((folder / "vocab.json").read_bytes()) == CLIPTokenizer.published().get_vocab()


def file_to_file(job: Conversion, allow_pickle: bool) -> None:
    """The same names in another dtype or container."""
    stored = job.change("", open_checkpoint(job.source, allow_pickle, MappedFiles(copies=True)))
    metadata = {}
    if container_of(job.source) == "safetensors":
        metadata = {str(key): str(text) for key, text in files.read_safetensors_header(job.source)[1].items()}
    job.expect(stored)
    write_safetensors(job.target, stored, dtype=job.dtype, metadata=metadata, report=job.progress())


# ---- to a folder ----


def single_to_folder(job: Conversion, file: SingleFile) -> None:
    """A single file as a pipeline's folder, or as one model's where it holds one."""
    has_denoiser = any(name in file.found.components for name in DENOISERS)
    if has_denoiser and (file.found.kind == "checkpoint" or file.declared("model_index.json")):
        index = file.index()
        models = {
            name: MODELS[entry[1]] for name, entry in index.items() if isinstance(entry, list) and entry[1] in MODELS
        }
        models = {name: kind for name, kind in models.items() if file.has(name)}
    else:
        index, models = None, _lone_model(file)
    job.notes += [f"left out: {count} tensors, {kind}" for kind, count in file.found.leftovers.items()]
    if file.found.missing and index is not None:
        job.notes.append(f"not in the file: {', '.join(file.found.missing)}")
    plans = {}
    for name, kind in models.items():
        shell = file.shell(name, kind)
        stored = file.stored(name, kind, dict(shell.config))
        wanted = shell.state_dict()
        try:
            check_tensors(kind.__name__, wanted, stored)
        except WeightsError as problem:
            raise WeightsError(f"{file.path}, {name}: {problem}") from None
        ordered = {key: stored[key] for key in wanted}
        job.expect(ordered)
        plans[name] = (kind, shell, ordered)
    with files.atomic_folder(job.target) as folder:
        for name, (kind, shell, ordered) in plans.items():
            place = folder if index is None else folder / name
            place.mkdir(exist_ok=True)
            shell.save_config(place)
            write_weights(
                place, kind.weights_name, ordered, dtype=job.dtype, limit=job.max_shard_size, report=job.progress()
            )
        if index is not None:
            write_small(folder, file, index)
        elif file.embedded:
            component = next(iter(models))
            text = file.embedded.get(f"{component}/config.json")
            if text is not None:
                files.write_text(folder / "config.json", text)


def _lone_model(file: SingleFile) -> dict[str, type[ModelMixin]]:
    part = file.found.parts[0]
    if CLASSES.get(part.kind) not in MODELS or len(file.found.parts) != 1:
        raise UnsupportedError(f"{file.path} ({file.found.title}) has no folder layout that is written here.")
    name = CLASSES[part.kind]
    if part.kind == "text" and any(one.startswith("text_projection") for one in part.shapes):
        name = "CLIPTextModelWithProjection"
    kind = MODELS[name]
    return {component_of(kind, file): kind}


def write_small(folder: Path, file: SingleFile, index: Mapping[str, Any]) -> None:
    """Index, scheduler and tokenizers: as they were where the file remembers, else as the family has them."""
    if file.embedded:
        file.write_small_files(folder)
        return
    for name, entry in index.items():
        if isinstance(entry, list) and "Tokenizer" in str(entry[1]):
            file.tokenizer(name).save_pretrained(folder / name)
    scheduler = file.scheduler_config()
    files.write_text(
        folder / "scheduler" / "scheduler_config.json", json.dumps(scheduler, indent=2, sort_keys=True) + "\n"
    )
    files.write_text(folder / "model_index.json", json.dumps(index, indent=2, sort_keys=True) + "\n")


def folder_to_folder(job: Conversion, variant: str | None) -> None:
    """The same folder in another dtype, or in other shards."""
    index = job.source / "model_index.json"
    names = component_names(job.source, files.read_json(index)) if index.is_file() else [""]
    plans = {}
    for name in names:
        kind, _ = model_of(job.source / name)
        plans[name] = (kind, job.change(name, open_folder(job.source / name, kind.weights_name, variant)))
        job.expect(plans[name][1])
    others = component_names(job.source, files.read_json(index), known=False) if index.is_file() else []
    job.notes += [f"copied as it is: {name}, whose class is not known here" for name in others]
    with files.atomic_folder(job.target) as folder:
        for path in sorted([*job.source.glob("*"), *job.source.glob("*/*")]):
            relative = path.relative_to(job.source)
            small = path.suffix in SMALL_ENDINGS and not path.name.endswith(".index.json")
            if path.is_file() and (small or relative.parts[0] in others):
                (folder / relative).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, folder / relative)
        for name, (kind, stored) in plans.items():
            (folder / name).mkdir(exist_ok=True)
            write_weights(
                folder / name,
                kind.weights_name,
                stored,
                dtype=job.dtype,
                limit=job.max_shard_size,
                report=job.progress(),
            )
