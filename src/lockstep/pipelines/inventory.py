"""What a pipeline is made of, by the names that scripts over blocks ask for; components can be let go again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from ..blocks.params import ComponentSpec
from ..errors import InputError
from ..notes import say_once
from . import sharing
from .placement import PlacementMixin

SOMETIMES = ("controlnet", "adapter")  # components that only some calls of a class use: listed where there is one


class InventoryMixin(PlacementMixin):
    """The components of a pipeline, their specs, and unloading."""

    _located: dict[str, ComponentSpec]  # where the loaded components came from

    @property
    def components(self) -> Mapping[str, Any]:
        """What a pipeline of this class is made with, by name; those that are missing are None.

        A component that the pipeline makes itself (a guider) is among them once another one has taken its place.
        """
        idle = {n for n in SOMETIMES if self._components.get(n) is None and n not in self._unloaded}
        own = {n for n in self._components if sharing.is_default(self, n)}
        return MappingProxyType({n: part for n, part in self._components.items() if n not in idle | own})

    @property
    def all_components(self) -> Mapping[str, Any]:
        """Every component that the blocks use."""
        return MappingProxyType(self._components)

    @property
    def _component_specs(self) -> dict[str, ComponentSpec]:
        return dict(self.component_specs)

    def get_component_spec(self, name: str) -> ComponentSpec:
        """The spec of a component, with its place where it has one."""
        return self._unloaded.get(name) or self._located.get(name) or self.component_specs[name]

    @property
    def pretrained_component_names(self) -> list[str]:
        """The components among `components` that are loaded from somewhere."""
        specs = self.component_specs
        return [name for name in self.components if specs[name].default_creation_method == "from_pretrained"]

    @property
    def config_component_names(self) -> list[str]:
        """The components that a pipeline makes itself, from a config."""
        specs = self.component_specs.items()
        return [name for name, spec in specs if spec.default_creation_method == "from_config"]

    @property
    def default_call_parameters(self) -> dict[str, Any]:
        """What a call takes for the arguments that it is not given."""
        return {str(param.name): param.default for param in self.inputs if param.name}

    def unload_components(self, names: str | Iterable[str] | None = None) -> None:
        """Let go of loaded components, and of their memory; the next run that needs one loads it again."""
        wanted = list(self._located) if names is None else [names] if isinstance(names, str) else list(names)
        for name in wanted:
            if name not in self.component_names:
                known = ", ".join(self.component_names)
                say_once(f"unload_components: this pipeline has no {name!r}; it has: {known}.")
            elif name in self._located:
                self._let_go(name)
            elif self.all_components.get(name) is not None and name not in self._unloaded:
                raise InputError(
                    f"Component {name!r} was given, not loaded, so it cannot be loaded again. To let go of it: "
                    f"pipe.{name} = None."
                )

    def _let_go(self, name: str) -> None:
        """Put a loaded component back to where it came from."""
        with self._lock:
            self._unloaded[name] = self._located.pop(name)
            self._components[name] = None
