"""Names that mean something already: two classes of one name could not both be found by it."""

from __future__ import annotations

import importlib.metadata

from ... import extensions
from ...errors import InputError, UnknownNameError
from .homes import Home
from .names import FamilyNames

CLASSES = {  # what can be new -> the name of its class
    "model": "{}Transformer2DModel",
    "pipeline": "{}Pipeline",
    "scheduler": "{}Scheduler",
    "guider": "{}Guidance",
}


def refuse_a_taken_name(kind: str, names: FamilyNames, home: Home, model_there: bool) -> None:
    """Whether Lockstep or another installed package has a class that is found by this name."""
    kinds = [kind] if kind != "pipeline" or model_there else [kind, "model"]
    for one in kinds:
        wanted = CLASSES[one].format(names.camel)
        found, owner = _found_by(one, names.name, wanted)
        if found and owner != home.distribution:
            also = f" (`{names.name}` stands for it)" if found.lower() != wanted.lower() else ""
            raise InputError(
                f"A {one} called {names.name!r} is there already: {found}{also}, which {owner} brings. Use it, or "
                f"choose another name, such as my_{names.name}."
            )


def _found_by(kind: str, name: str, wanted: str) -> tuple[str, str]:
    """The class that a name leads to now, and whose it is; two empty words where there is none."""
    import lockstep

    own = next((known for known in lockstep.__all__ if known.lower() == wanted.lower()), "")
    if own:
        return own, "Lockstep"
    groups = importlib.metadata.entry_points(group=extensions.GROUPS[kind]) if kind in extensions.GROUPS else ()
    brought = next((entry for entry in groups if entry.name.lower() == wanted.lower()), None)
    if brought is not None:
        return brought.name, brought.dist.name if brought.dist is not None else "another package"
    return (_scheduler(name), "Lockstep") if kind == "scheduler" else ("", "")


def _scheduler(name: str) -> str:
    """The scheduler that people call so: `euler`, `dpm2_a`."""
    from ...schedulers.names import find_scheduler

    try:
        found: str = find_scheduler(name)[0].__name__
    except (UnknownNameError, InputError):
        return ""
    return found
