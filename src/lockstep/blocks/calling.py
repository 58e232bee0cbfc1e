"""From a call's arguments to a run that is ready: what can be refused is refused here, before any model runs."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import torch

from ..configuration import describe_type, fits
from ..errors import InputError, UnknownNameError, UnsupportedError
from . import memory
from .assembly import Assembly
from .components import RunComponents
from .params import describe_value
from .plan import Plan, check_blocks, check_call, check_names, make_plan
from .randomness import generators_for, seeds_per_sample
from .run import Run, RunOptions

PLAIN_OPTIONS: dict[str, Any] = {
    "return_dict": bool,
    "output": str | list[str] | None,
    "workflow": str | None,
    "callback_on_step_end_tensor_inputs": list[str],
}
ELSEWHERE = {
    "ip_adapter_image": "this pipeline has no IP-Adapter",
    "ip_adapter_image_embeds": "this pipeline has no IP-Adapter",
    "callback": "give callback_on_step_end=f(pipe, step, timestep, values)",
    "callback_steps": "callback_on_step_end is called at every step, and can leave some out itself",
}
OPTION_NAMES = tuple(option.name for option in dataclasses.fields(RunOptions))


@dataclasses.dataclass(frozen=True)
class UnderstoodCall:
    """A call's arguments, bound to names and planned; checked for themselves, without a look at components."""

    assembly: Assembly
    plan: Plan
    values: dict[str, Any]
    options: RunOptions
    given: dict[str, Any]  # what the caller said, without defaults

    @property
    def samples(self) -> int:
        return self.plan.root.count_samples(self.values) if "generator" in self.plan.inputs else 1


def prepare_run(
    pipe: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], only: Collection[str] | None = None
) -> Run:
    """Bind, plan, check, load what is needed, and hand out generators; for `only` these outermost blocks."""
    call = understood(pipe, args, kwargs)
    plan, values, options, samples = call.plan, call.values, call.options, call.samples
    needed = plan.needed_components(values, only)
    pipe.require_components(needed)
    memory.require(samples * memory.PER_SAMPLE, torch.device("cpu"), f"{samples} pictures at once")
    components = RunComponents(pipe, {name: spec for name, (spec, _) in needed.items()}, samples, call.given)
    check_blocks(plan, values, lambda place: components.seen_by(place.block, place.path), only)
    seeds = give_generators(plan, values, options, samples, pipe.choose_seed)
    workflow = options.workflow or call.assembly.workflow_of(plan)
    return Run(pipe, plan, values, options, components, seeds, workflow, only)


def understood(pipe: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> UnderstoodCall:
    """Bind and plan a call, and check its values for themselves."""
    assembly: Assembly = pipe.assembly  # taken once: an edit by another thread makes another one
    grouped = _given_groups(assembly, kwargs)
    kwargs = {name: value for name, value in kwargs.items() if name not in grouped}
    values, options = _bind(type(pipe).__name__, assembly, args, kwargs)
    root = assembly.root.get_workflow(options.workflow) if options.workflow else assembly.root
    defaults = {str(param.name): param.default for param in assembly.inputs}
    plan = make_plan(root, {**defaults, **_without_none(values)}, _wanted(options))
    given = _without_none(values)
    values |= {n: v for n, v in pipe.folder_defaults.items() if n in plan.inputs and values.get(n) is None}
    check_call(plan, assembly.flow, values, assembly.face)
    _check_options(pipe, plan, options)
    values = plan.with_defaults(values)
    for group, members in grouped.items():
        plan.flow.groups[group] = list(dict.fromkeys([*plan.flow.groups.get(group, []), *members]))
        values |= members
    return UnderstoodCall(assembly, plan, values, options, given)


def _given_groups(assembly: Assembly, kwargs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Values that are given as a dictionary under the name of the group that some block reads whole."""
    known = assembly.flow.read_groups.keys() - assembly.flow.inputs.keys()
    found = {name: kwargs[name] for name in kwargs if name in known and kwargs[name] is not None}
    for name, members in found.items():
        if not isinstance(members, Mapping) or not all(isinstance(key, str) for key in members):
            raise InputError(f"{name!r} wants a dictionary of values by name, got {describe_value(members)}.")
    return {name: dict(members) for name, members in found.items()}


def _bind(
    owner: str, assembly: Assembly, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], RunOptions]:
    values = {name: value for name, value in kwargs.items() if name not in OPTION_NAMES}
    values = assembly.face.by_name(owner, assembly.inputs, args, values)
    values = {name: value for name, value in values.items() if not _is_elsewhere(name, value, assembly)}
    check_names(assembly.flow, values, OPTION_NAMES, owner)
    options = {name: value for name, value in kwargs.items() if name in OPTION_NAMES}
    for name, hint in PLAIN_OPTIONS.items():
        if name in options and not fits(options[name], hint):
            raise InputError(f"{name!r} wants {describe_type(hint)}, got {describe_value(options[name])}.")
    return values, RunOptions(**options)


def _is_elsewhere(name: str, value: Any, assembly: Assembly) -> bool:
    """Whether it is an argument of other pipelines: left out where it is None, else refused by its name."""
    if name in assembly.flow.inputs or name not in ELSEWHERE:
        return False
    if value is not None:
        raise UnsupportedError(f"{name!r} cannot be had: {ELSEWHERE[name]}.")
    return True


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _wanted(options: RunOptions) -> list[str]:
    if options.output is None:
        return []
    return [options.output] if isinstance(options.output, str) else list(options.output)


def _check_options(pipe: Any, plan: Plan, options: RunOptions) -> None:
    if options.callback_on_step_end is not None:
        known = pipe.callback_names(plan.names)
        for name in options.callback_on_step_end_tensor_inputs:
            if name not in known:
                raise UnknownNameError("value in callback_on_step_end_tensor_inputs", name, known)
        _check_callback(options.callback_on_step_end)
    if not isinstance(options.preview, bool) and not callable(options.preview):
        raise InputError(f"preview wants True or a function of the latents, got {describe_value(options.preview)}.")
    if options.preview is True and not hasattr(pipe, "preview"):
        raise UnsupportedError(
            f"{type(pipe).__name__} has no preview of its own; give a function of the latents: preview=…."
        )
    if not isinstance(options.checkpoints, Mapping):
        raise InputError(f"checkpoints wants {{name: Checkpoint}}, got {describe_value(options.checkpoints)}.")


def _check_callback(callback: Any) -> None:
    try:
        inspect.signature(callback).bind("pipe", 0, 0, {})
    except TypeError:
        raise InputError(
            f"callback_on_step_end wants a function of (pipe, step, timestep, values), got {describe_value(callback)}."
        ) from None
    except ValueError:
        pass  # a builtin that tells no signature


def give_generators(
    plan: Plan, values: dict[str, Any], options: RunOptions, samples: int, choose_seed: Callable[[], int]
) -> list[int] | None:
    """Put this run's generators into its values; the seeds, where it has seeds."""
    given, draws = values.get("generator"), "generator" in plan.inputs
    if options.seed is not None:
        if given is not None:
            raise InputError("Give 'seed' or 'generator', not both: each of them says where the noise comes from.")
        if "generator" not in plan.readable:
            raise InputError("'seed' was given, but no block of this run draws noise (none reads 'generator').")
        _check_seed(options.seed)
    if not draws:
        return None
    if given is not None:
        if isinstance(given, list) and len(given) not in (1, samples):
            raise InputError(f"A list of generators wants one per sample: {samples} for this call, got {len(given)}.")
        return None
    seeds = seeds_per_sample(choose_seed() if options.seed is None else options.seed, samples)
    values["generator"] = generators_for(seeds)
    return seeds


def _check_seed(seed: Any) -> None:
    numbers = seed if isinstance(seed, (list, tuple)) else [seed]
    if any(isinstance(one, bool) or not isinstance(one, (int, np.integer)) for one in numbers):
        raise InputError(f"'seed' wants {describe_type(int | list[int])}, got {describe_value(seed)}.")
