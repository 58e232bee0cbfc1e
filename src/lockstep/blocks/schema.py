"""The classic face, derived from the blocks: call signature, help text and JSON schema."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from ..configuration import describe_type
from .assembly import Assembly
from .params import InputParam
from .run import RunOptions
from .user_inputs import merge_wants
from .vocabulary import media_of
from .wiring import Flow, same_default

OPTION_HELP = {
    "seed": "Sample k of the batch takes its noise from seed + k; a list gives each sample its own.",
    "return_dict": "An object with named fields; False gives a tuple.",
    "output": "Return this value of the run (or these, as a dict) instead of the result; later blocks are left out.",
    "workflow": "Insist on this workflow instead of choosing one by the inputs.",
    "callback_on_step_end": "Called as f(pipe, step, timestep, values) after a step; what it returns replaces values.",
    "callback_on_step_end_tensor_inputs": "The values that the callback sees.",
    "checkpoints": "Name of a boundary -> Checkpoint(save, stop, load).",
    "preview": "Show the latents of each step: True for the pipeline's own preview, or a function of the latents.",
}


def option_defaults() -> dict[str, Any]:
    """The options of a run and their defaults."""
    made = RunOptions()
    return {option.name: getattr(made, option.name) for option in dataclasses.fields(RunOptions)}


def option_types() -> dict[str, Any]:
    """The options of a run and their types."""
    return typing.get_type_hints(RunOptions)


def call_signature(assembly: Assembly, parts: Iterable[Any] | None = None, *, bound: bool = True) -> inspect.Signature:
    """What the face names may be given by position (else the first input, the prompt), everything else by name."""
    parameters = [] if bound else [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)]
    by_position = max(len(assembly.face.positional), 1)
    for place, param in enumerate(assembly.shown(parts)):
        by_name = place >= by_position
        kind = inspect.Parameter.KEYWORD_ONLY if by_name else inspect.Parameter.POSITIONAL_OR_KEYWORD
        # after a prompt that may be left out for its embeddings, a required picture has to show a default too
        required = param.required and (by_name or not assembly.face.positional)
        default = inspect.Parameter.empty if required else param.default
        parameters.append(inspect.Parameter(str(param.name), kind, default=default, annotation=annotation(param)))
    for name, default in option_defaults().items():
        hint = option_types()[name]
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint))
    return inspect.Signature(parameters)


def annotation(param: InputParam) -> Any:
    """The type of an input; one that may be left out without a default may be None."""
    hint = Any if param.type_hint is None else param.type_hint
    return hint if param.required or param.default is not None or hint is Any else hint | None


def help_text(title: str, assembly: Assembly, parts: Iterable[Any] | None = None) -> str:
    """What a pipeline takes and gives, for people."""
    workflows = assembly.workflows
    lines = [title, "", "Inputs"]
    for param in assembly.shown(parts):
        kind = describe_type(param.type_hint) if param.type_hint is not None else "anything"
        default = "required" if param.required else f"default {param.default!r}"
        differing = defaults_by_workflow(param, workflows)
        if differing:
            default = "default " + ", ".join(f"{value!r} in {name}" for name, value in differing.items())
        only = [name for name, flow in workflows.items() if param.name in flow.wants]
        where = f" [{', '.join(only)}]" if 0 < len(only) < len(workflows) else ""
        lines.append(f"  {param.name}: {kind} ({default}){where}\n      {param.description}".rstrip())
    lines += ["", "Options of the run"]
    lines += [
        f"  {name} (default {default!r})\n      {OPTION_HELP[name]}" for name, default in option_defaults().items()
    ]
    lines += ["", "Gives"]
    lines += [
        f"  {param.name}: {describe_type(param.type_hint)}\n      {param.description}".rstrip()
        for param in assembly.result
    ]
    return "\n".join(lines)


def json_schema(pipe: Any) -> dict[str, Any]:
    """Inputs, options, results, workflows and components of a pipeline as JSON."""
    return {
        "pipeline": type(pipe).__name__,
        "description": pipe.blocks.description,
        "inputs": [_input_entry(param, pipe) for param in pipe.inputs],
        "options": [
            {"name": n, "default": _json(d), "description": OPTION_HELP[n]} for n, d in option_defaults().items()
        ],
        "outputs": [
            {
                "name": p.name,
                "type": describe_type(p.type_hint),
                "media": media_of(p.name),
                "description": p.description,
            }
            for p in pipe.result_params()
        ],
        "workflows": pipe.blocks.workflow_triggers(),
        "components": {
            name: {"type": describe_type(spec.type_hint), "optional": spec.optional}
            for name, spec in pipe.component_specs.items()
        },
    }


def _input_entry(param: InputParam, pipe: Any) -> dict[str, Any]:
    workflows = pipe.assembly.workflows
    entry: dict[str, Any] = {"name": param.name, "required": param.required, "description": param.description}
    entry["type"] = describe_type(param.type_hint) if param.type_hint is not None else "anything"
    entry["default"] = _json(pipe.folder_defaults.get(param.name, param.default))
    entry |= {"media": param.media} if param.media else {}
    entry |= {
        limit: value for limit in ("minimum", "maximum", "multiple_of") if (value := getattr(param, limit)) is not None
    }
    entry |= pipe.input_limits().get(param.name, {})
    if workflows:
        entry["workflows"] = [name for name, flow in workflows.items() if param.name in flow.wants]
    differing = defaults_by_workflow(param, workflows)
    return entry | ({"defaults": {name: _json(value) for name, value in differing.items()}} if differing else {})


def defaults_by_workflow(param: InputParam, workflows: Mapping[str, Flow]) -> dict[str, Any]:
    """Workflow -> default, where the workflows do not agree."""
    used = {name: flow.wants[str(param.name)] for name, flow in workflows.items() if param.name in flow.wants}
    found = {name: merge_wants(str(param.name), wants).default for name, wants in used.items()}
    return (
        found
        if any(
            not same_default(param.default, default) or (param.default is None and default is not None)
            for default in found.values()
        )
        else {}
    )


def _json(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_json(one) for one in value]
    return value if value is None or isinstance(value, (bool, int, float, str, dict)) else str(value)
