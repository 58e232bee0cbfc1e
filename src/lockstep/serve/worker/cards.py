"""What the worker says of models, schedulers, guiders: enough to check a request, or to draw a page, without torch."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from ...blocks.checkpoints import Checkpoints
from ...blocks.plan import Plan, make_plan
from ...configuration import config_defaults, config_types
from ...errors import LockstepError
from ...media import MediaKind, kind_named
from ...schedulers import names as scheduler_names

PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean"}
OWN_WAY = ("output_type",)  # the server writes files; how many of them is `count`
ONE_OF_EACH = ("prompt", "negative_prompt")  # a list would be several jobs
TWO_CALLS = (
    "HeunDiscreteScheduler",
    "KDPM2DiscreteScheduler",
    "KDPM2AncestralDiscreteScheduler",
    "DPMSolverSDEScheduler",
)


def describe_model(name: str, pipe: Any) -> dict[str, Any]:
    """The card of one model; reads no weights."""
    title, schema = name, pipe.schema()
    made = next((entry["media"] for entry in schema["outputs"] if entry["media"]), "picture")
    kind = kind_named(made)
    hints = {param.name: param for param in pipe.inputs}
    own_way = (*OWN_WAY, kind.count_input)
    inputs = {
        entry["name"]: {**described_input(entry, hints[entry["name"]]), "form": form}
        for entry in schema["inputs"]
        if entry["name"] not in own_way and (form := json_form(entry["name"], hints[entry["name"]])) is not None
    }
    own = getattr(pipe.outline("guider"), "config", {}) if "guider" in pipe.component_specs else {}
    if "guidance_scale" in inputs and own.get("guidance_scale") is not None:
        inputs["guidance_scale"]["default"] = own["guidance_scale"]  # of the model's own guider, not of its class
    for given, value in pipe.folder_defaults.items():
        if given in inputs:
            inputs[given]["default"] = value
    width, height, step = sizes_of(pipe)
    for side in ("width", "height"):
        if side in inputs and step is not None:
            inputs[side] |= {"multiple_of": step, "form": {**inputs[side]["form"], "multipleOf": step}}
    return {
        "name": title, "pipeline": schema["pipeline"], "description": schema["description"], "media": made,
        "suffix": kind.formats[0].suffixes[0], "count_input": kind.count_input, "inputs": inputs,
        "workflows": schema["workflows"], "width": width, "height": height,
        "controlnet": "controlnet" in pipe.component_specs, "previews": hasattr(pipe, "preview"),
        "unable": unable_to_write(kind), "own_grid": own_grid(pipe),
        "blocks": {name: described_blocks(pipe, name) for name in schema["workflows"]},
    }  # fmt: skip


def unable_to_write(kind: MediaKind) -> str | None:
    """Why this machine cannot write what a model makes: told before anything is computed."""
    try:
        kind.formats[0].check_target(Path(f"made{kind.formats[0].suffixes[0]}"))
    except LockstepError as problem:
        return str(problem)
    return None


def described_input(entry: Mapping[str, Any], param: Any) -> dict[str, Any]:
    told = {key: value for key, value in entry.items() if key not in ("name", "type")}
    return {**told, "type": entry["type"]}


def json_form(name: str, param: Any) -> dict[str, Any] | None:
    """How a request gives an input: a JSON schema, or a picture; None for what only a program can give."""
    if param.media is not None:
        return {"media": param.media, "several": name == "control_image"}
    forms = [form for hint in _kinds(param.type_hint) if (form := _form(hint)) is not None]
    if name in ONE_OF_EACH:
        forms = [form for form in forms if form.get("type") != "array"]
    if not forms:
        return None
    limits = {"minimum": param.minimum, "maximum": param.maximum, "multipleOf": param.multiple_of}
    known = {limit: value for limit, value in limits.items() if value is not None}
    forms = [{**form, **known} if form.get("type") in ("integer", "number") else form for form in forms]
    return forms[0] if len(forms) == 1 else {"anyOf": forms}


def _kinds(hint: Any) -> list[Any]:
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return [kind for kind in typing.get_args(hint) if kind is not type(None)] if union else [hint]


def _form(hint: Any) -> dict[str, Any] | None:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in PLAIN:
        return {"type": PLAIN[hint]}
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (list, tuple) and inner and inner[0] in PLAIN:
        return {"type": "array", "items": {"type": PLAIN[inner[0]]}}
    return None


def sizes_of(pipe: Any) -> tuple[int | None, int | None, int | None]:
    """Width and height in pixels that a model makes where nobody says another size, and what sizes are multiples of."""
    from ...pipelines.common import sizes

    players = pipe.assembly.players
    if "denoiser" not in players or "autoencoder" not in players:
        return None, None, None
    outlines = {role: pipe.outline(players[role][0]) for role in ("denoiser", "autoencoder")}
    parts = typing.cast(Any, types.SimpleNamespace(**outlines))
    try:
        height, width = sizes.trained_size(parts)
        factor, step = sizes.scale_factor(parts), sizes.size_step(parts)
    except (LockstepError, AttributeError):
        return None, None, None
    return (None, None, step) if height is None or width is None else (width * factor, height * factor, step)


def own_grid(pipe: Any) -> bool:
    """Whether a model was trained to a grid that the usual ones would spoil: a first step of pure noise."""
    scheduler = pipe.outline("scheduler") if "scheduler" in pipe.component_specs else None
    return bool(getattr(scheduler, "config", {}).get("rescale_betas_zero_snr", False))


def described_blocks(pipe: Any, workflow: str) -> dict[str, Any]:
    """The blocks of a workflow in the order in which they run, and the names of the boundaries between them."""
    plan = make_plan(pipe.blocks.get_workflow(workflow), {}, [])
    return {"blocks": list(_visited(plan)), "boundaries": Checkpoints({}, plan).names}


def _visited(plan: Plan) -> Iterator[dict[str, Any]]:
    for visit in plan.flow.visits:
        place = visit.place
        if place.block.kind in ("leaf", "loop"):
            yield {
                "path": place.path, "class": type(place.block).__name__, "kind": place.block.kind,
                "loops": list(place.loops), "reads": list(visit.reads), "makes": list(visit.makes),
                "description": place.block.description,
            }  # fmt: skip


def describe_schedulers() -> dict[str, Any]:
    """Every name that a request can say, with the class and the settings that it stands for; and the classes."""
    known = scheduler_names.classes()
    names = [*scheduler_names.short_names(), *known]
    spelled = [*names, *(f"{name}_{grid}" for name in names for grid in scheduler_names.GRIDS)]
    found: dict[str, dict[str, Any]] = {}
    for name in spelled:
        try:
            kind, settings = scheduler_names.find_scheduler(name)
        except LockstepError:
            continue  # a grid that the class has not
        found[scheduler_names.plain_name(name)] = {"class": kind.__name__, "settings": settings}
    rows = [scheduler_names.described(name, kind) for name, kind in sorted(known.items())]
    for row in rows:
        row["named"] = {
            spelled: found[plain]["settings"]
            for name in row["names"]
            for spelled in (name, *(f"{name}_{grid}" for grid in row["grids"]))
            if (plain := scheduler_names.plain_name(spelled)) in found
        }
        row["calls"] = 2 if row["class"] in TWO_CALLS else 1
        row["settings"] = _settings(known[row["class"]])
    return {"names": found, "classes": rows}


def describe_guiders() -> dict[str, Any]:
    """Every guider, with what it can be set to."""
    from ... import guiders

    named = {name: getattr(guiders, name) for name in guiders.__all__ if name.endswith("Guidance")}
    return {
        name: {"description": (kind.__doc__ or "").split("\n")[0], "settings": _settings(kind)}
        for name, kind in named.items()
        if name != "BaseGuidance"
    }


def _settings(kind: Any) -> dict[str, Any]:
    """What a config can say in JSON: the form and the default of each value."""
    hints, told = config_types(kind), {}
    for name, default in config_defaults(kind).items():
        forms = [form for hint in _kinds(hints.get(name)) if (form := _form(hint)) is not None]
        if forms and (default is None or isinstance(default, (bool, int, float, str))):
            told[name] = {"form": forms[0] if len(forms) == 1 else {"anyOf": forms}, "default": default}
    return told
