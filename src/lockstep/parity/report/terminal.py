"""The report in a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ..comparison.results import Cause, Standing
from .parts import Report, cause_heading, explained_heading, number, patch_of

COLOURS = {
    "PASS": "green",
    "NOISE": "cyan",
    "BUG": "red",
    "DRIFT": "yellow",
    "INVALID": "magenta",
    "INCONCLUSIVE": "yellow",
    "RAISED": "red",
}
BLOCKS = " ▁▂▃▄▅▆▇█"
LISTED = 8


def to_terminal(report: Report) -> Group:
    """A rich renderable; short by default, the page has the rest."""
    colour = COLOURS[report.verdict]
    parts: list[Any] = [
        Panel(
            Text(report.sentence),
            title=Text(f" {report.verdict} ", f"bold white on {colour}"),
            title_align="left",
            border_style=colour,
        )
    ]
    parts += [Text(f"  {reason}", "dim") for reason in report.reasons[1:]]
    parts += _causes(report)
    parts += _not_tried(report)
    if report.first is not None:
        parts += _first(report)
    if len(report.loop) > 1:
        parts.append(_loop(report))
    if report.verdict not in ("PASS", "NOISE") and report.worst:
        parts.append(_worst(report))
    parts.append(_settings(report))
    parts.append(_coverage(report))
    return Group(*[part for part in parts if part is not None])


def _causes(report: Report) -> list[Any]:
    made: list[Any] = []
    for place, cause in enumerate(report.causes[:6]):
        head = cause_heading(report, place)
        floor = f", floor {number(cause.floor)}" if cause.floor is not None else ""
        made.append(Text.assemble((f"{head}: ", "bold"), (cause.name, "bold yellow"), f" — {cause.why}"))
        if cause.standing is not Standing.UNKNOWN:
            proof = f"residual {number(cause.residual_before)} → {number(cause.residual_after)}{floor}"
            made.append(Text(f"  {proof} at {cause.evidence.get('measured_at', cause.at)}", "dim"))
        made += _repair(cause)
    if report.explained:
        made.append(Text.assemble((f"{explained_heading(report)}: ", "bold"), report.explained))
    return made


def _repair(cause: Cause) -> list[Text]:
    """What to change; the line itself where it is known."""
    patch = [Text(f"    {line}", "red" if line.startswith("-") else "green") for line in patch_of(cause)]
    words = cause.fix.partition(": `")[0] if patch else cause.fix
    return [Text(f"  {'next' if cause.name == 'unknown' else 'to repair'}: {words}", "green"), *patch] if words else []


def _not_tried(report: Report) -> list[Text]:
    """What the search for causes had to leave out: no cause named is no proof that there is none."""
    made = [Text.assemble(("Not tried: ", "bold yellow"), failed.describe()) for failed in report.not_tried[:LISTED]]
    left = len(report.not_tried) - len(made)
    return [*made, Text(f"  … and {left} more", "dim")] if left else made


def _first(report: Report) -> list[Any]:
    first = report.first
    assert first is not None
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_row(Text("node", "dim"), Text(first.key))
    table.add_row(Text("operation", "dim"), Text(f"{first.op} {first.shape} {' / '.join(first.dtypes)}"))
    table.add_row(Text("numbers", "dim"), Text("  ".join(f"{name} {value}" for name, value in first.numbers)))
    for key, state in first.inputs[:6]:
        table.add_row(Text("input", "dim"), Text(f"{key}: {state}"))
    for finding in first.findings:
        table.add_row(Text("looks like", "dim"), Text(finding))
    for axis in first.axes:
        bars = bar_line(axis.share)
        note = " all along it" if axis.concentration < 1.5 else f" most at {axis.top_index}"
        table.add_row(Text("energy", "dim"), Text(f"{axis.name:8} {bars}{note}"))
    return [Text("\nFirst difference", "bold"), Padding(table, (0, 0, 0, 2))]


def bar_line(share: list[float]) -> str:
    """Shares as a row of blocks."""
    top = max(share, default=0.0)
    return "".join(BLOCKS[min(8, round(8 * value / top))] if top else " " for value in share)


def _loop(report: Report) -> Table:
    table = Table(
        title="Error of the loop's state", title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0)
    )
    for column in ("step", "error", "floor", "gain"):
        table.add_column(column, style="dim" if column != "error" else None)
    steps = report.loop if len(report.loop) <= LISTED else [*report.loop[:4], *report.loop[-4:]]
    for part in steps:
        table.add_row(part.step, number(part.error), number(part.floor), number(part.gain))
    return table


def _worst(report: Report) -> Table:
    table = Table(title="Largest", title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    for column in ("value", "error", "floor", "R", "role"):
        table.add_column(column, overflow="fold", style="dim" if column in ("floor", "role") else None)
    for point in [p for p in report.worst if p.role != "healed"][:LISTED]:
        table.add_row(
            Text(point.key), number(point.error), number(point.floor), number(point.ratio), point.role or point.status
        )
    return table


def _settings(report: Report) -> Table | None:
    if not report.settings or report.verdict == "PASS":
        return None
    table = Table(
        title="Effective settings that differ", title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0)
    )
    for column in ("where", "setting", "reference", "candidate"):
        table.add_column(column, overflow="fold")
    for setting in report.settings[:LISTED]:
        table.add_row(*(Text(str(setting[key])) for key in ("path", "name", "a", "b")))
    if len(report.settings) > LISTED:
        table.add_row(f"… and {len(report.settings) - LISTED} more", "", "", "")
    return table


def _coverage(report: Report) -> Text:
    coverage = report.coverage
    kinds = ", ".join(f"{kind} {done}/{total}" for kind, (done, total) in coverage.by_kind.items())
    text = Text.assemble(("\nCoverage ", "bold"), str(coverage), (f"  ({kinds})" if kinds else "", "dim"))
    if coverage.missing:
        text.append(f"\n  not compared: {', '.join(coverage.missing[:4])}", "dim")
        text.append(f" … {len(coverage.missing)} in all" if len(coverage.missing) > 4 else "", "dim")
    return text
