"""A wish is what a face asks for; a request is the one form that the queue keeps, checked against its model's card."""

from __future__ import annotations

import json
import math
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import did_you_mean
from .problems import Problem
from .queue import Submission
from .settings import Limits

MAX_SEED = 2**63 - 1
PER_ROW = ("prompt", "negative_prompt", "image", "mask_image")
EDITS = ("value", "add", "multiply", "noise", "toward")
DRAWN = {"noise": {"seed", "strength"}, "toward": {"seed", "amount"}}  # edits that draw numbers, and what they want
LONGEST = 4096  # numbers in a list
KINDS: dict[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,)}
SAID = {"string": "a text", "integer": "a whole number", "number": "a number", "boolean": "true or false"}


@dataclass
class Wish:
    """What somebody wants; None is what the model does by itself."""

    model: str | None = None
    inputs: dict[str, Any] = field(default_factory=dict)  # pictures as {"file", "width", "height"}
    workflow: str | None = None
    seed: int | None = None
    count: int = 1
    scheduler: Any = None  # a name, or {"class", "settings"}
    guider: Any = None
    loras: list[dict[str, Any]] = field(default_factory=list)
    controlnets: list[str] = field(default_factory=list)
    partials: int = 0
    deterministic: bool = False  # alone: no batch with others
    stop_at: str | None = None
    edits: list[dict[str, Any]] = field(default_factory=list)
    trace: bool = False  # keep what every block makes


@dataclass
class Catalogue:
    """What the worker said at its start, and the names that the owner gave."""

    models: dict[str, dict[str, Any]]
    schedulers: dict[str, Any]
    guiders: dict[str, Any]
    loras: list[str]
    controlnets: list[str]

    @property
    def default(self) -> str:
        return next(iter(self.models))

    def card(self, name: str | None) -> dict[str, Any]:
        wanted = self.default if name is None else name
        if wanted not in self.models:
            known = did_you_mean(wanted, self.models)
            raise Problem(
                404,
                "model_not_found",
                f"There is no model {wanted[:100]!r} here{known} There are: {', '.join(self.models)}.",
                param="model",
            )
        return self.models[wanted]

    def picture_card(self, name: str | None) -> dict[str, Any]:
        """The card of a model that makes pictures, for faces that know nothing else."""
        card = self.card(name)
        if card["media"] != "picture":
            problem = f"{card['name']} makes no pictures: use /api/jobs."
            raise Problem(400, "unsupported_parameter", problem, param="model")
        return card

    def scheduler_class(self, name: str) -> dict[str, Any] | None:
        return next((row for row in self.schedulers["classes"] if row["class"] == name), None)


def request_of(wish: Wish, catalogue: Catalogue, limits: Limits) -> dict[str, Any]:
    """The request of a wish, with all that was left open decided; refused with the field that is wrong."""
    card = catalogue.card(wish.model)
    if card["unable"]:
        raise Problem(501, "not_implemented", f"{card['name']} cannot be used here. {card['unable']}", param="model")
    inputs = _inputs(wish.inputs, card, limits)
    steps = int(inputs.get("num_inference_steps") or card["inputs"].get("num_inference_steps", {}).get("default") or 1)
    if isinstance(own := inputs.get("timesteps") or inputs.get("sigmas"), list):
        steps = len(own)
    if steps > limits.steps:
        raise refused("num_inference_steps", f"{limits.steps} steps at most", steps)
    if not 1 <= wish.count <= limits.count:
        raise refused("count", f"1 to {limits.count} pictures", wish.count)
    seed = secrets.randbelow(2**31) if wish.seed is None else wish.seed
    if not 0 <= seed <= MAX_SEED - limits.count:
        raise refused("seed", f"0 to {MAX_SEED - limits.count}", seed)
    if wish.workflow is not None and wish.workflow not in card["workflows"]:
        raise _unknown("workflow", wish.workflow, card["workflows"])
    request: dict[str, Any] = {
        "model": card["name"], "inputs": inputs, "count": wish.count, "seed": seed, "steps": steps,
        "count_input": card["count_input"], "workflow": wish.workflow,
        "scheduler": _scheduler(wish.scheduler, catalogue),
        "guider": _guider(wish.guider, catalogue), "loras": _loras(wish.loras, catalogue),
        "controlnets": _controlnets(wish.controlnets, inputs, card, catalogue), "partials": wish.partials,
        "deterministic": wish.deterministic, "stop_at": wish.stop_at, "edits": _edits(wish.edits),
        "trace": wish.trace,
    }  # fmt: skip
    if wish.trace and wish.count != 1:
        raise refused("trace", "one picture at a time", f"{wish.count} of them")
    if not 0 <= wish.partials <= 16:
        raise refused("partials", "0 to 16", wish.partials)
    if wish.stop_at is not None and not re.fullmatch(r"[A-Za-z0-9_.]{1,200}", wish.stop_at):
        raise refused("stop_at", "the name of a boundary", wish.stop_at)
    request["width"], request["height"] = _size(inputs, card, limits)
    _require_text(request)
    if cost(request, catalogue) > limits.work:
        raise refused(
            "inputs", f"pixels x steps x pictures of {limits.work:.3g} at most", f"{cost(request, catalogue):.3g}"
        )
    return request


def _require_text(request: Mapping[str, Any]) -> None:
    """Halves of characters, which JSON can write and nothing can store."""
    try:
        json.dumps(request, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise Problem(400, "invalid_value", "The request has text that is not Unicode.", param="inputs") from None


def submission_of(request: dict[str, Any], catalogue: Catalogue, **who: Any) -> Submission:
    """The request with what the queue wants to know of it."""
    files = [one["file"] for one in pictures_in(request["inputs"])]
    prompt = request["inputs"].get("prompt")
    return Submission(
        request, request["model"], text=prompt if isinstance(prompt, str) else "", shape=shape(request),
        rows=request["count"], cost=cost(request, catalogue), inputs=files, **who,
    )  # fmt: skip


def cost(request: Mapping[str, Any], catalogue: Catalogue) -> float:
    """Pixels x calls of the model x pictures."""
    row = catalogue.scheduler_class(request["scheduler"]["class"]) if request["scheduler"] else None
    calls = request["steps"] * (row["calls"] if row else 1)
    return float(request["width"] * request["height"] * calls * request["count"])


def shape(request: Mapping[str, Any]) -> str | None:
    """Requests of one shape can be the rows of one run; None for one that has to be alone."""
    alone = any(request[name] for name in ("deterministic", "stop_at", "edits", "controlnets", "trace"))
    inputs = request["inputs"]
    if alone or inputs.get("padding_mask_crop") is not None:
        return None
    own = ("count", "seed", "partials", "inputs", "deterministic", "stop_at", "edits", "trace", "steps")
    shared = {name: value for name, value in inputs.items() if name not in PER_ROW and value is not None}
    sizes = {name: [one["width"], one["height"]] for name in ("image", "mask_image") if (one := inputs.get(name))}
    rest = {name: value for name, value in request.items() if name not in own}
    return json.dumps([rest, shared, sizes, request["steps"]], sort_keys=True)


def pictures_in(value: Any) -> Iterable[dict[str, Any]]:
    """Every picture of a request's inputs."""
    if isinstance(value, dict) and "file" in value:
        yield value
    elif isinstance(value, (dict, list)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from pictures_in(one)


def keeping_the_rest(inputs: Mapping[str, Any], card: Mapping[str, Any]) -> dict[str, Any]:
    """With a mask and no other margin, one that takes in the whole picture: nothing is enlarged, and what the mask
    keeps is pasted back to the last pixel."""
    mask = inputs.get("mask_image")
    if mask is None or "padding_mask_crop" in inputs or "padding_mask_crop" not in card["inputs"]:
        return {}
    return {"padding_mask_crop": max(mask["width"], mask["height"])}


def refused(param: str, wanted: str, got: object) -> Problem:
    return Problem(400, "invalid_value", f"{param!r} wants {wanted}, got {_short(got)}.", param=param)


def _unknown(what: str, name: object, known: Iterable[str], status: int = 400) -> Problem:
    names = list(known)
    listing = ", ".join(names) or "none"
    return Problem(
        status,
        "unknown_parameter",
        f"Unknown {what} {_short(name)}{did_you_mean(name, names)} Known: {listing}.",
        param=what,
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


# ---- inputs ----


def _inputs(given: Mapping[str, Any], card: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    known, checked = card["inputs"], {}
    for name, value in given.items():
        if name not in known:
            raise _unknown("input", name, known)
        if value is None:
            continue
        _check_value(name, value, known[name]["form"])
        if isinstance(value, str) and len(value) > limits.prompt:
            raise refused(name, f"{limits.prompt} characters at most", f"{len(value)}")
        checked[name] = value
    if "prompt" in known and not any(name in checked for name in ("prompt", "image", "control_image")):
        raise Problem(400, "invalid_value", "'prompt' is wanted: what the picture has to show.", param="prompt")
    if "mask_image" in checked and "image" not in checked:
        raise Problem(400, "invalid_value", "'mask_image' wants an 'image' to paint in.", param="image")
    return checked


def _check_value(name: str, value: Any, form: Mapping[str, Any]) -> None:
    if "media" in form:
        several = isinstance(value, list) and form["several"]
        for one in value if several else [value]:
            if not (isinstance(one, dict) and "file" in one):
                raise refused(name, f"a {form['media']}", one)
        return
    forms = form.get("anyOf", [form])
    if not any(fits(value, one) for one in forms):
        raise refused(name, " or ".join(map(_said, forms)), value)


def fits(value: Any, form: Mapping[str, Any]) -> bool:
    """Whether a JSON value is of a form; true is no number, and NaN is none either."""
    if "enum" in form:
        return isinstance(value, str) and value in form["enum"]
    if form["type"] == "array":
        return isinstance(value, list) and 0 < len(value) <= LONGEST and all(fits(one, form["items"]) for one in value)
    if not isinstance(value, KINDS[form["type"]]) or (isinstance(value, bool) and form["type"] != "boolean"):
        return False
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not is_number(value):
            return False
        low, high, factor = form.get("minimum", -math.inf), form.get("maximum", math.inf), form.get("multipleOf")
        return low <= value <= high and (factor is None or value % factor == 0)
    return True


def is_number(value: Any) -> bool:
    """Whether it can be computed with: no true, no NaN, nothing beyond 64 bits."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -MAX_SEED <= value <= MAX_SEED


def _said(form: Mapping[str, Any]) -> str:
    if "enum" in form:
        return "one of " + ", ".join(map(repr, form["enum"]))
    if form["type"] == "array":
        return f"a list of {SAID[form['items']['type']]}s".replace("a list of a ", "a list of ")
    limits = [
        f"from {form['minimum']}" if "minimum" in form else "",
        f"to {form['maximum']}" if "maximum" in form else "",
    ]
    limits.append(f"in steps of {form['multipleOf']}" if "multipleOf" in form else "")
    return " ".join(filter(None, [SAID[form["type"]], *limits]))


def _size(inputs: Mapping[str, Any], card: Mapping[str, Any], limits: Limits) -> tuple[int, int]:
    """Width and height of what will be made: as given, else the start picture's, else the model's own."""
    started = inputs.get("image") or {}
    width = inputs.get("width") or started.get("width") or card["width"] or 1024
    height = inputs.get("height") or started.get("height") or card["height"] or 1024
    if width * height > limits.pixels:
        raise refused("width", f"width x height of {limits.pixels} at most", f"{width}x{height}")
    return width, height


# ---- parts ----


def _scheduler(wanted: Any, catalogue: Catalogue) -> dict[str, Any] | None:
    if wanted is None:
        return None
    if isinstance(wanted, str):
        found = catalogue.schedulers["names"].get(re.sub(r"[ _-]", "", wanted.lower()).replace("++", "pp"))
        if found is None:
            raise _unknown(
                "scheduler", wanted, [name for row in catalogue.schedulers["classes"] for name in row["names"]]
            )
        return dict(found)
    row = catalogue.scheduler_class(wanted["class"])
    if row is None:
        raise _unknown("scheduler", wanted["class"], [row["class"] for row in catalogue.schedulers["classes"]])
    return {"class": row["class"], "settings": _settings("scheduler", wanted["settings"], row["settings"])}


def _guider(wanted: Any, catalogue: Catalogue) -> dict[str, Any] | None:
    if wanted is None:
        return None
    asked: dict[str, Any] = {"class": wanted, "settings": {}} if isinstance(wanted, str) else wanted
    if asked["class"] not in catalogue.guiders:
        raise _unknown("guider", asked["class"], catalogue.guiders)
    known = catalogue.guiders[asked["class"]]["settings"]
    return {"class": asked["class"], "settings": _settings("guider", asked["settings"], known)}


def _settings(what: str, given: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in given.items():
        if name not in known:
            raise _unknown(f"setting of the {what}", name, known)
        _check_value(name, value, known[name]["form"])
    return dict(given)


def _loras(wanted: list[dict[str, Any]], catalogue: Catalogue) -> list[dict[str, Any]]:
    found: dict[str, float] = {}
    for one in wanted:
        if one["name"] not in catalogue.loras:
            raise _unknown("lora", one["name"], catalogue.loras)
        if not math.isfinite(one["strength"]) or abs(one["strength"]) > 10:
            raise refused("loras", "a strength from -10 to 10", one["strength"])
        found[one["name"]] = float(one["strength"])
    return [{"name": name, "strength": found[name]} for name in sorted(found)]


def _controlnets(
    wanted: list[str], inputs: Mapping[str, Any], card: Mapping[str, Any], catalogue: Catalogue
) -> list[str]:
    if wanted and not card["controlnet"]:
        raise Problem(400, "unsupported_parameter", f"{card['name']} takes no ControlNet.", param="controlnets")
    for name in wanted:
        if name not in catalogue.controlnets:
            raise _unknown("controlnet", name, catalogue.controlnets)
    given = inputs.get("control_image")
    many = len(given) if isinstance(given, list) else int(given is not None)
    if many != len(wanted):
        raise refused("controlnets", f"one ControlNet for each control_image ({many})", len(wanted))
    return list(wanted)


def _edits(wanted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for edit in wanted:
        for name, change in edit["values"].items():
            if len(change) != 1 or next(iter(change)) not in EDITS:
                raise refused("edits", f"for {name!r} one of {', '.join(EDITS)}", change)
            way, given = next(iter(change.items()))
            if way in DRAWN and not (isinstance(given, dict) and set(given) == DRAWN[way] and all(
                    is_number(one) for one in given.values())):  # fmt: skip
                raise refused("edits", f"{way} as {{{', '.join(sorted(DRAWN[way]))}}}", given)
            if way not in DRAWN and not _plain_numbers(given) and not isinstance(given, str):
                raise refused("edits", "numbers, or lists of them", given)
    return wanted


def _plain_numbers(value: Any, depth: int = 6) -> bool:
    if isinstance(value, list):
        return depth > 0 and all(_plain_numbers(one, depth - 1) for one in value)
    return isinstance(value, bool) or is_number(value)
