"""Components as one run and one block see them: weights are shared, what changes is the run's own copy."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from ..errors import WiringError, did_you_mean
from .params import ComponentSpec


def is_stateful(component: Any, spec: ComponentSpec | None = None) -> bool:
    """Whether a component changes while it is used: schedulers, guiders, and what says so of itself."""
    if spec is not None and spec.stateful:
        return True
    if isinstance(component, torch.nn.Module) and not hasattr(component, "fresh"):
        return False
    is_guider = hasattr(component, "prepare_inputs") and hasattr(component, "set_state")
    return hasattr(component, "fresh") or hasattr(component, "set_timesteps") or is_guider


def own_copy(component: Any) -> Any:
    """A copy for one run."""
    return component.fresh() if hasattr(component, "fresh") else copy.deepcopy(component)


class RunComponents:
    """The components of one run."""

    def __init__(
        self, pipe: Any, specs: Mapping[str, ComponentSpec], samples: int = 1, given: Iterable[str] = ()
    ) -> None:
        self.pipe, self.samples, self.given = pipe, samples, frozenset(given)
        shared = {name: pipe.all_components.get(name) for name in specs}
        stateful = [
            name for name, component in shared.items() if component is not None and is_stateful(component, specs[name])
        ]
        self.own = {name: own_copy(shared[name]) for name in stateful}
        self.stateful = tuple(stateful)

    def get(self, name: str) -> Any:
        return self.own[name] if name in self.own else self.pipe.all_components.get(name)

    def upcast(self, names: Iterable[str]) -> list[str]:
        """Give this run fp32 copies of the named half-precision models; the names of those."""
        half = [name for name in names if _dtype(self.get(name)) in (torch.float16, torch.bfloat16)]
        for name in half:
            self.own[name] = copy.deepcopy(self.get(name)).float()
        return half

    def seen_by(self, block: Any, path: str, run: Any = None) -> ComponentsView:
        return ComponentsView(self, block, path, run)


class ComponentsView:
    """What a block gets as `components`: the components and configs that it declares, `device` and `dtype`."""

    __slots__ = ("_block", "_components", "_declared", "_path", "_run")

    def __init__(self, components: RunComponents, block: Any, path: str, run: Any) -> None:
        for name, value in zip(self.__slots__, (block, components, _declared(block), path, run), strict=True):
            object.__setattr__(self, name, value)

    @property
    def device(self) -> torch.device:
        """Where the run computes; every block may ask, without declaring it."""
        return self._components.pipe.device

    @property
    def dtype(self) -> torch.dtype:
        """In what it computes."""
        return self._components.pipe.dtype

    @property
    def samples(self) -> int:
        """How many samples the run makes."""
        return self._components.samples

    @property
    def given_inputs(self) -> frozenset[str]:
        """The inputs that the caller gave; the others have their defaults."""
        return self._components.given

    @property
    def given_processors(self) -> Mapping[str, Any]:
        """Processors of pictures that a person has put in the place of those that blocks make for themselves."""
        return getattr(self._components.pipe, "given_processors", {})

    def _who(self) -> str:
        return f"Block {self._path!r} ({type(self._block).__name__})"

    def __getattr__(self, name: str) -> Any:
        pipe = self._components.pipe
        if name in self._declared:
            spec = self._declared[name]
            return pipe.outline(spec.name) if spec.outline else self._components.get(spec.name)
        configs = [spec.name for spec in self._block.expected_configs]
        if name in configs:
            return pipe._config[name]
        if name.startswith("__"):
            raise AttributeError(name)
        declared = sorted([*self._declared, *configs])
        spec = f"ConfigSpec({name!r}, …) to expected_configs"
        if name not in pipe._config:
            spec = f"ComponentSpec({name!r}, …) to expected_components" + (
                "" if name in pipe.component_names else f", or {spec}"
            )
        raise WiringError(
            f"{self._who()} reads components.{name}, which it does not declare{did_you_mean(name, declared)} "
            f"Declared: {', '.join(declared) or 'none'}. Add {spec}."
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise WiringError(
            f"{self._who()} sets components.{name}. Components belong to the pipeline; a value for later blocks "
            "goes into the state as a declared output."
        )


def _declared(block: Any) -> dict[str, ComponentSpec]:
    """What a block (a loop: the loop itself) may call a component -> the component: its own name, and its role."""
    written = block.loop_expected_components if block.kind == "loop" else block.expected_components
    pairs = list(zip(written, block.own_components, strict=True))
    return {spec.name: spec for _, spec in pairs} | {role.name: spec for role, spec in pairs}


def _dtype(component: Any) -> torch.dtype | None:
    if not isinstance(component, torch.nn.Module):
        return None
    return next((p.dtype for p in component.parameters() if p.is_floating_point()), None)
