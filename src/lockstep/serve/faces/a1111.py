"""The face of A1111's API, `/sdapi/v1` and `/controlnet`: its client library runs unchanged.

Unknown fields are ignored here, as clients send their whole forms; what is asked for and cannot be had is refused.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import math
import re
import time
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request
from PIL import Image, ImageOps
from pydantic import BaseModel, ConfigDict, Field

from .. import pictures
from ..problems import Problem
from ..queue import Job
from ..server import Server
from ..wishes import Catalogue, Wish, keeping_the_rest
from . import a1111_info as infos
from . import a1111_names as names
from . import finished
from .openapi import A1111_ERRORS

router = APIRouter(prefix="/sdapi/v1", responses=A1111_ERRORS, tags=["a1111"])
LORA = re.compile(r"<lora:([^:<>]{1,200})(?::([^:<>]*))?(?::[^<>]*)?>")
LAYERS = "CLIP_stop_at_last_layers"  # 1 is the last layer of the text encoder, 2 the one before it
GUESS = ("controlnet is more important", "2")
BALANCED = ("balanced", "0", "")
WITH_ETA = ("DDIMScheduler",)  # clients send eta always; it is read by this method alone
MISSING = ("enable_hr", "restore_faces", "tiling")


class Loose(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class Text2Image(Loose):
    """What both calls share."""

    prompt: str = Field("", max_length=32000)
    negative_prompt: str | None = Field("", max_length=32000)
    seed: int | None = Field(-1, ge=-1, le=2**62)
    steps: int | None = Field(None, ge=1, le=10_000)
    cfg_scale: float | None = Field(None, ge=0, le=1000)
    width: int | None = Field(None, ge=8, le=65536)
    height: int | None = Field(None, ge=8, le=65536)
    batch_size: int = Field(1, ge=1, le=1000)
    n_iter: int = Field(1, ge=1, le=1000)
    sampler_name: str | None = Field(None, max_length=200)
    sampler_index: str | None = Field(None, max_length=200)
    scheduler: str | None = Field(None, max_length=200)
    eta: float | None = Field(None, ge=0, le=1)
    clip_skip: int | None = Field(None, ge=0, le=100)
    subseed_strength: float | None = 0
    styles: list[str] | None = None
    script_name: str | None = None
    enable_hr: bool | None = False
    restore_faces: bool | None = False
    tiling: bool | None = False
    override_settings: dict[str, Any] | None = None
    alwayson_scripts: dict[str, Any] | None = None
    send_images: bool = True


class Image2Image(Text2Image):
    init_images: list[str] = Field(default_factory=list, max_length=4)
    mask: str | None = None
    denoising_strength: float | None = Field(0.75, ge=0, le=1)
    inpainting_fill: int | None = 0
    inpaint_full_res: bool | None = True
    inpaint_full_res_padding: int | None = Field(0, ge=0, le=4096)
    inpainting_mask_invert: int | None = 0
    resize_mode: int | None = 0


class Made(BaseModel):
    images: list[str]
    parameters: dict[str, Any]
    info: str


def server_of(request: Request) -> Server:
    found: Server = request.app.state.server
    return found


def options_of(request: Request) -> dict[str, Any]:
    if not hasattr(request.app.state, "a1111"):
        request.app.state.a1111 = {}
    found: dict[str, Any] = request.app.state.a1111
    return found


def model_of(request: Request, known: Catalogue, wanted: Any = None) -> str:
    """The model of this face: as asked for, as the options say, or the server's first."""
    asked = wanted or options_of(request).get("sd_model_checkpoint") or known.default
    name = re.sub(r"\s*\[[0-9a-f]+\]$", "", str(asked))
    if name not in known.models:
        raise Problem(
            404,
            "model_not_found",
            f"Model {name[:100]!r} not found. There are: {', '.join(known.models)}.",
            param="sd_model_checkpoint",
        )
    return name


# ---- making ----


@router.post("/txt2img")
async def txt2img(request: Request, asked: Text2Image) -> Made:
    """Words to pictures."""
    return await made(request, asked, {})


@router.post("/img2img")
async def img2img(request: Request, asked: Image2Image) -> Made:
    """A picture and words to pictures, with a mask only where it is white."""
    server = server_of(request)
    if len(asked.init_images) != 1:
        raise Problem(
            422, "invalid_image", f"init_images wants one picture, got {len(asked.init_images)}.", param="init_images"
        )
    if asked.inpainting_fill not in (None, 0, 1):
        raise Problem(422, "unsupported_parameter", "inpainting_fill wants 0 or 1 here.", param="inpainting_fill")
    if asked.resize_mode not in (None, 0, 1):
        raise Problem(422, "unsupported_parameter", "resize_mode wants 0 or 1 here.", param="resize_mode")
    size = (asked.width, asked.height) if asked.resize_mode == 1 else (None, None)
    inputs: dict[str, Any] = {"image": await taken(server, asked.init_images[0], "init_images", size=size)}
    inputs["strength"] = asked.denoising_strength
    if asked.mask is not None:
        inputs["mask_image"] = await taken(
            server, asked.mask, "mask", size=size, invert=bool(asked.inpainting_mask_invert)
        )
        if asked.inpaint_full_res:
            inputs["padding_mask_crop"] = asked.inpaint_full_res_padding or 0
    return await made(request, asked, inputs)


async def taken(
    server: Server, text: Any, param: str, size: tuple[int | None, int | None] = (None, None), invert: bool = False
) -> dict[str, Any]:
    """A picture of a body, kept; cut to a form, or with black and white exchanged."""
    data = pictures.from_text(text, server.settings.limits, param)
    if invert or all(size):
        data = await asyncio.to_thread(changed, data, server, param, size, invert)
    return await server.take_picture(data, param)


def changed(data: bytes, server: Server, param: str, size: tuple[int | None, int | None], invert: bool) -> bytes:
    picture: Image.Image = Image.open(io.BytesIO(pictures.read(data, server.settings.limits, param).png))
    if size[0] and size[1]:
        if size[0] * size[1] > server.settings.limits.pixels:
            raise Problem(422, "invalid_value", "width x height is too large.", param="width")
        picture = ImageOps.fit(picture, (size[0], size[1]))
    return pictures.png_of(ImageOps.invert(picture) if invert else picture)


async def made(request: Request, asked: Text2Image, inputs: dict[str, Any]) -> Made:
    server = server_of(request)
    refuse_missing(asked)
    wish = await wish_of(request, asked, inputs)
    job = await finished(request, await server.submit(wish, client=request.state.client, face="a1111", waits=True))
    outputs = job.outputs if asked.send_images and job.state == "done" else []
    shown = [base64.b64encode(await server.read_output(job.id, output.n)).decode() for output in outputs]
    heard = {
        name: value
        for name, value in asked.model_dump().items()
        if name not in ("init_images", "mask", "alwayson_scripts")
    }
    return Made(images=shown, parameters=heard, info=json.dumps(infos.info_of(job)))


def refuse_missing(asked: Text2Image) -> None:
    """What was switched on and cannot be had; defaults pass."""
    for name in MISSING:
        if getattr(asked, name):
            raise Problem(422, "unsupported_parameter", f"{name} cannot be had here: leave it off.", param=name)
    for name, given in (
        ("styles", asked.styles),
        ("script_name", asked.script_name),
        ("subseed_strength", asked.subseed_strength),
    ):
        if given:
            raise Problem(422, "unsupported_parameter", f"{name} cannot be had here: leave it out.", param=name)


async def wish_of(request: Request, asked: Text2Image, inputs: dict[str, Any]) -> Wish:
    server = server_of(request)
    known = await server.catalogue()
    card = known.picture_card(model_of(request, known, (asked.override_settings or {}).get("sd_model_checkpoint")))
    prompt, loras = lora_words(asked.prompt)
    settings = {row["class"]: row["settings"] for row in known.schedulers["classes"]}
    sampler = names.scheduler_for(asked.sampler_name or asked.sampler_index, asked.scheduler, card, settings)
    nets, control = await control_units(server, asked, known)
    width, height = server.fitted(asked.width, asked.height, card)
    given = {
        "prompt": prompt, "negative_prompt": asked.negative_prompt or None, "num_inference_steps": asked.steps,
        "guidance_scale": asked.cfg_scale, "width": width, "height": height,
        "eta": asked.eta if sampler is not None and sampler["class"] in WITH_ETA else None,
        "clip_skip": skipped_layers(request, asked, card), **inputs, **keeping_the_rest(inputs, card),
        **control,
    }  # fmt: skip
    return Wish(
        card["name"], {name: value for name, value in given.items() if value is not None},
        seed=None if asked.seed in (None, -1) else asked.seed, count=asked.batch_size * asked.n_iter, scheduler=sampler,
        loras=loras, controlnets=nets,
    )  # fmt: skip


def last_layer(value: Any) -> int:
    """A number of the text encoder's layer, counted from its end."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value) or not 0 <= value <= 100:
        raise Problem(422, "invalid_value", f"{LAYERS} wants a whole number from 1.", param=LAYERS)
    return max(int(value), 1)


def skipped_layers(request: Request, asked: Text2Image, card: dict[str, Any]) -> int | None:
    """How many layers of the text encoder are left out: by this call, or by the options."""
    given = ((asked.override_settings or {}).get(LAYERS), asked.clip_skip, options_of(request).get(LAYERS))
    skipped = last_layer(next((one for one in given if one is not None), 1)) - 1
    if skipped and "clip_skip" not in card["inputs"]:
        raise Problem(422, "unsupported_parameter", f"{card['name']} has no layers to skip.", param=LAYERS)
    return skipped or None


def lora_words(prompt: str) -> tuple[str, list[dict[str, Any]]]:
    """A prompt without its `<lora:name:strength>`, and these."""
    found: list[dict[str, Any]] = []
    for name, strength in LORA.findall(prompt):
        try:
            found.append({"name": name, "strength": float(strength or 1)})
            if not math.isfinite(found[-1]["strength"]):
                raise ValueError(strength)
        except ValueError:
            raise Problem(
                422, "invalid_value", f"The strength of the LoRA {name!r} is no number.", param="prompt"
            ) from None
    return " ".join(LORA.sub("", prompt).split()) if found else prompt, found


async def control_units(server: Server, asked: Text2Image, known: Catalogue) -> tuple[list[str], dict[str, Any]]:
    """The ControlNets of a call, and the inputs that they bring."""
    units = []
    for name, script in (asked.alwayson_scripts or {}).items():
        given = script.get("args") if isinstance(script, dict) else None
        args = given if isinstance(given, list) else [] if given is None else [given]
        if name.lower() == "controlnet":
            units = [unit for unit in args if isinstance(unit, dict) and unit.get("enabled", True)]
        elif args and switched_on(args[0]):
            problem = f"The script {name[:60]!r} cannot be had here."
            raise Problem(422, "unsupported_parameter", problem, param="alwayson_scripts")
    if not units:
        return [], {}
    if len(units) > 8:
        raise Problem(422, "invalid_value", "8 ControlNet units at most.", param="alwayson_scripts")
    nets, shown = [], []
    for unit in units:
        nets.append(net_of(unit, known))
        image = unit.get("image") or unit.get("input_image") or ""
        shown.append(await taken(server, image.get("image") if isinstance(image, dict) else image, "controlnet image"))
    modes = {str(unit.get("control_mode", "Balanced")).lower() for unit in units}
    if len(modes) > 1 or not modes <= {*GUESS, *BALANCED}:
        raise Problem(
            422,
            "unsupported_parameter",
            "control_mode wants Balanced, or for all units 'ControlNet is more important'.",
        )
    numbers = {
        "controlnet_conditioning_scale": [number(unit, "weight", 1.0) for unit in units],
        "control_guidance_start": [number(unit, "guidance_start", 0.0) for unit in units],
        "control_guidance_end": [number(unit, "guidance_end", 1.0) for unit in units],
    }
    single = len(units) == 1
    inputs = {name: values[0] if single else values for name, values in numbers.items()}
    guess = {"guess_mode": True} if modes & set(GUESS) else {}
    return nets, {"control_image": shown[0] if single else shown, **inputs, **guess}


def switched_on(first: Any) -> bool:
    if isinstance(first, dict):
        return bool(first.get("enabled", first.get("enable", first.get("ad_tab_enable", True))))
    return first is not False


def net_of(unit: dict[str, Any], known: Catalogue) -> str:
    module = str(unit.get("module") or "none").lower()
    if module != "none":
        raise Problem(
            422,
            "unsupported_parameter",
            f"The preprocessor {module[:60]!r} cannot be had: send the finished picture, module none.",
            param="module",
        )
    name = re.sub(r"\s*\[[0-9a-f]+\]$", "", str(unit.get("model", "")))
    if name not in known.controlnets:
        raise Problem(
            422,
            "unknown_parameter",
            f"ControlNet not found: {name[:60]!r}. There are: {', '.join(known.controlnets) or 'none'}.",
            param="model",
        )
    return name


def number(unit: dict[str, Any], name: str, default: float) -> float:
    value = unit.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Problem(422, "invalid_value", f"{name} wants a number.", param=name)
    return float(value)


# ---- the running job ----


def running(server: Server) -> Job | None:
    """The job of this face that runs now."""
    return next((job for job in server.supervisor.running.values() if job.face == "a1111"), None)


@router.get("/progress")
async def progress(request: Request, skip_current_image: bool = False) -> dict[str, Any]:
    """How far the running job of this face is; idle is 0.0 and no job."""
    server = server_of(request)
    job = running(server)
    state = {
        "skipped": False,
        "interrupted": False,
        "job": "",
        "job_count": 0,
        "job_timestamp": "",
        "job_no": 0,
        "sampling_step": 0,
        "sampling_steps": 0,
    }
    if job is None:
        waiting = any(one.face == "a1111" for one in await server.database(server.queue.waiting))
        state["job_count"] = int(waiting)
        return {"progress": 0.0, "eta_relative": 0.0, "state": state, "current_image": None, "textinfo": None}
    now = server.hub.progress.get(job.id, {"step": 0, "steps": job.request["steps"], "began": time.time()})
    part = min(max(now["step"] / max(now["steps"], 1), 0.01), 0.99)
    state |= {"job": job.id, "job_count": 1, "sampling_step": now["step"], "sampling_steps": now["steps"]}
    state["job_timestamp"] = datetime.fromtimestamp(job.started or time.time()).strftime("%Y%m%d%H%M%S")
    shown = None
    if not skip_current_image:
        server.hub.look(job.id)
        shown = server.hub.previews.get(job.id)
    left = (time.time() - now["began"]) / max(now["step"], 1) * (now["steps"] - now["step"])
    image = None if shown is None else base64.b64encode(shown[1]).decode()
    return {"progress": part, "eta_relative": max(left, 0.0), "state": state, "current_image": image, "textinfo": None}


@router.post("/interrupt")
async def interrupt(request: Request) -> dict[str, Any]:
    """End the running job of this face; its call answers with what there is."""
    job = running(server_of(request))
    if job is not None:
        await server_of(request).supervisor.shorten(job.id)
    return {}


@router.post("/skip")
async def skip(request: Request) -> dict[str, Any]:
    return await interrupt(request)
