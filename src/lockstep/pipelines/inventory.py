"""What a pipeline is made of, by the names that scripts over blocks ask for; components can be let go again."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ..blocks.params import PLACE, ComponentSpec
from ..errors import InputError, UnsupportedError
from ..notes import say_once
from . import sharing
from .manager import ComponentsManager
from .placement import PlacementMixin

logger = logging.getLogger(__name__)
SOMETIMES = ("controlnet", "adapter")  # components that only some calls of a class use: listed where there is one


class SpecTable(MutableMapping[str, ComponentSpec]):
    """The specs of a pipeline's components with their places; to set one is to say where the component comes from."""

    def __init__(self, pipe: InventoryMixin) -> None:
        self._pipe = pipe

    def __getitem__(self, name: str) -> ComponentSpec:
        return self._pipe.get_component_spec(name)

    def __setitem__(self, name: str, spec: ComponentSpec) -> None:
        self._pipe.set_component_spec(name, spec)

    def __delitem__(self, name: str) -> None:
        raise UnsupportedError("The blocks say which components there are: remove the block, or set pipe.… = None.")

    def __iter__(self) -> Iterator[str]:
        return iter(self._pipe.component_specs)

    def __len__(self) -> int:
        return len(self._pipe.component_specs)


class InventoryMixin(PlacementMixin):
    """The components of a pipeline, their specs, and unloading."""

    _located: dict[str, ComponentSpec]  # where the loaded components came from
    name_or_path: str | None
    loads_when_looked_at: bool
    _modular_index: bool
    components_manager: ComponentsManager | None = None  # where its components are shared from
    collection: str | None = None  # its own part of it

    def manage(self, components_manager: ComponentsManager | None, collection: str | None) -> None:
        """Share components through a manager: those that were given, and those that come."""
        if components_manager is None:
            return
        if not isinstance(components_manager, ComponentsManager):
            got = type(components_manager).__name__
            raise InputError(f"components_manager wants a lockstep.ComponentsManager, got {got}.")
        self.components_manager, self.collection = components_manager, collection
        for name in self.pretrained_component_names:
            self._share(name, self._components[name])

    def is_modular(self) -> None:
        """From now on it loads and saves as scripts over blocks expect it."""
        self.loads_when_looked_at, self._modular_index = False, True

    def _share(self, name: str, component: Any) -> None:
        if self.components_manager is not None and component is not None:
            self.components_manager.add(name, component, self.collection)

    def _note_place(self, name: str, component: Any) -> None:
        """Of a component that has come: where it is from, as it says itself, and the manager that shares it."""
        self._located.pop(name, None)
        load_id = getattr(component, "_diffusers_load_id", "null")
        if load_id != "null":
            place = ComponentSpec.decode_load_id(load_id)
            source = str(place.pop("pretrained_model_name_or_path"))
            kind = type(getattr(component, "_orig_mod", component))  # torch.compile wraps
            self._located[name] = replace(self.component_specs[name], type_hint=kind).located(source, **place)
        self._share(name, component)

    def _is_own(self, name: str) -> bool:
        """Whether a component is in this pipeline's own folder; one without a folder has all that its specs name."""
        return self.name_or_path in (None, self.get_component_spec(name).pretrained_model_name_or_path)

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
    def _component_specs(self) -> SpecTable:
        return SpecTable(self)

    def get_component_spec(self, name: str) -> ComponentSpec:
        """The spec of a component, with its place where it has one."""
        return self._unloaded.get(name) or self._located.get(name) or self.component_specs[name]

    def set_component_spec(self, name: str, spec: ComponentSpec) -> None:
        """Say where a component comes from; it is loaded from there when it is next needed."""
        if name not in self.component_specs:
            say_once(f"No block of {type(self).__name__} uses a component {name!r}: its spec changes nothing.")
            return
        own = self.component_specs[name]
        placed = replace(own, type_hint=spec.type_hint or own.type_hint)
        if spec.pretrained_model_name_or_path is None:
            raise InputError(f"The spec of {name!r} names no pretrained_model_name_or_path to load it from.")
        with self._lock:
            self._located.pop(name, None)
            self._components[name] = None
            self._unloaded[name] = placed.located(
                spec.pretrained_model_name_or_path,
                **{key: getattr(spec, key) for key in PLACE[1:]},
            )

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
        if not isinstance(names, (str, list, type(None))):
            raise InputError(f"Invalid type for names: a name or a list of names is wanted, got {names!r}.")
        wanted = list(self._located) if names is None else [names] if isinstance(names, str) else list(names)
        for name in wanted:
            if name not in self.component_names:
                known = ", ".join(self.component_names)
                logger.warning("unload_components: this pipeline has no %r; it has: %s.", name, known)
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
            manager, held = self.components_manager, self._components[name]
            for one in manager.get_ids(name, self.collection) if manager is not None else ():
                if manager is not None and manager.components[one] is held:
                    manager.remove(one)
            self._unloaded[name] = self._located.pop(name)
            self._components[name] = None
