"""The dataflow of a tree of blocks, as text and as a Mermaid diagram."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..configuration import describe_type
from .block import ModularPipelineBlocks
from .params import InputParam
from .user_inputs import user_inputs
from .wiring import join, trace


def draw(root: Any) -> str:
    """A tree: one line per block with what it reads and makes, the user's inputs above it."""
    lines = [f"{type(root).__name__}  {root.description}".rstrip()]
    lines += [f"  in   {_input_line(param)}" for param in user_inputs(trace(root))]
    if root.available_workflows:
        lines.append(f"  workflows  {', '.join(root.available_workflows)}")
    lines += list(_tree(root, ""))
    return "\n".join(lines)


def _input_line(param: InputParam) -> str:
    kind = describe_type(param.type_hint) if param.type_hint is not None else "anything"
    default = "required" if param.required else f"default {param.default!r}"
    return f"{param.name}: {kind} ({default})  {param.description}".rstrip()


def _tree(block: Any, margin: str) -> Iterator[str]:
    parts = list(block.sub_blocks.items())
    for number, (name, part) in enumerate(parts, start=1):
        last = number == len(parts)
        yield f"{margin}{'└─' if last else '├─'} {name}  {_about(block, name, part)}"
        if part.kind != "leaf":
            yield from _tree(part, margin + ("   " if last else "│  "))


def _about(parent: Any, name: str, part: ModularPipelineBlocks) -> str:
    when = f"[{_condition(parent, name)}] " if parent.kind == "choice" else ""
    if part.kind == "loop":
        return f"{when}{type(part).__name__}: for each of {part.loop_over or 'its items'}"  # type: ignore[attr-defined]
    if part.kind == "choice":
        each = part.loop_triggers  # type: ignore[attr-defined]
        by = f" at each step, by {', '.join(part.trigger_names)}" if each else ""  # type: ignore[attr-defined]
        return f"{when}{type(part).__name__}: one of{by}"
    if part.kind == "sequence":
        return f"{when}{type(part).__name__}"
    reads = [param.name or f"*{param.kwargs_type}" for param in part.inputs]
    uses = f"  with {', '.join(part.component_names)}" if part.component_names else ""
    return f"{when}{type(part).__name__}: {', '.join(reads) or '·'} -> {', '.join(part.output_names) or '·'}{uses}"


def _condition(choice: Any, name: str) -> str:
    triggers = {} if choice.loop_triggers else choice.branch_triggers
    if name == choice.default_block_name:
        return "otherwise"
    paired = len(choice.sub_blocks) - len(triggers) in (0, 1)
    return f"if {triggers[name]}" if paired and triggers.get(name) else "when selected"


def mermaid(root: Any) -> str:
    """A flowchart: subgraphs for loops and choices, an edge per value and pair of blocks."""
    flow = trace(root)
    lines = ["flowchart TD"]
    lines += [f'  in_{name}(["{name}"])' for name in flow.inputs]
    lines += list(_subgraphs(root, "", "  "))
    given = [f"  in_{name} -.-> {_node(want.place.path)}" for name, wants in flow.inputs.items() for want in wants]
    lines += dict.fromkeys(given)
    between: dict[tuple[str, str], list[str]] = {}
    for producer, name, consumer in flow.edges:
        between.setdefault((_node(producer.path), _node(consumer.path)), []).append(name)
    lines += [f"  {a} -->|{', '.join(dict.fromkeys(names))}| {b}" for (a, b), names in between.items()]
    return "\n".join(lines) + "\n"


def _subgraphs(block: Any, path: str, margin: str) -> Iterator[str]:
    for name, part in block.sub_blocks.items():
        inside = join(path, name)
        if part.kind == "leaf":
            yield f'{margin}{_node(inside)}["{name}"]'
            continue
        asks = " ".join(["?", *getattr(part, "loop_triggers", [])])
        what = {"loop": " ⟳ " + str(getattr(part, "loop_over", None) or ""), "choice": f" {asks}"}.get(part.kind, "")
        yield f'{margin}subgraph {_node(inside)}["{name}{what}"]'
        yield from _subgraphs(part, inside, margin + "  ")
        yield f"{margin}end"


def _node(path: str) -> str:
    return "b_" + path.replace(".", "__") if path else "root"
