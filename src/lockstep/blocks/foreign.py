"""Components of other libraries: taken over exactly, with shared weights, into the class of the same name here.

Other libraries are recognised by the module that a class comes from; none of them is imported.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any, get_args

import torch

from ..configuration import describe_type
from ..errors import InputError, UnknownNameError
from ..notes import say_once
from .params import ComponentSpec, chooses, library_of, public_class


def adopted(spec: ComponentSpec, component: Any) -> Any:
    """The component itself, or where it is another library's, ours of the same class, config and weights."""
    if component is None or library_of(type(component)) is None or spec.by_behaviour:
        return component
    name = type(component).__name__.removesuffix("Fast").removesuffix("Pil")  # the same, computed by other means
    try:
        kind: Any = spec.class_named(name) or public_class(name, f"component {spec.name!r}")
    except UnknownNameError:
        if chooses(spec.type_hint):
            return component
        wrapper = _wrapper_of(spec, component)
        if wrapper is not None:
            say_once(f"{shown(component)} has no class here: it is used as it is, as the component {spec.name!r}.")
            return wrapper(component)
        raise InputError(
            f"Component {spec.name!r} wants {describe_type(spec.type_hint)}, got {shown(component)}, and Lockstep has "
            f"no class of that name to take it over into. Save it, and load it with a class that Lockstep has."
        ) from None
    if not spec.takes(kind):
        raise InputError(
            f"Component {spec.name!r} wants {describe_type(spec.type_hint)}, got {shown(component)}. Give the one that "
            "belongs there."
        )
    if isinstance(component, torch.nn.Module):
        return kind.sharing(component, config_of(component))
    if hasattr(kind, "from_config") and hasattr(component, "config"):
        return kind.from_config(config_of(component))
    with tempfile.TemporaryDirectory() as folder:  # a tokenizer, or a reader of pictures: its files are its config
        component.save_pretrained(folder)
        return kind.from_pretrained(folder)


def _wrapper_of(spec: ComponentSpec, component: Any) -> Any:
    """The class among those of a spec that uses another library's component as it is, by what it does."""
    wrappers = (hint for hint in get_args(spec.type_hint) if hasattr(hint, "wraps"))
    return next((kind for kind in wrappers if kind.wraps(component)), None)


def config_of(component: Any) -> dict[str, Any]:
    """What a component of another library was built with."""
    config = component.config
    values = dict(config) if isinstance(config, Mapping) else config.to_dict()
    return {key: value for key, value in values.items() if not key.startswith("_") or key == "_class_name"}


def shown(component: Any, wanted: str = "") -> str:
    """A component in a message: its class, with where it is from if that is not clear, and whose child it is."""
    kind = type(component)
    own = f"{kind.__module__}.{kind.__qualname__}"
    parent = next((base for base in kind.__mro__[1:] if library_of(base)), None)
    if library_of(kind):
        return own
    if parent is not None:
        return f"{own}, a child of {library_of(parent)}'s {parent.__name__} whose own code cannot be taken over"
    return own if kind.__name__ in wanted else kind.__name__
