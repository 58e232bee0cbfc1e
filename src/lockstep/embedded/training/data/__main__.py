"""`python -m lockstep.embedded.training.data --work DIR [stage ...]`: fetch, render, items, sheets; by default all of them."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ....errors import LockstepError, UnknownNameError
from .art import STYLES
from .items import build_items, load_items
from .render import render_pictures
from .sheets import write_sheets
from .sources import fetch_sources

STAGES = ("fetch", "render", "items", "sheets")


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        for stage in options.stages:
            if stage not in STAGES:
                raise UnknownNameError("stage", stage, STAGES)
        for stage in STAGES:
            if stage in (options.stages or STAGES):
                run_stage(stage, options)
    except LockstepError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="lockstep.embedded.training.data", description=__doc__)
    top.add_argument("stages", nargs="*", metavar="stage", help=f"{', '.join(STAGES)}; all if left out")
    top.add_argument("--work", type=Path, default=Path("training-work"), help="the folder to build in (%(default)s)")
    top.add_argument("--workers", type=int, default=2, help="processes that render (%(default)s)")
    top.add_argument(
        "--style", action="append", choices=list(STYLES), help="only these styles (may be given several times)"
    )
    top.add_argument("--no-vectors", action="store_true", help="leave out the word vectors (118 MB)")
    return top


def run_stage(stage: str, options: argparse.Namespace) -> None:
    work = options.work
    if stage == "fetch":
        print(fetch_sources(work, vectors=not options.no_vectors))
    elif stage == "render":
        print(render_pictures(work, styles=tuple(options.style or STYLES), workers=options.workers))
    elif stage == "items":
        print(build_items(work), summary(work))
    else:
        print(*write_sheets(work), sep="\n")


def summary(work: Path) -> str:
    table = load_items(work)
    tiers = Counter(concept.tier for concept in table.concepts.values())
    return (
        f"{len(table.items)} items of {len(table.pictures)} pictures, {len(table.held_out)} held out; "
        f"concepts: {tiers[1]} core, {tiers[2]} more, {tiers[3]} others"
    )


if __name__ == "__main__":
    sys.exit(main())
