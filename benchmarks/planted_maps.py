"""Errors planted in every family's weight map, one at a time: does a test of that family see them?

    python -m benchmarks.planted_maps [--only FAMILY …] [--all]

A row is dropped, exchanged with its neighbour or with the same row of another block, its parts change their order, its
operation is forgotten, or scale and shift are exchanged, or a matrix is transposed, where they should not be. Of
rows that differ by a number alone, the first and the last get the errors. The tests of the family run on each of them,
in this process. Prints a table, and exits with 1 if a test stays green (`--all`: every planted error).
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from rich.table import Table

from .machine import console

ROOT = Path(__file__).resolve().parents[1]
Row = tuple[Any, ...]
Check = Callable[[], None]
ERRORS = ("dropped", "neighbours exchanged", "blocks exchanged", "parts reordered", "operation forgotten",
          "scale and shift exchanged", "transposed")  # fmt: skip


@dataclass(frozen=True)
class Planted:
    """One error: the row that it is in, and what the table becomes."""

    error: str
    row: Row
    change: Callable[[list[Row]], list[Row]]


def families() -> dict[str, list[Check]]:
    """The tests of every family's map, as pytest would run them."""
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
    import torch

    from loaders import test_maps_against_diffusers as maps
    from loaders import test_single_file as single
    from loaders import test_taesd as taesd
    from loaders import test_video_maps_against_diffusers as video
    from pipelines import test_ip_adapters as ip
    from pipelines import test_t2i_adapters as t2i
    from pipelines import tiny_adapters, tiny_ltx_video

    torch.set_num_threads(1)
    adapters = [in_folder(t2i.test_single_files, kind, "original") for kind in t2i.SINGLE]
    return {
        "UNet": [lambda name=name: maps.test_unets(name) for name in maps.UNETS],  # type: ignore[misc]
        "VAE": [
            lambda a=a: maps.test_autoencoders(*a)  # type: ignore[misc]
            for a in [(4, False), (16, False), (4, True)]
        ],
        "ControlNet": [maps.test_controlnet],
        "CLIP": [lambda p=p: maps.test_clip_in_both_of_its_spellings(p) for p in ("text_model.", "")],  # type: ignore[misc]
        "OpenCLIP": [maps.test_open_clip_with_projection, maps.test_layers_that_are_not_used_are_dropped],
        "TAESD": [
            in_folder(taesd.test_a_tiny_autoencoder_is_written_to_a_folder_and_back),
            in_folder(single.test_tiny_autoencoders_in_all_their_forms),
        ],
        "T2I-Adapter": adapters,
        "IP-Adapter": [lambda kind=kind: ip.test_the_map_of_a_file(kind) for kind in tiny_adapters.KINDS],  # type: ignore[misc]
        "FLUX.1": [lambda g=g: maps.test_flux_there_and_back_and_names_by_the_reference(g) for g in (False, True)],  # type: ignore[misc]
        "Stable Diffusion 3": [lambda kind=kind: maps.test_stable_diffusion_3(kind) for kind in maps.SD3_KINDS],  # type: ignore[misc]
        "Wan": [lambda kind=kind: video.test_transformers(kind) for kind in ("text", "image", "first and last")],  # type: ignore[misc]
        "VAE of Wan": [video.test_autoencoder_of_2_1, video.test_autoencoder_of_2_2],
        "Z-Image": [maps.test_z_image],
        "LTX-Video": [video.test_transformer_of_ltx_video],
        "VAE of LTX-Video": [lambda v=v: video.test_autoencoders_of_ltx_video(v) for v in tiny_ltx_video.VAES],  # type: ignore[misc]
    }


def in_folder(test: Callable[..., None], *arguments: Any) -> Check:
    def check() -> None:
        with tempfile.TemporaryDirectory() as folder:
            test(*arguments, Path(folder))

    return check


# ---- planting ----


@contextlib.contextmanager
def every_table(see: Callable[[Any, list[Row]], list[Row]]) -> Iterator[None]:
    """While it lasts, weight maps are made of the rows that `see` gives for theirs."""
    from lockstep.loaders.weight_map import WeightMap

    made = WeightMap.__init__

    def planted(self: Any, rows: Any, what: str = "this model") -> None:
        made(self, see(self, list(rows)), what)

    with mock.patch.object(WeightMap, "__init__", planted):
        yield


def rows_in_use(checks: list[Check]) -> list[dict[Row, int]]:
    """The tables that the tests build: the rows that tensors need, each with the axes of the largest of them."""
    from lockstep.loaders.weight_map import WeightMap

    tables: dict[int, tuple[Any, list[Row]]] = {}
    used: dict[int, dict[Row, int]] = {}
    convert = WeightMap._convert

    def keep(table: Any, rows: list[Row]) -> list[Row]:
        tables[id(table)] = (table, rows)
        return rows

    def seen(self: Any, stored: Any, opened: Any, backwards: bool) -> Any:
        rows = dict(zip(map(id, self.rules), tables[id(self)][1], strict=True))
        for name, tensor in stored.items():
            fitting = [(rule, one) for rule, one in self._candidates(name, backwards) if one.match(name) is not None]
            longest = max((len(pattern.literal_start) for _, pattern in fitting), default=0)
            for rule, pattern in fitting:
                if len(pattern.literal_start) == longest:
                    here = used.setdefault(id(self), {})
                    here[rows[id(rule)]] = max(here.get(rows[id(rule)], 0), len(tensor.info.shape))
        return convert(self, stored, opened, backwards)

    with every_table(keep), mock.patch.object(WeightMap, "_convert", seen):
        for check in checks:
            check()
    return [{row: used[key][row] for row in rows if row in used.get(key, {})} for key, (_, rows) in tables.items()]


def errors(tables: list[dict[Row, int]]) -> Iterator[Planted]:
    """Every error that is planted in a family."""
    done: set[Row] = set()
    for rows in tables:
        alike: dict[str, list[Row]] = {}
        for row in rows:
            alike.setdefault(re.sub(r"\d+", "#", str(row)), []).append(row)
        for group in alike.values():
            for row in dict.fromkeys((group[0], group[-1])):
                if row not in done:
                    done.add(row)
                    yield from errors_of(row, list(rows), group, axes=rows[row])


def errors_of(row: Row, rows: list[Row], group: list[Row], axes: int) -> Iterator[Planted]:
    theirs, ours, operation = row if len(row) == 3 else (*row, "keep")
    yield Planted("dropped", row, lambda table: [one for one in table if one != row])
    fitting = [one for one in rows if one != row and one[2:] == row[2:] and placeholders(one) == placeholders(row)]
    place = rows.index(row)
    near = min((one for one in fitting if one[1]), key=lambda one: abs(rows.index(one) - place), default=None)
    if near is not None and ours:
        yield Planted("neighbours exchanged", row, exchanged(row, near))
    other = next((one for one in group if one != row and one in fitting), None)
    if other is not None and other != near:
        yield Planted("blocks exchanged", row, exchanged(row, other))
    if not isinstance(ours, str) and len(ours) > 1:
        yield Planted("parts reordered", row, replaced(row, (theirs, (*ours[1:], ours[0]), operation)))
    if operation in ("transpose", "swap_scale_shift", "accept") or (operation == "squeeze" and axes > 1):
        yield Planted("operation forgotten", row, replaced(row, (theirs, ours, "keep")))
    if operation == "keep":
        yield Planted("scale and shift exchanged", row, replaced(row, (theirs, ours, "swap_scale_shift")))
    if operation == "keep" and axes > 1:  # a vector has nothing to transpose
        yield Planted("transposed", row, replaced(row, (theirs, ours, "transpose")))


def placeholders(row: Row) -> Any:
    """What two rows have to share so that their sides can be exchanged."""
    sides = [(side,) if isinstance(side, str) else side for side in row[:2]]
    return len(sides[1]), [sorted(re.findall(r"\{.*?\}", side[0])) if side else None for side in sides]


def exchanged(row: Row, other: Row) -> Callable[[list[Row]], list[Row]]:
    two = {row: (row[0], other[1], *row[2:]), other: (other[0], row[1], *other[2:])}
    return lambda table: [two.get(one, one) for one in table] if row in table else table


def replaced(row: Row, by: Row) -> Callable[[list[Row]], list[Row]]:
    return lambda table: [by if one == row else one for one in table]


def seen_by(planted: Planted, checks: list[Check]) -> str:
    """What the first test says that is red with the error ("" if none is)."""
    with every_table(lambda _, rows: planted.change(rows)):
        for check in checks:
            try:
                check()
            except Exception as problem:
                return f"{type(problem).__name__}: {str(problem).partition(chr(10))[0]}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="FAMILY", help="only these families")
    parser.add_argument("--all", action="store_true", help="print every planted error and what saw it")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    table = Table("family", "rows in use", *ERRORS, "green")
    green = 0
    for family, checks in families().items():
        if asked.only and family not in asked.only:
            continue
        tables = rows_in_use(checks)
        counts = dict.fromkeys(ERRORS, 0)
        unseen = 0
        for planted in errors(tables):
            said = seen_by(planted, checks)
            counts[planted.error] += 1
            unseen += not said
            if asked.all or not said:
                console.print(f"{'red  ' if said else 'GREEN'} {family}: {planted.error}: {planted.row} {said[:150]}",
                              markup=False, highlight=False, soft_wrap=True)  # fmt: skip
        table.add_row(
            family,
            str(len({row for rows in tables for row in rows})),
            *(str(counts[error] or "") for error in ERRORS),
            str(unseen),
        )
        green += unseen
    console.print(table)
    return 1 if green else 0


if __name__ == "__main__":
    sys.exit(main())
