"""`lockstep inspect`: what a checkpoint is, from its header."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..files import existing
from .console import err, out, print_json
from .exit_codes import ExitCode
from .options import AllowPickle, Json

EXAMPLES = """
Examples:

  lockstep inspect model.safetensors

  lockstep inspect model.safetensors --depth 3 --health

  lockstep inspect ./stable-diffusion-v1-5 --json
"""


def inspect(
    path: Annotated[Path, typer.Argument(help="A checkpoint file, or a model's folder.")],
    depth: Annotated[int, typer.Option(min=0, help="How deep the tree of tensors is shown (0: not at all).")] = 1,
    health: Annotated[
        bool, typer.Option("--health", help="Read every value: NaN, Inf, zeros, duplicates. Takes as long as reading.")
    ] = False,
    family: Annotated[str | None, typer.Option(help="Say which family it is: sd1, sd2, sdxl, refiner.")] = None,
    allow_pickle: AllowPickle = False,
    json: Json = False,
) -> None:
    """Tell what a checkpoint is, by which evidence, what is in it and what config its shapes imply."""
    from ..loaders.describe import describe, tree
    from ..loaders.header import Header, read_header

    path = existing(path)
    header: Header | None = None
    if path.is_file():
        header = _unpickled(path) if allow_pickle else read_header(path)
    said = describe(path, family, header)
    if health:
        said["health"] = scanned(path, allow_pickle, quiet=json)
    if json:
        print_json(said)
    else:
        show(said)
        if depth and header is not None:
            show_tree(tree(header.tensors), depth)
    if health and not said["health"]["sound"]:
        raise typer.Exit(ExitCode.NOT_FINITE)


def _unpickled(path: Path) -> Any:
    from ..loaders.checkpoint import open_header

    return open_header(path, allow_pickle=True)


def scanned(path: Path, allow_pickle: bool, quiet: bool) -> dict[str, Any]:
    """The health of all weights."""
    from dataclasses import asdict

    from ..loaders.checkpoint import open_checkpoint
    from ..loaders.health import scan
    from ..models.weights import open_weights

    if path.is_dir():
        stored = {
            f"{one.parent.relative_to(path).as_posix()}/{name}": tensor
            for one in sorted(path.rglob("*.safetensors"))
            for name, tensor in open_weights([one]).items()
        }
    else:
        stored = open_checkpoint(path, allow_pickle)
    with err.status("reading") as status:
        health = scan(stored, lambda name: None if quiet else status.update(f"reading {name}"))
    return {**asdict(health), "sound": health.sound}


def show(said: dict[str, Any]) -> None:
    """The description for a person."""
    lines = [f"[bold]{_text(said['title'])}[/]  [dim]{said['kind']}, {said['container']}[/]"]
    lines.append(f"{said['tensors']} tensors, {size(said['bytes'])}, {dtypes(said['dtypes'])}")
    for guess in said.get("guesses", [])[:3]:
        mark = "because" if guess is said["guesses"][0] else f"or {_text(guess['title'])}, because"
        lines += [f"  [dim]{mark}[/] {_text(reason)}" for reason in guess["evidence"]]
    for part in said["parts"]:
        where = f" under {part['prefix']!r}" if part.get("prefix") else ""
        name = part.get("component") or part.get("kind")
        what = part.get("class") or f"{part['layout']} layout{where}"
        numbers = (
            f"{part['tensors']} tensors, {size(part['bytes'])}, {dtypes(part['dtypes'])}" if part["tensors"] else ""
        )
        lines.append(f"[green]{name}[/]: {_text(what)}{', ' if numbers else ''}{numbers}")
        if part["implied_config"]:
            lines.append(f"  [dim]{_text(', '.join(f'{k} {v}' for k, v in part['implied_config'].items()))}[/]")
        for key, words in (("differs_from_published", "published config"), ("differs_from_declared", "own config")):
            lines += [f"  [yellow]unlike its {words}[/] {_text(text)}" for text in part.get(key, [])]
    if said["missing"]:
        lines.append(f"[yellow]not in it[/]: {', '.join(said['missing'])}")
    lines += [f"[yellow]note[/] {_text(note)}" for note in said["notes"]]
    lines += [f"[dim]{count} tensors besides: {_text(kind)}[/]" for kind, count in said.get("leftovers", {}).items()]
    if "health" in said:
        lines += health_lines(said["health"])
    for line in lines:
        out.print(line, highlight=False, soft_wrap=True)


def health_lines(health: dict[str, Any]) -> list[str]:
    titles = {"nan": "NaN", "infinite": "Inf", "zeros": "only zeros", "duplicates": "the same values"}
    lines = []
    for key, title in titles.items():
        found = [one if isinstance(one, str) else " = ".join(one) for one in health[key]]
        colour = "red" if key in ("nan", "infinite") else "yellow"
        if found:
            lines.append(
                f"[{colour}]{title}[/] in {len(found)}: {_text(', '.join(found[:4]))}{' …' if len(found) > 4 else ''}"
            )
    return lines or ["[green]healthy[/]: no NaN, no Inf, no tensor of zeros, none twice"]


def show_tree(root: Any, depth: int) -> None:
    """The tensors as a tree, with counts, sizes and dtypes."""
    from rich.tree import Tree

    def grow(branch: Any, shown: Tree, left: int) -> None:
        for name, below in branch.below.items():
            only = below
            while len(only.below) == 1 and only.shape is None:  # a chain of single names is one line
                part, only = next(iter(only.below.items()))
                name = f"{name}.{part}"
            shape = f" {list(only.shape)}" if only.shape is not None else f"  {only.tensors} tensors"
            node = shown.add(_text(f"{name}{shape}, {size(only.bytes)}, {dtypes(only.dtypes)}"))
            if left > 1:
                grow(only, node, left - 1)

    shown = Tree("tensors")
    grow(root, shown, depth)
    out.print(shown, highlight=False, soft_wrap=True)


def size(count: int) -> str:
    """Bytes as a person says them."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000  # type: ignore[assignment]
    return f"{count:.3g} GB"


def dtypes(counts: dict[str, int]) -> str:
    """`F16`, or `F16 (1130), I64 (1)`."""
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{dtype} ({count})" for dtype, count in sorted(counts.items(), key=lambda item: -item[1]))


def _text(text: Any) -> str:
    """A text that rich does not take for its own marks."""
    return str(text).replace("[", "\\[")
