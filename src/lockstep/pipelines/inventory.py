"""What a pipeline is made of, by the names that scripts over blocks ask for; components can be let go again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..blocks.params import ComponentSpec
from ..errors import InputError
from ..notes import say_once

if TYPE_CHECKING:
    from .pipeline import DiffusionPipeline


class InventoryMixin:
    """Specs and defaults of a pipeline, and unloading."""

    _located: dict[str, ComponentSpec]  # where the loaded components came from

    @property
    def _component_specs(self: DiffusionPipeline) -> dict[str, ComponentSpec]:
        return dict(self.component_specs)

    def get_component_spec(self: DiffusionPipeline, name: str) -> ComponentSpec:
        """The spec of a component, with its place where it has one."""
        return self._unloaded.get(name) or self._located.get(name) or self.component_specs[name]

    @property
    def pretrained_component_names(self: DiffusionPipeline) -> list[str]:
        """The components that are loaded from somewhere."""
        specs = self.component_specs.items()
        return [name for name, spec in specs if spec.default_creation_method == "from_pretrained"]

    @property
    def config_component_names(self: DiffusionPipeline) -> list[str]:
        """The components that a pipeline makes itself, from a config."""
        specs = self.component_specs.items()
        return [name for name, spec in specs if spec.default_creation_method == "from_config"]

    @property
    def default_call_parameters(self: DiffusionPipeline) -> dict[str, Any]:
        """What a call takes for the arguments that it is not given."""
        return {str(param.name): param.default for param in self.assembly.face.shown(self.inputs) if param.name}

    def unload_components(self: DiffusionPipeline, names: str | Iterable[str] | None = None) -> None:
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
