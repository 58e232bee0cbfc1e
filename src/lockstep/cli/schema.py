"""`lockstep schema` and `lockstep blocks`: what a model's pipeline takes and how its data flows; reads no weights."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

import typer
from rich.table import Table

from .console import out, print_json
from .inputs import SECOND_NAMES, can_be_typed
from .options import Json
from .pipelines import DEFAULT_MODEL, described

Model = Annotated[str, typer.Argument(help="A folder, a hub id, or an embedded model.")]


def inputs_table(schema: dict[str, Any], title: str, options: Collection[str]) -> Table:
    """Inputs with type, default and meaning; those that a command line can give are written as options."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), title_style="bold")
    for column in ("option", "type", "default", "meaning"):
        table.add_column(
            column, style="cyan" if column == "option" else "dim" if column != "meaning" else None, overflow="fold"
        )
    workflows = schema["workflows"]
    for entry in schema["inputs"]:
        used = entry.get("workflows", [])
        where = f" [{', '.join(used)}]" if 0 < len(used) < len(workflows) else ""
        default = "required" if entry["required"] else "" if entry["default"] is None else str(entry["default"])
        name = ", ".join(option_names(entry["name"])) if entry["name"] in options else entry["name"]
        kind = f"{entry['media']} file" if "media" in entry else entry["type"]
        table.add_row(name, kind, default, f"{entry['description']}{where}".replace("[", r"\["))
    return table


def option_names(name: str) -> list[str]:
    """The options that stand for an input."""
    return [f"--{one.replace('_', '-')}" for one in (name, *(s for s, meant in SECOND_NAMES.items() if meant == name))]


def schema(
    model: Model = DEFAULT_MODEL,
    workflow: Annotated[str | None, typer.Option(help="Only what this workflow takes.")] = None,
    json: Json = False,
) -> None:
    """Show the inputs of a model's pipeline: types, defaults, and the workflows that read them."""
    from ..errors import UnknownNameError

    pipe = described(model)
    described_schema = pipe.schema()
    if workflow is not None:
        if workflow not in described_schema["workflows"]:
            raise UnknownNameError("workflow", workflow, described_schema["workflows"])
        kept = [entry for entry in described_schema["inputs"] if workflow in entry["workflows"]]
        described_schema = {**described_schema, "inputs": kept}
    if json:
        print_json(described_schema)
        return
    out.print(f"[bold]{described_schema['pipeline']}[/]: {described_schema['description']}")
    for name, triggers in described_schema["workflows"].items():
        out.print(
            f"  [green]{name}[/] {'when given ' + ' and '.join(triggers) if triggers else 'otherwise'}", highlight=False
        )
    options = {param.name for param in pipe.inputs if can_be_typed(param)}
    out.print(inputs_table(described_schema, "Inputs (those without dashes are for Python alone)", options))
    for entry in described_schema["outputs"]:
        out.print(f"gives [cyan]{entry['name']}[/] ({entry['type']}): {entry['description']}", highlight=False)


def blocks(
    model: Model = DEFAULT_MODEL,
    workflow: Annotated[str | None, typer.Option(help="The blocks of one workflow, choices made.")] = None,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a Mermaid diagram.")] = False,
    json: Json = False,
) -> None:
    """Draw the blocks of a model's pipeline with what each of them reads and makes."""
    tree = described(model).blocks
    tree = tree.get_workflow(workflow) if workflow else tree
    if json:
        print_json({"blocks": tree_of(tree), "mermaid": tree.mermaid()})
    elif mermaid:
        out.print(tree.mermaid(), markup=False, highlight=False, soft_wrap=True)
    else:
        out.print(tree.draw(), markup=False, highlight=False, soft_wrap=True)


def tree_of(block: Any) -> dict[str, Any]:
    """A block and its parts as JSON; what a block reads and makes stands at the leaves."""
    entry: dict[str, Any] = {"class": type(block).__name__, "kind": block.kind, "description": block.description}
    parts = getattr(block, "sub_blocks", None)
    entry |= {"triggers": block.trigger_names} if block.kind == "choice" else {}
    if parts is not None:
        return {**entry, "parts": {name: tree_of(part) for name, part in parts.items()}}
    return {**entry, "inputs": block.input_names, "outputs": block.output_names, "components": block.component_names}
