"""Components that several pipelines share, in one place: what is there, under which name, and who holds it."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from typing import Any

import torch

from ..errors import InputError, UnknownNameError, UnsupportedError
from ..notes import say_once

Name = str | None


class ComponentsManager:
    """Holds components by an id each (`unet_1402…`), in collections where a pipeline has one.

    A pipeline that was made with `components_manager=` puts what it loads or is given here, and takes it out again
    when it lets go of it; another one is given what is here:
    `pipe.update_components(unet=manager.get_one(name="unet"))`.
    """

    def __init__(self) -> None:
        self.components: dict[str, Any] = {}
        self.collections: dict[str, set[str]] = {}

    def add(self, name: str, component: Any, collection: str | None = None) -> str:
        """Keep a component; its id. In a collection it takes the place of the one that had its name there."""
        found = f"{name}_{id(component)}"
        load_id = getattr(component, "_diffusers_load_id", "null")
        twins = self._lookup_ids(load_id=load_id) - {found} if load_id != "null" else set()
        if twins and found not in self.components:
            say_once(
                f"ComponentsManager: {found} was loaded from where {', '.join(sorted(twins))} was: it is held twice."
            )
        self.components[found] = component
        if collection is not None:
            held = self.collections.setdefault(collection, set())
            for other in self._lookup_ids(name, collection) - {found}:
                self.remove_from_collection(other, collection)
            held.add(found)
        return found

    def remove(self, component_id: str) -> None:
        """Let a component go."""
        self._require(component_id)
        del self.components[component_id]
        for held in self.collections.values():
            held.discard(component_id)

    def remove_from_collection(self, component_id: str, collection: str) -> None:
        """Take it out of a collection, and let it go where no other collection has it."""
        self.collections.get(collection, set()).discard(component_id)
        if component_id in self.components and not any(component_id in held for held in self.collections.values()):
            self.remove(component_id)

    def get_ids(self, names: str | list[str] | None = None, collection: str | None = None) -> list[str]:
        """The ids of components by their names; all of them without."""
        wanted = [names] if isinstance(names, str) else names
        found = self._lookup_ids(collection=collection)
        return [one for one in self.components if one in found and (wanted is None or name_of(one) in wanted)]

    def get_one(
        self, component_id: Name = None, name: Name = None, collection: Name = None, load_id: Name = None
    ) -> Any:
        """The one component that has this id, or this name (a pattern), collection and place."""
        if component_id is not None:
            if (name, collection, load_id) != (None, None, None):
                raise InputError("get_one wants a 'component_id', or 'name', 'collection' and 'load_id', not both.")
            return self._require(component_id)
        found = self.search_components(name, collection, load_id, return_dict_with_names=False)
        if len(found) != 1:
            raise InputError(f"get_one wants one component, {len(found)} fit: {', '.join(found) or 'none'}.")
        return next(iter(found.values()))

    def get_components_by_ids(self, ids: list[str], return_dict_with_names: bool = True) -> dict[str, Any]:
        """Components by their ids; keyed by name, so that a pipeline can be given them."""
        found = {one: self._require(one) for one in ids}
        return by_name(found) if return_dict_with_names else found

    def get_components_by_names(self, names: list[str], collection: str | None = None) -> dict[str, Any]:
        """Components by their names: `pipe.update_components(**manager.get_components_by_names(["unet", "vae"]))`."""
        return self.get_components_by_ids(self.get_ids(names, collection))

    def search_components(
        self,
        names: str | None = None,
        collection: str | None = None,
        load_id: str | None = None,
        return_dict_with_names: bool = True,
    ) -> dict[str, Any]:
        """Components whose names fit: `unet`, `unet*`, `*encoder*`, one of several `unet|vae`; `!` before it, none."""
        chosen = self._lookup_ids(collection=collection, load_id=load_id)
        if names is not None:
            patterns, without = names.removeprefix("!").split("|"), names.startswith("!")
            chosen = {one for one in chosen if any(fnmatch.fnmatchcase(name_of(one), p) for p in patterns) != without}
        found = {one: part for one, part in self.components.items() if one in chosen}
        if names is not None and not found:
            raise UnknownNameError("component", names, {name_of(one) for one in self.components})
        return by_name(found) if return_dict_with_names else found

    def get_model_info(self, component_id: str, fields: str | list[str] | None = None) -> dict[str, Any]:
        """Class, place, collections and, of a model, device, dtype and size in GB."""
        component = self._require(component_id)
        told: dict[str, Any] = {
            "model_id": component_id,
            "class_name": type(component).__name__,
            "load_id": getattr(component, "_diffusers_load_id", None),
            "collection": sorted(name for name, held in self.collections.items() if component_id in held) or None,
        }
        if isinstance(component, torch.nn.Module):
            size = sum(tensor.numel() * tensor.element_size() for tensor in component.state_dict().values())
            like = next(component.parameters(), torch.zeros(0))
            told |= {"device": like.device, "dtype": like.dtype, "size_gb": size / 1024**3}
        wanted = [fields] if isinstance(fields, str) else fields
        return told if wanted is None else {name: value for name, value in told.items() if name in wanted}

    def enable_auto_cpu_offload(
        self, device: torch.device | str | None = None, memory_reserve_margin: str = "3GB"
    ) -> None:
        """Not here: a pipeline moves its models itself."""
        raise UnsupportedError(
            "A ComponentsManager moves no models: pipe.enable_model_cpu_offload() does it, for what a pipeline uses."
        )

    def __repr__(self) -> str:
        lines = [f"  {one}: {type(part).__name__}" for one, part in self.components.items()]
        return "\n".join([f"ComponentsManager of {len(self.components)} components", *lines])

    def _lookup_ids(
        self, name: str | None = None, collection: str | None = None, load_id: str | None = None
    ) -> set[str]:
        held = set(self.components) if collection is None else self.collections.get(collection, set())
        ids = {one for one in held if name is None or name_of(one) == name}
        return {one for one in ids if load_id in (None, getattr(self.components[one], "_diffusers_load_id", None))}

    def _require(self, component_id: str) -> Any:
        if component_id not in self.components:
            raise UnknownNameError("component id", component_id, self.components)
        return self.components[component_id]


def name_of(component_id: str) -> str:
    """`text_encoder_1402…` -> `text_encoder`."""
    return component_id.rpartition("_")[0]


def by_name(components: Mapping[str, Any]) -> dict[str, Any]:
    """Components under their names; refused where two have one."""
    found: dict[str, Any] = {}
    for one, part in components.items():
        if name_of(one) in found:
            raise InputError(
                f"Several components are called {name_of(one)!r}: say which by a collection, or ask for ids "
                "(return_dict_with_names=False)."
            )
        found[name_of(one)] = part
    return found
