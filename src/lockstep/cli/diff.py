"""`lockstep diff`: two checkpoints, tensor by tensor."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..files import existing
from .console import err, out, print_json
from .exit_codes import ExitCode
from .options import AllowPickle

EXAMPLES = """
Examples:

  lockstep diff a.safetensors b.safetensors

  lockstep diff ./stable-diffusion-v1-5 sd15.safetensors --ignore-casts
"""


def diff(
    first: Annotated[Path, typer.Argument(metavar="A", help="A checkpoint file, or a model's folder.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another one.")],
    ignore_casts: Annotated[bool, typer.Option("--ignore-casts", help="Another dtype is no difference.")] = False,
    show: Annotated[int, typer.Option(min=0, help="How many tensors of each kind are listed.")] = 8,
    allow_pickle: AllowPickle = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, with every tensor that differs.")] = False,
) -> None:
    """Compare two checkpoints tensor by tensor: same, cast, transposed, permuted, scaled, different."""
    first, second = existing(first), existing(second)
    from ..loaders.difference import STATES, compare, pair

    one, other = pair(first, second, allow_pickle)
    with err.status("comparing") as status:
        found = list(compare(one, other, lambda name: None if json else status.update(f"comparing {name}")))
    counts = {state: sum(one.state == state for one in found) for state in STATES}
    fine = ("same", "cast") if ignore_casts else ("same",)
    equal = all(one.state in fine for one in found)
    if json:
        listed = [asdict(one) for one in found if one.state != "same"]
        print_json({"equal": equal, "counts": counts, "differences": listed})
    else:
        out.print(", ".join(f"{count} {state}" for state, count in counts.items() if count), highlight=False)
        for state in STATES[1:]:
            of_state = [one for one in found if one.state == state]
            for one_of in of_state[:show]:
                out.print(f"  {state}: {one_of.name}  {one_of.detail}", markup=False, highlight=False, soft_wrap=True)
            if len(of_state) > show > 0:
                out.print(f"  … and {len(of_state) - show} more {state}", markup=False, highlight=False)
    if not equal:
        raise typer.Exit(ExitCode.DIFFERENT)
