"""`lockstep lora`: what a LoRA file is, LoRAs merged into a checkpoint, and one extracted from two checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..files import require_there
from .console import err, out, print_json
from .exit_codes import ExitCode

lora = typer.Typer(help="Inspect, merge and extract LoRA files.", no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
AllowPickle = Annotated[
    bool, typer.Option("--allow-pickle", help="Unpickle a .ckpt, .pt or .bin (tensors only; nothing else is run).")
]


@lora.command(epilog="Example:\n\n  lockstep lora inspect style.safetensors")
def inspect(path: Annotated[Path, typer.Argument(help="A LoRA file or its folder.")], json: Json = False) -> None:
    """Tell what a LoRA is: dialect, kind, ranks, alphas, which models it changes, which family it was made for."""
    from ..loaders.lora import find_lora
    from ..loaders.lora_inspect import inspect_lora

    require_there(path)
    said = inspect_lora(find_lora(path))
    if json:
        print_json(said)
    else:
        show(said)
    if any(line.startswith("NaN") for line in said["health"]):
        raise typer.Exit(ExitCode.NOT_FINITE)


def show(said: dict[str, Any]) -> None:
    """The description for a person."""
    counts = {key: ", ".join(f"{value} ({n})" for value, n in said[key].items()) for key in COUNTED}
    lines = [
        f"{said['file']}: LoRA in the dialect of {said['dialect']}, {said['layers']} layers, {said['tensors']} tensors"
    ]
    lines += [f"  {key}: {text or 'none'}" for key, text in counts.items()]
    lines.append(f"  made for: {said['family'] or 'nothing in it tells'}")
    lines += [f"    because {reason}" for reason in said["evidence"]]
    lines += [f"  word: {word} {shape}" for word, shape in said["words"].items()]
    lines += [f"  not read: {name}, because {reason}" for name, reason in list(said["unread"].items())[:5]]
    lines += said["health"] or ["  healthy: no NaN, no Inf, no matrix of zeros"]
    for line in lines:
        out.print(line, markup=False, highlight=False, soft_wrap=True)


COUNTED = ("kinds", "ranks", "alphas", "targets")


@lora.command(
    epilog="Example:\n\n  lockstep lora merge sd15.safetensors styled.safetensors --lora style.safetensors:0.8"
)
def merge(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A folder, or a checkpoint file.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder or file, of the same kind.")],
    loras: Annotated[
        list[str], typer.Option("--lora", help="A LoRA file or folder, with its strength: style.safetensors:0.8")
    ],
    dtype: Annotated[str, typer.Option(help="keep, float32, bfloat16 or float16.")] = "keep",
    max_shard_size: Annotated[str, typer.Option(help="Of a folder's weights: 10GB, 500MB …")] = "10GB",
    variant: Annotated[str | None, typer.Option(help="The variant of the folder's files: fp16 …")] = None,
    family: Annotated[str | None, typer.Option(help="Say which family a single file is.")] = None,
    allow_pickle: AllowPickle = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a checkpoint anew with LoRAs in its weights, tensor by tensor; OUT appears when it is whole."""
    import torch

    from ..loaders.lora_merge import merge as run
    from ..models.modeling import resolve_dtype
    from .pipelines import file_and_strength

    with progress(quiet or json) as report:
        reports = run(
            source, target, [file_and_strength(text) for text in loras],
            dtype=resolve_dtype(dtype, torch.device("cpu")), max_shard_size=max_shard_size, variant=variant,
            family=family, allow_pickle=allow_pickle, report=report,
        )  # fmt: skip
    if json:
        applied = [
            {"file": one.source, "applied": one.applied, "total": one.total, "left": one.left} for one in reports
        ]
        print_json({"path": str(target), "loras": applied})
        return
    for one in reports:
        out.print(str(one), markup=False, highlight=False, soft_wrap=True)
    out.print(f"[bold green]{target}[/]", highlight=False)


@lora.command(
    epilog="Example:\n\n  lockstep lora extract base.safetensors tuned.safetensors style.safetensors --rank 32"
)
def extract(
    base: Annotated[Path, typer.Argument(metavar="BASE", help="The checkpoint that the other was made from.")],
    tuned: Annotated[Path, typer.Argument(metavar="TUNED", help="The checkpoint that was trained further.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="A new .safetensors file.")],
    rank: Annotated[int, typer.Option(min=1, help="Of every layer; with --energy the most that one may have.")] = 16,
    energy: Annotated[float | None, typer.Option(help="The share of each layer's squared difference to keep.")] = None,
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "float32",
    allow_pickle: AllowPickle = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Read the difference of two checkpoints off as a LoRA (by SVD), and tell the error that it leaves."""
    import torch

    from ..loaders.lora_extract import extract as run
    from ..models.modeling import resolve_dtype

    wanted = resolve_dtype(dtype, torch.device("cpu")) or torch.float32
    with progress(quiet or json) as report:
        found = run(
            base, tuned, target, rank=rank, energy=energy, dtype=wanted, allow_pickle=allow_pickle, report=report
        )
    worst = max(found.errors, key=lambda layer: found.errors[layer])
    ranks = list(found.ranks.values())
    facts = {
        "path": str(target), "layers": len(ranks), "ranks": [min(ranks), max(ranks)], "error": found.error,
        "worst": {"layer": worst, "error": found.errors[worst]}, "left_out": found.left_out,
    }  # fmt: skip
    if json:
        print_json(facts)
        return
    out.print(f"[bold green]{target}[/]  {len(ranks)} layers of rank {min(ranks)} to {max(ranks)}", highlight=False)
    out.print(f"left of the difference: {found.error:.3g} (relative L2), most in {worst}: {found.errors[worst]:.3g}")
    if found.left_out:
        out.print(f"not in it: {len(found.left_out)} biases, norms and tables that differ, such as {found.left_out[0]}")


class progress:
    """A bar on standard error; `report(done, total)` moves it."""

    def __init__(self, disabled: bool) -> None:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

        self.bar = Progress(
            BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), console=err, disable=disabled, transient=True
        )

    def __enter__(self) -> Any:
        self.bar.start()
        task = self.bar.add_task("writing", total=None)
        return lambda done, total: self.bar.update(task, completed=done, total=total)

    def __exit__(self, *problem: object) -> None:
        self.bar.stop()
