"""The rest of A1111's API: options, lists of what there is, what a picture tells, and the ControlNet routes."""

from __future__ import annotations

import asyncio
import base64
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from pydantic import Field

from .. import pictures
from ..problems import Problem
from . import a1111_info as infos
from . import a1111_names as names
from .a1111 import LAYERS, Loose, last_layer, model_of, options_of, server_of
from .openapi import A1111_ERRORS

router = APIRouter(responses=A1111_ERRORS, tags=["a1111"])


class PngInfo(Loose):
    image: str


class Detect(Loose):
    controlnet_module: str = "none"
    controlnet_images: list[str] = Field(default_factory=list, max_length=16)


class Extra(Loose):
    image: str
    upscaling_resize: float = Field(2, ge=1, le=8)
    upscaler_1: str | None = "None"


@router.get("/sdapi/v1/options")
async def options(request: Request) -> dict[str, Any]:
    known = await server_of(request).catalogue()
    return {"samples_format": "png", LAYERS: 1, **options_of(request), "sd_model_checkpoint": model_of(request, known)}


@router.post("/sdapi/v1/options")
async def set_options(request: Request, given: Annotated[dict[str, Any], Body()]) -> None:
    """`sd_model_checkpoint` and `CLIP_stop_at_last_layers` are of calls that name none; the rest changes nothing and is
    not kept."""
    known = await server_of(request).catalogue()
    if LAYERS in given:
        options_of(request)[LAYERS] = last_layer(given[LAYERS])
    if "sd_model_checkpoint" in given:
        options_of(request)["sd_model_checkpoint"] = model_of(request, known, given["sd_model_checkpoint"])


@router.get("/sdapi/v1/sd-models")
async def sd_models(request: Request) -> list[dict[str, Any]]:
    known = await server_of(request).catalogue()
    return [
        {"title": name, "model_name": name, "hash": None, "sha256": None, "filename": name, "config": None}
        for name in known.models
    ]


@router.get("/sdapi/v1/samplers")
async def samplers(request: Request) -> list[dict[str, Any]]:
    known = await server_of(request).catalogue()
    card = known.card(model_of(request, known))
    return [{"name": s.name, "aliases": list(s.aliases), "options": {}} for s in names.listed(card["own_grid"])]


@router.get("/sdapi/v1/schedulers")
async def schedulers() -> list[dict[str, Any]]:
    rows = ("automatic", *names.GRIDS)
    return [
        {
            "name": name,
            "label": names.LABELS.get(name, name.capitalize()),
            "aliases": None,
            "default_rho": -1,
            "need_inner_model": False,
        }
        for name in rows
    ]


@router.get("/sdapi/v1/loras")
async def loras(request: Request) -> list[dict[str, Any]]:
    return [{"name": name, "alias": name, "path": name, "metadata": {}} for name in server_of(request).settings.loras]


@router.get("/sdapi/v1/upscalers")
async def upscalers() -> list[dict[str, Any]]:
    return [
        {"name": name, "model_name": None, "model_path": None, "model_url": None, "scale": 4}
        for name in ("None", *infos.RESAMPLING)
    ]


@router.get("/sdapi/v1/scripts")
async def scripts(request: Request) -> dict[str, list[str]]:
    listed = ["controlnet m2m"] if server_of(request).settings.controlnets else []
    return {"txt2img": listed, "img2img": listed}


@router.get("/sdapi/v1/sd-vae", response_model=list[dict[str, Any]])
@router.get("/sdapi/v1/hypernetworks", response_model=list[dict[str, Any]])
@router.get("/sdapi/v1/face-restorers", response_model=list[dict[str, Any]])
@router.get("/sdapi/v1/realesrgan-models", response_model=list[dict[str, Any]])
@router.get("/sdapi/v1/prompt-styles", response_model=list[dict[str, Any]])
@router.get("/sdapi/v1/latent-upscale-modes", response_model=list[dict[str, Any]])
async def nothing() -> list[dict[str, Any]]:
    """There are none here."""
    return []


@router.get("/sdapi/v1/embeddings")
async def embeddings() -> dict[str, Any]:
    return {"loaded": {}, "skipped": {}}


@router.get("/sdapi/v1/cmd-flags")
async def cmd_flags() -> dict[str, Any]:
    return {}


@router.get("/sdapi/v1/memory")
async def memory(request: Request) -> dict[str, Any]:
    used = sum(server_of(request).supervisor.loaded.values())
    budget = server_of(request).settings.memory
    return {"ram": {"free": max(budget - used, 0), "used": used, "total": budget}, "cuda": {"error": "unavailable"}}


@router.post("/sdapi/v1/refresh-checkpoints")
@router.post("/sdapi/v1/refresh-loras")
@router.post("/sdapi/v1/reload-checkpoint")
@router.post("/sdapi/v1/unload-checkpoint")
async def nothing_to_do() -> None:
    """The models of a server are chosen when it starts."""


@router.post("/sdapi/v1/png-info")
async def png_info(request: Request, asked: PngInfo) -> dict[str, Any]:
    """What a picture says of how it was made."""
    limits = server_of(request).settings.limits
    return await asyncio.to_thread(infos.read_info, pictures.from_text(asked.image, limits, "image"), limits)


@router.post("/sdapi/v1/extra-single-image")
async def extra(request: Request, asked: Extra) -> dict[str, str]:
    """A larger picture, by resampling."""
    if asked.upscaler_1 not in ("None", None, *infos.RESAMPLING):
        raise Problem(
            422,
            "unknown_parameter",
            f"Upscaler not found. There are: {', '.join(infos.RESAMPLING)}.",
            param="upscaler_1",
        )
    limits = server_of(request).settings.limits
    data = pictures.from_text(asked.image, limits, "image")
    larger = await asyncio.to_thread(infos.resampled, data, limits, asked.upscaler_1, asked.upscaling_resize)
    return {"html_info": "", "image": base64.b64encode(larger).decode()}


@router.post("/sdapi/v1/extra-batch-images")
@router.post("/sdapi/v1/interrogate")
async def not_here() -> dict[str, Any]:
    raise Problem(501, "not_implemented", "This server has no model for that.")


# ---- ControlNet ----


@router.get("/controlnet/version")
async def version() -> dict[str, int]:
    return {"version": 3}


@router.get("/controlnet/model_list")
async def model_list(request: Request) -> dict[str, list[str]]:
    return {"model_list": list(server_of(request).settings.controlnets)}


@router.get("/controlnet/module_list")
async def module_list() -> dict[str, list[str]]:
    return {"module_list": ["none"]}


@router.post("/controlnet/detect")
async def detect(request: Request, asked: Detect) -> dict[str, Any]:
    """Pictures as a ControlNet would see them: unchanged, as there is no preprocessor."""
    limits = server_of(request).settings.limits
    if asked.controlnet_module.lower() != "none":
        raise Problem(
            422, "unsupported_parameter", "There is no preprocessor here: module none.", param="controlnet_module"
        )
    read = [
        pictures.read(pictures.from_text(text, limits, "controlnet_images"), limits).png
        for text in asked.controlnet_images
    ]
    return {"images": [base64.b64encode(png).decode() for png in read], "info": "Success"}
