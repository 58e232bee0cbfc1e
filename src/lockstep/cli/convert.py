"""`lockstep convert`: folders to single files and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..files import existing
from .console import err, out, print_json
from .options import AllowPickle, Family, Json, PredictionType, Quiet, Variant

EXAMPLES = """
Examples:

  lockstep convert ./stable-diffusion-v1-5 sd15.safetensors

  lockstep convert sd15.safetensors ./sd15 --dtype float16

  lockstep convert ./model ./model-sharded --max-shard-size 2GB

  lockstep convert old.ckpt new.safetensors --allow-pickle
"""


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A folder, or a checkpoint file.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder, or a new .safetensors file.")],
    to: Annotated[str | None, typer.Option(help="single or folder; what OUT's name says where it is left out.")] = None,
    dtype: Annotated[str, typer.Option(help="keep, float32, bfloat16 or float16.")] = "keep",
    max_shard_size: Annotated[
        str | None, typer.Option(help="Of a folder's weights: 10GB (if nothing is said), 500MB …")
    ] = None,
    variant: Variant = None,
    config: Annotated[Path | None, typer.Option(help="A folder with the configs of a single file.")] = None,
    family: Family = None,
    prediction_type: PredictionType = None,
    allow_pickle: AllowPickle = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a checkpoint anew: a folder as a single file in the original layout, or back, every tensor bit for bit."""
    source = existing(source)
    import torch
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    from ..loaders.convert import convert as run
    from ..models.modeling import resolve_dtype

    wanted = resolve_dtype(dtype, torch.device("cpu"))
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, disable=quiet or json, transient=True) as bar:
        task = bar.add_task("writing", total=None)
        done = run(
            source, target, to=to, dtype=wanted, max_shard_size=max_shard_size, variant=variant, config=config,
            family=family, prediction_type=prediction_type, allow_pickle=allow_pickle,
            report=lambda count, total: bar.update(task, completed=count, total=total),
        )  # fmt: skip
    written = [target] if target.is_file() else [path for path in target.rglob("*") if path.is_file()]
    total = sum(path.stat().st_size for path in written)
    if json:
        print_json({"path": str(target), "files": len(written), "bytes": total, "notes": done.notes})
        return
    from .inspect import size

    out.print(f"[bold green]{target}[/]  [dim]{len(written)} files, {size(total)}[/]", highlight=False)
    for note in done.notes:
        err.print(f"note: {note}", markup=False, highlight=False)
