"""`lockstep parity mutate`: plant one fault in a model of your own, and see whether it is found where it was
planted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ...errors import InputError, UnknownNameError
from ..console import err, out, print_json
from ..exit_codes import ExitCode
from .options import (
    DEFAULT_FLOOR,
    Dtype,
    Floors,
    Guidance,
    Height,
    Html,
    Json,
    Library,
    Prompt,
    Seed,
    Steps,
    Width,
    examples,
)
from .proofs import proof
from .runs import RunRecipe, load


def mutate(
    model: Annotated[str | None, typer.Argument(help="A model's folder or hub id, or FILE.py:FUNCTION.")] = None,
    fault: Annotated[str | None, typer.Option(help="Which fault; all are listed if left out.")] = None,
    at: Annotated[str, typer.Option("--at", help="Pattern of module paths; the middle one that fits is taken.")] = "*",
    library: Library = "lockstep",
    prompt: Prompt = RunRecipe.prompt, seed: Seed = 0, steps: Steps = 2, guidance_scale: Guidance = None,
    height: Height = None, width: Width = None, dtype: Dtype = "float32", runs: Floors = DEFAULT_FLOOR,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for traces, floor and report.")] = Path(
        "out/mutate"
    ),
    html: Html = None, json: Json = False,
) -> None:  # fmt: skip
    """Plant one fault in a copy of a model and prove it against the original: is it found where it was planted?"""
    from ...parity.report import to_terminal, write_html
    from ...parity.report.parts import build

    if model is None or fault is None:
        _list_faults(json)
        return
    if fault not in FAULTS:
        raise UnknownNameError("fault", fault, FAULTS)
    run = RunRecipe(model, library, prompt, None, seed, steps, guidance_scale, height, width, dtype)
    reference, candidate = load(run), load(run)
    path, told = plant(candidate.target, fault, at, candidate.name)
    candidate.run = replace(run, fault=fault, fault_at=path)
    err.print(f"[yellow]planted:[/] {told} at {path}", highlight=False)
    comparison = proof(reference, candidate, output, runs)
    found = comparison.first is not None and is_at(comparison.first, path)
    write_html(comparison, html or output / "report.html")
    if json:
        first = str(comparison.first.key) if comparison.first else None
        causes = [cause.name for cause in comparison.causes]
        print_json(
            {
                "fault": fault,
                "planted": path,
                "what": told,
                "verdict": comparison.verdict,
                "first": first,
                "causes": causes,
                "found": found,
            }
        )
    else:
        out.print(to_terminal(build(comparison, pictures=False)), highlight=False)
        colour, told = ("green", "found where it was planted") if found else ("red", "not found there")
        out.print(f"\n[bold {colour}]{told}[/]: {fault} at {path}", highlight=False)
    if not found:
        raise typer.Exit(ExitCode.FAULT_MISSED)


def is_at(node: Any, path: str) -> bool:
    """True if the first difference is a value of the planted module, or of code around or inside of it."""
    site = node.site
    return site == path or site.startswith(f"{path}.") or path.rpartition(".")[0] == site


def _list_faults(json: bool) -> None:
    if json:
        print_json({name: make.__doc__ for name, make in FAULTS.items()})
        return
    table = Table(
        title="Faults that can be planted", title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0)
    )
    table.add_column("fault", style="cyan")
    table.add_column("what is done")
    for name, make in FAULTS.items():
        table.add_row(name, make.__doc__)
    out.print(table)


def plant(target: Any, fault: str, at: str = "*", name: str | None = None) -> tuple[str, str]:
    """Change one module that fits; returns its path and what was done."""
    from ...parity.recording.targets import find_target

    modules = find_target(target, name).named_modules()
    fitting = [
        (path, change) for path, module in modules.items() if fnmatchcase(path, at) for change in FAULTS[fault](module)
    ]
    if not fitting:
        raise InputError(f"No module that fits {at!r} can have the fault {fault!r}.")
    path, change = fitting[len(fitting) // 2]
    return path, change()


Changes = Iterator[Callable[[], str]]


def norm_eps(module: Any) -> Changes:
    """A norm divides with another epsilon (× 0.1)."""
    if isinstance(getattr(module, "eps", None), float) and "Norm" in type(module).__name__:

        def change() -> str:
            module.eps *= 0.1
            return f"eps is {module.eps:g}"

        yield change


def norm_groups(module: Any) -> Changes:
    """A group norm has half as many groups."""
    groups = getattr(module, "num_groups", None)
    if isinstance(groups, int) and groups % 2 == 0:

        def change() -> str:
            module.num_groups = groups // 2
            return f"num_groups is {groups // 2}"

        yield change


def missing_bias(module: Any) -> Changes:
    """A bias was not loaded."""
    bias: Any = getattr(module, "bias", None)
    if hasattr(bias, "shape") and bool(bias.abs().max() > 0):
        yield lambda: _set(bias, bias * 0, "bias is zero")


def transposed(module: Any) -> Changes:
    """A square weight was loaded transposed."""
    weight = _matrix(module)
    if weight is not None and weight.shape[0] == weight.shape[1] and weight.shape[0] > 1:
        yield lambda: _set(weight, weight.t().clone(), "weight is transposed")


def swapped_halves(module: Any) -> Changes:
    """The two halves of a layer's outputs are swapped."""
    import torch

    weight = _matrix(module)
    if weight is not None and weight.shape[0] % 2 == 0 and weight.shape[0] > 2:
        yield lambda: _set(weight, torch.cat(weight.chunk(2)[::-1]), "output halves are swapped")


def stale_weight(module: Any) -> Changes:
    """A weight kept its start value."""
    import torch

    weight = _matrix(module)
    if weight is not None:
        yield lambda: _set(
            weight,
            torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)) * weight.std(),
            "weight is another one",
        )


def bf16_weight(module: Any) -> Changes:
    """A weight went through bfloat16."""
    import torch

    weight = _matrix(module)
    if weight is not None:
        yield lambda: _set(weight, weight.to(torch.bfloat16).to(weight.dtype), "weight is rounded to bfloat16")


def swapped_qk(module: Any) -> Changes:
    """Query and key projections are swapped."""
    query, key = getattr(module, "to_q", None), getattr(module, "to_k", None)
    if query is not None and key is not None and query.weight.shape == key.weight.shape:

        def change() -> str:
            query.weight.data, key.weight.data = key.weight.data, query.weight.data
            return "to_q and to_k are swapped"

        yield change


def heads(module: Any) -> Changes:
    """An attention has half as many heads."""
    for name in ("heads", "num_heads"):
        count = getattr(module, name, None)
        if isinstance(count, int) and count % 2 == 0:

            def change(name: str = name, count: int = count) -> str:
                setattr(module, name, count // 2)
                return f"{name} is {count // 2}"

            yield change


def padding(module: Any) -> Changes:
    """A convolution repeats the border instead of zeros."""
    if getattr(module, "padding_mode", None) == "zeros" and any(
        p for p in getattr(module, "_reversed_padding_repeated_twice", ())
    ):

        def change() -> str:
            module.padding_mode = "replicate"
            return "padding_mode is replicate"

        yield change


def _matrix(module: Any) -> Any:
    weight: Any = getattr(module, "weight", None)
    return weight if hasattr(weight, "ndim") and weight.ndim == 2 and "Embedding" not in type(module).__name__ else None


def _set(parameter: Any, value: Any, told: str) -> str:
    parameter.data = value.detach().to(parameter.dtype).contiguous()
    return told


_ALL = (
    norm_eps,
    norm_groups,
    missing_bias,
    transposed,
    swapped_halves,
    stale_weight,
    bf16_weight,
    swapped_qk,
    heads,
    padding,
)
FAULTS = {make.__name__: make for make in _ALL}
COMMANDS = [
    (
        mutate,
        examples(
            "mutate",
            "mutate ./stable-diffusion-v1-5 --fault norm_eps --at 'unet.mid_block.*'",
            "mutate my_port.py:build --fault swapped_qk --json",
        ),
    )
]
