"""What A1111's clients read about a picture: `info` of an answer, the text inside a file, and back."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from PIL import Image

from .. import pictures
from ..problems import Problem
from ..queue import Job
from ..settings import Limits
from .a1111_names import grid_of, name_of

RESAMPLING = {"Lanczos": Image.Resampling.LANCZOS, "Nearest": Image.Resampling.NEAREST}


@dataclass(frozen=True)
class Told:
    """What the text in a picture says of how it was made."""

    prompt: str
    negative: str
    steps: Any
    sampler: str
    grid: str | None
    cfg: Any
    size: tuple[Any, Any]
    model: str
    skipped: int = 0  # layers of the text encoder
    asked: Any = None  # steps, of a picture that was finished before it had made them

    def text(self, seed: Any) -> str:
        """As A1111 writes it."""
        said = {
            "Steps": self.steps, "Sampler": self.sampler, "Schedule type": self.grid, "CFG scale": self.cfg,
            "Seed": seed, "Size": f"{self.size[0]}x{self.size[1]}", "Model": self.model,
            "Clip skip": self.skipped + 1 if self.skipped else None, "Finished early, of steps": self.asked,
        }  # fmt: skip
        lines = [self.prompt, *([f"Negative prompt: {self.negative}"] if self.negative else [])]
        return "\n".join([*lines, ", ".join(f"{name}: {value}" for name, value in said.items() if value is not None)])


def with_loras(prompt: str, loras: Iterable[tuple[str, float]]) -> str:
    """A prompt with its LoRAs in it, as A1111 writes them."""
    return " ".join(filter(None, [prompt, *(f"<lora:{name}:{strength:g}>" for name, strength in loras)]))


def info_of(job: Job) -> dict[str, Any]:
    """The `info` of an answer."""
    request, inputs, scheduler = job.request, job.request["inputs"], job.request["scheduler"]
    seeds = [request["seed"] + k for k in range(request["count"])]
    prompt = with_loras(inputs.get("prompt", ""), ((one["name"], one["strength"]) for one in request["loras"]))
    negative, facts = inputs.get("negative_prompt") or "", [output.facts for output in job.outputs]
    made = [one.get("steps", request["steps"]) for one in facts] or [request["steps"]]
    told = [
        Told(prompt, negative, steps, name_of(scheduler["class"], scheduler["settings"]) if scheduler else "Automatic",
             grid_of(scheduler["settings"]) if scheduler else None, inputs.get("guidance_scale"),
             (facts[0]["width"], facts[0]["height"]) if facts else (request["width"], request["height"]), job.model,
             inputs.get("clip_skip") or 0, None if steps == request["steps"] else request["steps"])
        for steps in (*made, *made[-1:] * (len(seeds) - len(made)))
    ]  # fmt: skip
    first = told[0]
    return {
        "prompt": prompt, "all_prompts": [prompt] * len(seeds), "negative_prompt": negative,
        "all_negative_prompts": [negative] * len(seeds), "seed": seeds[0], "all_seeds": seeds, "subseed": seeds[0],
        "all_subseeds": seeds, "subseed_strength": 0, "width": first.size[0], "height": first.size[1],
        "sampler_name": first.sampler, "cfg_scale": first.cfg, "steps": first.steps, "batch_size": request["count"],
        "sd_model_name": job.model, "sd_model_hash": None, "denoising_strength": inputs.get("strength"),
        "extra_generation_params": {} if first.grid is None else {"Schedule type": first.grid},
        "index_of_first_image": 0, "styles": [], "clip_skip": first.skipped + 1,
        "infotexts": [one.text(seed) for one, seed in zip(told, seeds, strict=False)],
        "is_using_inpainting_conditioning": False,
        "job_timestamp": datetime.fromtimestamp(job.created).strftime("%Y%m%d%H%M%S"),
        "interrupted": job.state == "cancelled" or bool((job.result or {}).get("interrupted")),
    }  # fmt: skip


def read_info(data: bytes, limits: Limits) -> dict[str, Any]:
    """What a picture says of itself: our manifest in A1111's words, or A1111's own text."""
    with pictures.opened(data, limits, "image") as picture:
        size = picture.size
        texts = {
            key: value[: 2**20]
            for key, value in picture.info.items()
            if isinstance(key, str) and isinstance(value, str)
        }
    own = texts.pop("lockstep", None)
    try:
        manifest = json.loads(own) if own else {}
        said = from_manifest(manifest, size) if isinstance(manifest, dict) and manifest else texts.get("parameters", "")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        said = texts.get("parameters", "")
    fields = dict(part.split(": ", 1) for part in said.rpartition("\n")[2].split(", ") if ": " in part)
    return {"info": said, "items": texts, "parameters": fields}


def from_manifest(manifest: dict[str, Any], size: tuple[int, int]) -> str:
    inputs, scheduler = manifest["inputs"], manifest["components"].get("scheduler", {})
    index, seeds = manifest.get("image", 0), manifest.get("seed") or []
    seed = seeds[index] if isinstance(index, int) and 0 <= index < len(seeds) else None
    values = scheduler.get("values", {})
    flags = {name: value for name, value in values.items() if name.startswith("use_")}
    words = [inputs.get(name) if isinstance(inputs.get(name), str) else "" for name in ("prompt", "negative_prompt")]
    loras = [
        (one.get("name") or Path(one["file"]).stem, float(one["strength"])) for one in manifest.get("adapters", [])
    ]
    asked, made = inputs.get("num_inference_steps"), manifest.get("steps_made")
    return Told(
        with_loras(words[0], loras), words[1], asked if made is None else made,
        name_of(scheduler.get("class", ""), values), grid_of(flags), inputs.get("guidance_scale"), size,
        str(manifest["model"]), inputs.get("clip_skip") or 0, None if made is None else asked,
    ).text(seed)  # fmt: skip


def resampled(data: bytes, limits: Limits, how: str | None, times: float) -> bytes:
    picture = Image.open(io.BytesIO(pictures.read(data, limits).png))
    size = (round(picture.width * times), round(picture.height * times))
    if size[0] * size[1] > limits.picture_pixels:
        raise Problem(413, "too_large", f"{size[0]}x{size[1]} pixels are too many.", param="upscaling_resize")
    return pictures.png_of(picture.resize(size, RESAMPLING.get(how or "", Image.Resampling.LANCZOS)))
