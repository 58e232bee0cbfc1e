"""What blocks take, in the manner of the field's docstrings."""

from __future__ import annotations

from typing import Any

from ..configuration import describe_type
from .params import InputParam


def documented(block: Any) -> str:
    """The description of a block, and an entry for each of its inputs."""
    entries = [f"  {_entry(param)}\n      {param.description}".rstrip() for param in block.inputs]
    return "\n".join([f"{type(block).__name__}: {block.description}", "", "Inputs:", *entries])


def _entry(param: InputParam) -> str:
    if param.name is None:
        return f"**{param.kwargs_type} (*optional*):"
    kind = f"`{describe_type(param.type_hint)}`" if param.type_hint is not None else "`Any`"
    if param.required:
        return f"{param.name} ({kind}):"
    return f"{param.name} ({kind}, *optional*{_default(param)}):"


def _default(param: InputParam) -> str:
    """The default; where branches have different ones, each of them once."""
    if param.defaults_by_block:
        each = dict.fromkeys(str(value) for value in param.defaults_by_block.values() if value is not None)
        return f", defaults to {' or '.join(each)}, depending on the workflow"
    return "" if param.default is None else f", defaults to {param.default}"
