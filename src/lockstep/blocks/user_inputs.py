"""The inputs that a caller gives, as one param per name out of what the reading blocks declare."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from .params import InputParam
from .vocabulary import VOCABULARY, media_of
from .wiring import Flow, Want, same_default


def merge_wants(name: str, wants: list[Want]) -> InputParam:
    """One param for all readers of a value: the first description and type; required if a sure reader says so.

    Blocks that run together agree on the default; where branches do not, there is no one default to show.
    """
    params = [want.param for want in wants]
    defaults = [param.default for param in params if param.default is not None]
    agreed = all(same_default(defaults[0], one) for one in defaults)
    described = next((param for param in params if param.description), params[0])
    return replace(
        described,
        name=name,
        type_hint=_first(param.type_hint for param in params),
        default=defaults[0] if defaults and agreed else None,
        defaults_by_block=None if agreed else {_branch(want): want.param.default for want in wants},
        required=any(want.param.required and not want.maybe and not want.place.branches for want in wants),
        kwargs_type=_first(param.kwargs_type for param in params),
        media=_first(param.media for param in params) or media_of(name),
        minimum=_first(param.minimum for param in params),
        maximum=_first(param.maximum for param in params),
        multiple_of=_first(param.multiple_of for param in params),
    )


def user_inputs(flow: Flow) -> list[InputParam]:
    """Every input of a tree: the required ones first, then as the vocabulary lists them, then the blocks' own."""
    order = {name: place for place, name in enumerate(VOCABULARY)}
    merged = [merge_wants(name, wants) for name, wants in flow.inputs.items()]
    return sorted(merged, key=lambda param: (not param.required, order.get(param.name or "", len(order))))


def _branch(want: Want) -> str:
    """The branch that a reader stands in, by its path in the tree."""
    return ".".join(filter(None, want.place.branches[-1])) if want.place.branches else want.place.tree


def _first(values: Iterable[Any]) -> Any:
    return next((value for value in values if value is not None), None)
