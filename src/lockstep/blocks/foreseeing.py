"""What a run would refuse, as far as classes and configs tell: no weights are read, and nothing is computed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import LockstepError, OutlineError
from .calling import give_generators, understood
from .components import RunComponents, is_stateful, own_copy
from .params import ComponentSpec
from .plan import seen_before_running


def refuse_early(pipe: Any, inputs: Mapping[str, Any]) -> int:
    """Raise what `pipe.run(**inputs)` would raise; what only weights can tell is left to it. How many it would make."""
    call = understood(pipe, (), inputs)
    needed = call.plan.needed_components(call.values)
    pipe.require_components(
        {name: (dataclasses.replace(spec, outline=True), user) for name, (spec, user) in needed.items()}
    )
    specs = {name: spec for name, (spec, _) in needed.items()}
    components = ForeseenComponents(pipe, specs, call.samples, call.given)
    for visit, seen in seen_before_running(call.plan, call.values):
        block = visit.place.block
        try:
            block.check(components.seen_by(block, visit.place.path), seen)
        except OutlineError:
            pass  # it asks a model that is known by its name alone
        except LockstepError:
            raise
        except Exception:
            continue  # it reads weights, which are not there: the run itself will tell
    give_generators(call.plan, dict(call.values), call.options, call.samples, lambda: 0)
    return call.samples


class ForeseenComponents(RunComponents):
    """The components of a run that will not be: models with all their layers and no memory for them."""

    def __init__(self, pipe: Any, specs: Mapping[str, ComponentSpec], samples: int, given: Iterable[str]) -> None:
        self.pipe, self.samples, self.given = pipe, samples, frozenset(given)
        self.own: dict[str, Any] = {}
        self.stateful = ()
        self._specs = specs

    def get(self, name: str) -> Any:
        if name not in self.own:
            found = self.pipe.without_memory(name)
            self.own[name] = own_copy(found) if is_stateful(found, self._specs.get(name)) else found
        return self.own[name]
