"""What A1111's clients read about a picture: `info` of an answer, the text inside a file, and back."""

from __future__ import annotations

import io
import json
from datetime import datetime
from typing import Any

from PIL import Image

from .. import pictures
from ..problems import Problem
from ..queue import Job
from ..settings import Limits
from .a1111_names import name_of

RESAMPLING = {"Lanczos": Image.Resampling.LANCZOS, "Nearest": Image.Resampling.NEAREST}


def info_of(job: Job) -> dict[str, Any]:
    """The `info` of an answer."""
    request, inputs = job.request, job.request["inputs"]
    seeds = [request["seed"] + k for k in range(request["count"])]
    prompt, negative = inputs.get("prompt", ""), inputs.get("negative_prompt") or ""
    size = (request["width"], request["height"])
    if job.outputs:
        size = (job.outputs[0].facts["width"], job.outputs[0].facts["height"])
    sampler = (
        name_of(request["scheduler"]["class"], request["scheduler"]["settings"])
        if request["scheduler"]
        else "Automatic"
    )
    facts = {"prompt": prompt, "negative": negative, "steps": request["steps"], "sampler": sampler,
             "cfg": inputs.get("guidance_scale"), "size": size, "model": job.model}  # fmt: skip
    return {
        "prompt": prompt, "all_prompts": [prompt] * len(seeds), "negative_prompt": negative,
        "all_negative_prompts": [negative] * len(seeds), "seed": seeds[0], "all_seeds": seeds, "subseed": seeds[0],
        "all_subseeds": seeds, "subseed_strength": 0, "width": size[0], "height": size[1], "sampler_name": sampler,
        "cfg_scale": inputs.get("guidance_scale"), "steps": request["steps"], "batch_size": request["count"],
        "sd_model_name": job.model, "sd_model_hash": None, "denoising_strength": inputs.get("strength"),
        "extra_generation_params": {}, "index_of_first_image": 0, "styles": [],
        "clip_skip": inputs.get("clip_skip") or 1,
        "infotexts": [infotext(**facts, seed=seed) for seed in seeds], "is_using_inpainting_conditioning": False,
        "job_timestamp": datetime.fromtimestamp(job.created).strftime("%Y%m%d%H%M%S"),
        "interrupted": job.state == "cancelled" or bool((job.result or {}).get("interrupted")),
    }  # fmt: skip


def infotext(
    prompt: str, negative: str, steps: Any, sampler: str, cfg: Any, seed: Any, size: tuple[Any, Any], model: str
) -> str:
    """The text that A1111 writes into its pictures."""
    said = {
        "Steps": steps,
        "Sampler": sampler,
        "CFG scale": cfg,
        "Seed": seed,
        "Size": f"{size[0]}x{size[1]}",
        "Model": model,
    }
    lines = [prompt, *([f"Negative prompt: {negative}"] if negative else [])]
    return "\n".join([*lines, ", ".join(f"{name}: {value}" for name, value in said.items() if value is not None)])


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
    sampler = name_of(scheduler.get("class", ""), scheduler.get("values", {}))
    words = [inputs.get(name) if isinstance(inputs.get(name), str) else "" for name in ("prompt", "negative_prompt")]
    return infotext(
        words[0],
        words[1],
        inputs.get("num_inference_steps"),
        sampler,
        inputs.get("guidance_scale"),
        seed,
        size,
        str(manifest["model"]),
    )


def resampled(data: bytes, limits: Limits, how: str | None, times: float) -> bytes:
    picture = Image.open(io.BytesIO(pictures.read(data, limits).png))
    size = (round(picture.width * times), round(picture.height * times))
    if size[0] * size[1] > limits.picture_pixels:
        raise Problem(413, "too_large", f"{size[0]}x{size[1]} pixels are too many.", param="upscaling_resize")
    return pictures.png_of(picture.resize(size, RESAMPLING.get(how or "", Image.Resampling.LANCZOS)))
