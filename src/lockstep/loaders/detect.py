"""Which model a checkpoint file holds, told from names and shapes, with the evidence for it.

Nothing is guessed in silence: families are ranked by what speaks for them, a family that Lockstep does not load is
named as such, and a file that fits none gets an error that lists what was looked for. Imports no torch.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import FileFormatError, UnknownNameError, UnsupportedError
from .header import Header
from .parts import DENOISERS, TITLES, Part, Shapes, find_parts
from .prediction import find_prediction
from .tell_tales import (
    BUFFERS,
    EDM_MARKS,
    EMA,
    FAMILIES,
    LORA_MARKS,
    OTHER_PARTS,
    V_PREDICTION_MARKS,
    ZERO_SNR_MARK,
    Clue,
    TellTale,
)

VARIANTS = {4: "", 9: "inpainting", 8: "instruct-pix2pix", 5: "depth to image", 7: "x4 upscaler"}
VARIANT_PIPELINES = {
    ("sd1", "inpainting"): "StableDiffusionInpaintPipeline",
    ("sd2", "inpainting"): "StableDiffusionInpaintPipeline",
    ("sdxl", "inpainting"): "StableDiffusionXLInpaintPipeline",
    ("sd1", "instruct-pix2pix"): "StableDiffusionInstructPix2PixPipeline",
    ("sdxl", "instruct-pix2pix"): "StableDiffusionXLInstructPix2PixPipeline",
    ("sd2", "depth to image"): "StableDiffusionDepth2ImgPipeline",
}
ARCHITECTURES = {  # what `modelspec.architecture` and GGUF's `general.architecture` say
    "stable-diffusion-v1": "sd1",
    "stable-diffusion-v2": "sd2",
    "stable-diffusion-xl-v1-base": "sdxl",
    "stable-diffusion-xl-v1-refiner": "refiner",
    "sd1": "sd1",
    "sdxl": "sdxl",
}
WIDTHS = {768: ("sd1", "CLIP ViT-L"), 1024: ("sd2", "OpenCLIP ViT-H"), 2048: ("sdxl", "CLIP ViT-L and OpenCLIP bigG")}
NARROWEST_WORD = 8  # values of a vector, below which it is no word of any text encoder
ENOUGH = 2  # points that make a family sure where no other has as many


@dataclass
class Guess:
    """A family that a file may be of."""

    family: str
    title: str
    variant: str = ""
    supported: bool = True
    score: int = 0
    evidence: list[str] = field(default_factory=list)
    used_by: str = ""  # how it is used, where it is no model by itself

    def __str__(self) -> str:
        return f"{self.title}{', ' + self.variant if self.variant else ''}"


@dataclass
class Detection:
    """What a file is, and why."""

    path: Path
    kind: str = (
        "unknown"  # checkpoint, model, lora, embedding, adapter, controlnet, autoencoder, text encoder, upscaler
    )
    guesses: list[Guess] = field(default_factory=list)  # the likeliest first
    parts: list[Part] = field(default_factory=list)
    components: dict[str, Part] = field(default_factory=dict)  # the parts by the name that a pipeline gives them
    missing: list[str] = field(default_factory=list)
    prediction_type: str | None = None
    notes: list[str] = field(default_factory=list)
    leftovers: dict[str, int] = field(default_factory=dict)  # what is of no use here -> how many tensors

    @property
    def best(self) -> Guess | None:
        return self.guesses[0] if self.guesses else None

    @property
    def sure(self) -> bool:
        """Whether one family stands out."""
        if not self.guesses or self.guesses[0].score < ENOUGH:
            return False
        return len(self.guesses) == 1 or self.guesses[0].score > self.guesses[1].score

    @property
    def title(self) -> str:
        if self.best is None:
            return f"a {self.kind}" if self.kind != "unknown" else "not recognised"
        text = str(self.best) if self.sure else " or ".join(str(guess) for guess in self.guesses[:2])
        return text if self.best.supported else f"{text}: recognised, not supported yet"

    def require(self, configured: bool = False) -> Guess:
        """The family, where one is sure (or configs say the rest) and can be loaded; else an error with evidence."""
        if self.kind in ("lora", "embedding"):
            how = {"lora": "load_lora_weights, --lora", "embedding": "load_textual_inversion"}[self.kind]
            raise FileFormatError(
                f"{self.path} is no model but a {self.title}: {self._why()} Add it to a model ({how})."
            )
        if self.best is not None and self.best.used_by:
            raise FileFormatError(
                f"{self.path} is no model but an {self.best}: {self._why()} Add it to a model ({self.best.used_by})."
            )
        if self.best is not None and not self.best.supported:
            raise UnsupportedError(
                f"{self.path} is {self.best}: recognised, but Lockstep does not load it yet. {self._why()}"
            )
        denoisers = [part for part in self.parts if part.role in DENOISERS]
        if len(denoisers) > 1:
            where = ", ".join(repr(part.prefix) for part in denoisers)
            raise FileFormatError(
                f"{self.path} holds {len(denoisers)} denoisers, under {where}: it is two models in one file. "
                "Split it first."
            )
        if self.best is None and self.parts:
            there = "; ".join(part.title for part in self.parts)
            raise FileFormatError(
                f"{self.path} holds parts that together are no family that is known, in sizes of their own: {there}. "
                f"Say which family: family=… (--family), one of {', '.join(known_families())}, or give the folder "
                "with its configs: config=… (--config)."
            )
        if self.best is None:
            raise FileFormatError(
                f"{self.path} was not recognised: none of {len(FAMILIES) + len(known_families())} layouts fits its "
                f"{sum(self.leftovers.values()) + sum(len(p.shapes) for p in self.parts)} tensors. {self._why()}"
            )
        if not self.sure and not configured:
            ranked = "; ".join(f"{guess} ({', '.join(guess.evidence) or 'no evidence'})" for guess in self.guesses[:3])
            raise FileFormatError(
                f"{self.path} could be more than one model, likeliest first: {ranked}. Say which: family=…, one of "
                f"{', '.join(known_families())}, or give the folder with its configs: config=…."
            )
        return self.best

    def _why(self) -> str:
        evidence = self.best.evidence if self.best else self.notes
        return f"Seen: {'; '.join(evidence)}." if evidence else ""


@functools.cache
def known_families() -> dict[str, dict[str, Any]]:
    """The families that can be loaded, with what their published configs say."""
    return tomllib.loads((Path(__file__).parent / "known.toml").read_text(encoding="utf-8"))


def detect(header: Header, family: str | None = None) -> Detection:
    """What a file is; `family` is what the person says it is."""
    if family is not None and family not in known_families():
        raise UnknownNameError("family", family, known_families())
    shapes = header.shapes
    found = Detection(header.path)
    if not shapes:
        raise FileFormatError(f"{header.path} holds no tensor at all.")
    if _is_adapter(shapes, found):
        return found
    found.parts = find_parts(shapes)
    _name_other_families(shapes, found)
    if not found.guesses:
        _rank_unets(header, found, family)
    _sort_leftovers(shapes, found)
    _name_parts(found)
    find_prediction(header, found)
    if not found.guesses and not found.parts:
        examples = ", ".join(repr(name) for name in list(shapes)[:4])
        found.notes.append(f"its names begin with {examples}")
    return found


# ---- adapters ----


def _is_adapter(shapes: Shapes, found: Detection) -> bool:
    """LoRAs and embeddings are no models."""
    marked = [name for name in shapes if any(mark in name for mark in LORA_MARKS) or name.endswith((":up", ":down"))]
    if marked and 2 * len(marked) >= len(shapes) - sum(name.endswith(".alpha") for name in shapes):
        found.kind = "lora"
        evidence = f"{len(marked)} of {len(shapes)} tensors are halves of low-rank products, such as {marked[0]!r}"
        found.guesses = [Guess("lora", "LoRA", evidence=[evidence], score=ENOUGH)]
        return True
    flat = all(len(shape) in (1, 2) and shape[-1] >= NARROWEST_WORD for shape in shapes.values()) and len(shapes) <= 4
    named = {"emb_params", "clip_l", "clip_g", "string_to_param.*", "text_encoders_0", "text_encoders_1", "t5xxl"}
    if flat and (named & set(shapes) or all("." not in name for name in shapes)):
        found.kind = "embedding"
        evidence = ", ".join(f"{name!r} {list(shape)}" for name, shape in shapes.items())
        found.guesses = [Guess("embedding", "textual inversion", evidence=[evidence], score=ENOUGH)]
        return True
    return False


# ---- families that are told by one name ----


def _name_other_families(shapes: Shapes, found: Detection) -> None:
    named = _told_by_name(shapes)
    if named is None:
        return
    tell, guess = named
    left = known_families().get(tell.family, {}).get("not_loaded", ())
    guess.supported = guess.supported or any(part.kind == tell.family for part in found.parts)
    guess.supported = guess.supported and guess.variant not in left
    found.kind = tell.kind if tell.kind != "denoiser" else "checkpoint" if _has_company(found) else "model"
    found.guesses = [guess]
    _add_size(tell, shapes, found)


def named_family(shapes: Shapes) -> Guess | None:
    """The family that one name gives away."""
    named = _told_by_name(shapes)
    return None if named is None else named[1]


def _told_by_name(shapes: Shapes) -> tuple[TellTale, Guess] | None:
    ends = _Endings(shapes)
    for tell in FAMILIES:
        seen = ends.all(tell.needs)
        if seen is None or any(ends.all((clue,)) is not None for clue in tell.lacks):
            continue
        variant = next((name for name, clues in tell.variants if ends.all(clues) is not None), "")
        evidence = [f"it has {name!r}" for name in seen]
        return tell, Guess(tell.family, tell.title, variant, bool(tell.used_by), ENOUGH, evidence, tell.used_by)
    return None


def _has_company(found: Detection) -> bool:
    return any(part.role in ("vae", "text_encoder") for part in found.parts)


def _add_size(tell: TellTale, shapes: Shapes, found: Detection) -> None:
    """How many blocks there are: variants with fewer exist, so it is counted, never assumed."""
    counts = {}
    for block in ("double_blocks", "single_blocks", "joint_blocks", "transformer_blocks", "blocks", "layers"):
        numbers = {part for name in shapes for part in _after(name, block) if part.isdigit()}
        if numbers:
            counts[block] = len(numbers)
    if counts and tell.kind == "denoiser":
        found.guesses[0].evidence.append(", ".join(f"{count} {block}" for block, count in counts.items()))


def _after(name: str, block: str) -> list[str]:
    parts = name.split(".")
    return [parts[place + 1] for place, part in enumerate(parts[:-1]) if part == block][:1]


class _Endings:
    """Names by their endings, so that a clue is found under any prefix."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes
        self.by_last: dict[str, list[str]] = {}
        for name in shapes:
            self.by_last.setdefault(".".join(name.split(".")[-2:]), []).append(name)
            self.by_last.setdefault(name.split(".")[-1], []).append(name)

    def all(self, clues: tuple[Clue, ...]) -> list[str] | None:
        """The names that the clues mean; None where one of them is not there."""
        seen = []
        for clue in clues:
            name, axis, size = (clue, None, None) if isinstance(clue, str) else clue
            full = self.find(name)
            if full is None or (axis is not None and self.shapes[full][axis : axis + 1] != (size,)):
                return None
            seen.append(full)
        return seen

    def find(self, clue: str) -> str | None:
        for name in self.by_last.get(".".join(clue.split(".")[-2:]), ()):
            if name == clue or name.endswith(f".{clue}"):
                return name
        return None


# ---- the UNets of latent diffusion ----


def _rank_unets(header: Header, found: Detection, family: str | None) -> None:
    """Stable Diffusion's relatives, by what each tensor says for one or the other."""
    denoisers = [part for kind in ("unet", "controlnet") for part in found.parts if part.kind == kind]
    denoiser = denoisers[0] if denoisers else None
    votes: dict[str, list[tuple[int, str]]] = {}

    def vote(name: str, points: int, evidence: str) -> None:
        votes.setdefault(name, []).append((points, evidence))

    if denoiser is not None:
        _vote_by_shapes(denoiser, vote)
    _vote_by_company(found.parts, vote)
    said = str(header.metadata.get("modelspec.architecture", header.metadata.get("general.architecture", "")))
    for start, name in ARCHITECTURES.items():
        if said == start or (said.startswith(start) and "xl" not in said[len(start) :]):
            vote(name, 2, f"its metadata says {said!r}")
            break
    if family is not None:
        vote(family, 100, "you said so")
    known = known_families()
    for name, points in votes.items():
        title = known[name]["title"] if name in known else "Stable Diffusion unCLIP"
        guess = Guess(name, title, "", name in known, sum(p for p, _ in points), [text for _, text in points])
        if denoiser is not None and denoiser.kind == "controlnet":
            guess.title = f"ControlNet for {title}"
        elif denoiser is not None:
            channels = denoiser.config["in_channels"]
            guess.variant = "" if name == "upscaler" else VARIANTS.get(channels, f"{channels} input channels")
            if guess.variant:
                guess.evidence.append(f"its first convolution reads {channels} channels")
        found.guesses.append(guess)
    found.guesses.sort(key=lambda guess: -guess.score)
    kinds = {part.kind for part in found.parts}
    if denoiser is not None:
        found.kind = "controlnet" if kinds == {"controlnet"} else "checkpoint" if len(found.parts) > 1 else "model"
    elif found.parts and not found.guesses:
        found.kind = "model"
        _guess_lone_part(found)


def _vote_by_shapes(denoiser: Part, vote: Any) -> None:
    config = denoiser.config
    width, labels = config.get("cross_attention_dim"), config.get("projection_class_embeddings_input_dim")
    if config.get("num_class_embeds") and config["in_channels"] == 7:
        vote("upscaler", 6, "it reads 7 channels and has a table of noise levels (label_emb)")
    if width in WIDTHS:
        name, encoder = WIDTHS[width]
        vote(name, 3, f"cross_attention_dim {width} is the width of {encoder}")
    if width == 1280 and labels:
        vote("refiner", 3, "cross_attention_dim 1280 is the width of OpenCLIP bigG alone")
    for name, size in (("sdxl", 2816), ("refiner", 2560)):
        if labels == size:
            vote(name, 2, f"sizes and pooled text are embedded together, {size} values (label_emb)")
    if labels in (1536, 2048) and width in (768, 1024):
        vote("unclip", 6, f"image embeddings of {labels} values are a condition (label_emb)")
    if not config.get("use_linear_projection"):
        vote("sd1", 1, "proj_in is a convolution")
    elif not labels:
        vote("sd2", 1, "proj_in is linear")
    channels = tuple(config["block_out_channels"])
    for name, known in known_families().items():
        widths = known.get("unet", {}).get("block_out_channels", ())
        if channels == tuple(widths) and name not in ("sd1", "sd2"):
            vote(name, 1, f"block_out_channels {list(channels)}")


def _vote_by_company(parts: list[Part], vote: Any) -> None:
    """The text encoders that stand beside a denoiser."""
    texts = sorted((part for part in parts if part.kind == "text"), key=lambda part: part.prefix)
    if not any(part.kind == "unet" for part in parts) or not texts:
        return
    layouts = [part.layout for part in texts]
    labelled = any(part.config.get("projection_class_embeddings_input_dim") for part in parts if part.kind == "unet")
    if len(texts) == 2:
        vote("sdxl", 2, f"two text encoders, under {texts[0].prefix!r} and {texts[1].prefix!r}")
    elif layouts == ["open_clip"] and labelled:
        vote("refiner", 2, f"one OpenCLIP text encoder, under {texts[0].prefix!r}, and size conditions")
    elif layouts == ["open_clip"]:
        vote("sd2", 2, f"one OpenCLIP text encoder, under {texts[0].prefix!r}")
    elif layouts == ["clip"] and not labelled:
        vote("sd1", 2, f"one CLIP text encoder, under {texts[0].prefix!r}")


def _guess_lone_part(found: Detection) -> None:
    """A file with a VAE, a text encoder or a T2I-Adapter alone."""
    part = found.parts[0]
    kinds = {"vae": "autoencoder", "tiny": "autoencoder", "text_encoder": "text encoder", "t2i_adapter": "adapter"}
    found.kind = kinds[part.role]
    latents = part.config.get("latent_channels")
    name = found.path.name.lower()
    if part.kind == "vae" and latents == 4:
        names = ["sdxl", "sd1"] if "xl" in name else ["sd1", "sdxl"]
        hint = " (its file name says xl)" if "xl" in name else ""
        evidence = f"4 latent channels: SD 1.x, 2.x and XL share these shapes{hint}; no tensor tells the scaling_factor"
        titles = {"sd1": "VAE of Stable Diffusion 1.x and 2.x", "sdxl": "VAE of Stable Diffusion XL"}
        found.guesses = [
            Guess(family, titles[family], score=3 - place, evidence=[evidence]) for place, family in enumerate(names)
        ]
    elif part.kind == "vae":
        evidence = (
            f"VAE with {latents} latent channels: Stable Diffusion 3 and FLUX.1 share these shapes; no tensor tells"
        )
        found.guesses = [Guess("vae", f"VAE with {latents} latent channels", score=ENOUGH, evidence=[evidence])]
    elif part.kind == "t2i_adapter":
        widths = part.config.get("channels")
        evidence = f"levels of {widths} channels, {part.config['num_res_blocks']} resnets each"
        variant = f"{part.config['adapter_type']}, {part.layout} layout"
        found.guesses = [Guess("t2i_adapter", "T2I-Adapter", variant, score=ENOUGH, evidence=[evidence])]
    elif part.kind == "tiny":
        found.guesses = [Guess("taesd", "TAESD", score=3, evidence=["lists of small convolutions in threes"])]
    else:
        width, layers = part.config["hidden_size"], part.config["num_hidden_layers"]
        title = {
            768: "CLIP ViT-L text encoder",
            1024: "OpenCLIP ViT-H text encoder",
            1280: "OpenCLIP bigG text encoder",
        }
        evidence = f"{layers} layers of width {width}"
        found.guesses = [Guess("clip", title.get(width, "CLIP text encoder"), score=ENOUGH, evidence=[evidence])]


# ---- what is said about the whole ----


def _sort_leftovers(shapes: Shapes, found: Detection) -> None:
    """Tensors that belong to no part, by what they are."""
    used = {part.prefix + name for part in found.parts for name in part.shapes}
    if found.best is not None and not found.best.supported:
        return
    for name in shapes:
        if name in used:
            continue
        other = next((text for start, text in OTHER_PARTS.items() if name.startswith(start)), None)
        if name.startswith(EMA):
            kind = "EMA copies (the plain weights are used)"
        elif other is not None:
            kind = other
        elif name.rpartition(".")[2] in (*BUFFERS, "position_ids") or name in BUFFERS:
            kind = "buffers of the sampler or the training"
        elif name in (*V_PREDICTION_MARKS, ZERO_SNR_MARK, *EDM_MARKS) or name.endswith("scaled_fp8"):
            kind = "markers"
        else:
            kind = f"unknown, such as {name.split('.')[0]!r}"
        found.leftovers[kind] = found.leftovers.get(kind, 0) + 1


def _name_parts(found: Detection) -> None:
    """The parts as a pipeline calls them, and those of the family that are not there."""
    for part in found.parts:
        if part.gaps:
            found.notes.append(f"the {TITLES[part.kind]} is incomplete: it has no {', '.join(part.gaps[:4])}")
    family = known_families().get(found.best.family) if found.best and found.best.supported else None
    if family is None:
        return
    by_role = {part.role: part for part in reversed(found.parts)}
    found.components = {role: by_role[role] for role in (*DENOISERS, "vae", "controlnet") if role in by_role}
    found.components |= _text_encoders(found.parts, family)
    if found.kind in ("checkpoint", "model") and any(role in found.components for role in DENOISERS):
        found.missing = [name for name in family["components"] if name not in found.components]


LANGUAGE_MODELS = {
    "T5": ("t5", "umt5"),
    "Qwen3": ("qwen3",),
    "Qwen2_5_VL": ("qwen2_5_vl",),
}  # a word of the class -> kinds of parts


def _text_encoders(parts: list[Part], family: Mapping[str, Any]) -> dict[str, Part]:
    """The text encoders by the names that a pipeline gives them: by their place in the file, else by their order."""
    slots = [name for name in family["components"] if name.startswith("text_encoder")]
    found: dict[str, Part] = {}
    for word, kinds in LANGUAGE_MODELS.items():
        named = [name for name in slots if word in family.get("classes", {}).get(name, "")]
        slots = [name for name in slots if name not in named]
        found |= dict(zip(named, (part for part in parts if part.kind in kinds), strict=False))
    texts = sorted((part for part in parts if part.kind == "text"), key=lambda part: part.prefix)
    places = {prefix: name for name, (_, prefix) in family.get("places", {}).items() if name in slots}
    if texts and all(part.prefix in places for part in texts):
        return found | {places[part.prefix]: part for part in texts}
    if len(texts) > 1 or len(slots) == 1:
        return found | dict(zip(slots, texts, strict=False))
    if texts:  # SDXL with one of two: OpenCLIP is the second
        found[slots[1] if texts[0].layout == "open_clip" else slots[0]] = texts[0]
    return found
