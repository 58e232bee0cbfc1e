"""One pipeline's components under another name."""

from __future__ import annotations

from typing import Any


def take_components(made: Any, pipe: Any, changes: dict[str, Any]) -> Any:
    """Give a new pipeline what another one has: models are shared, with the LoRAs that are merged into them."""
    dtype = changes.pop("dtype", None) or changes.pop("torch_dtype", None)
    wanted = made.component_specs
    given = getattr(pipe, "all_components", pipe.components)
    held = {name: part for name, part in dict(given).items() if name in wanted}
    if hasattr(pipe, "assembly"):  # one of ours: what it has not loaded stays unloaded
        waiting = {name: spec for name, spec in pipe._unloaded.items() if name in wanted}
        left = {name for name, spec in wanted.items() if name in waiting or is_default(pipe, name)}
        held = {name: part for name, part in held.items() if name not in left}
        made._unloaded, made._load_options = waiting, dict(pipe._load_options)
        made._from_index, made.variant = pipe._from_index & set(wanted), pipe.variant
        made.file_options = dict(pipe.file_options)
        made._adapters, made._words, made._absent = pipe._adapters, pipe._words, list(pipe._absent)
    made._config |= {name: value for name, value in dict(pipe.config).items() if name in made._config}
    from_index = set(made._from_index)
    made.update_components(**{**held, **changes})
    made._from_index = from_index - set(changes)
    return made if dtype is None else made.to(dtype)


def is_default(pipe: Any, name: str) -> bool:
    """Whether a component is the one that its pipeline makes itself (a guider with the name's own scale)."""
    spec, component = pipe.component_specs.get(name), pipe.all_components.get(name)
    if spec is None or spec.default_creation_method != "from_config":
        return False
    made = spec.create(**pipe.face.settings(spec))
    return type(component) is type(made) and dict(component.config) == dict(made.config)
