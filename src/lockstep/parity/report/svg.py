"""Charts as SVG text: no library, no script; colours come from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from .parts import AxisPart, Heat, Point, StepPart, number

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 1060, 62, 14, 22, 30
MAX_POINTS = 2000
LEAST, MOST = 1e-10, 1e6  # what is outside is drawn at the border


class LogScale:
    """Error to height; 0 (equal to the last bit) has a row of its own at the bottom."""

    def __init__(self, values: Sequence[float], height: int) -> None:
        positive = [min(max(v, LEAST), MOST) for v in values if v and v > 0]
        low = math.floor(math.log10(min([*positive, MOST / 100]))) if positive else -8
        high = math.ceil(math.log10(max(positive, default=1e-6)))
        self.low, self.high = low, max(high, low + 2)
        self.top, self.bottom = TOP, height - BOTTOM - 16
        self.zero = height - BOTTOM - 4

    def __call__(self, value: float | None) -> float:
        if not value or value <= 0:
            return self.zero
        share = (math.log10(max(value, 10.0**self.low)) - self.low) / (self.high - self.low)
        return round(self.bottom - min(share, 1.0) * (self.bottom - self.top), 1)

    def grid(self) -> str:
        lines = [f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{self.zero}" y2="{self.zero}"/>']
        lines.append(f'<text class="tick" x="{LEFT - 8}" y="{self.zero + 3.5}" text-anchor="end">equal</text>')
        every = max(1, (self.high - self.low) // 8)
        for exponent in range(self.low, self.high + 1, every):
            y = self(10.0**exponent)
            lines.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
            lines.append(f'<text class="tick" x="{LEFT - 8}" y="{y + 3.5}" text-anchor="end">1e{exponent}</text>')
        return "".join(lines)


def depth_chart(points: list[Point], first: str | None) -> str:
    """Error of every value in the order in which it came to be, with the band that the floor allows."""
    height = 340
    points = thinned(points)
    if not points:
        return ""
    told = [
        p for p in points if p.role != "healed"
    ] or points  # what heals may be as large as it likes: it is drawn at the top
    scale = LogScale([v for p in told for v in (_shown(p.error), p.floor, p.tau) if v], height)
    step = (WIDTH - LEFT - RIGHT) / max(len(points), 1)
    xs = [round(LEFT + (i + 0.5) * step, 1) for i in range(len(points))]
    body = [
        _loop_bands(points, xs, step, height),
        scale.grid(),
        _band(points, xs, scale),
        _floor_line(points, xs, scale),
    ]
    radius = 2.2 if len(points) > 300 else 3.2
    for point, x in zip(points, xs, strict=True):
        y = scale(_shown(point.error))
        kind = "healed" if point.role == "healed" else point.status
        y = scale.top if point.status == "struct" else y
        body.append(
            f'<circle class="p {kind}" cx="{x}" cy="{y}" r="{radius}"><title>{escape(describe(point))}</title></circle>'
        )
        if point.key == first:
            body.append(_mark(x, y))
    return _svg(height, "".join(body), "error against depth")


def _mark(x: float, y: float) -> str:
    """A ring, and a line up to its name where no dot can hide it."""
    anchor, dx = ("start", 6) if x < WIDTH * 0.75 else ("end", -6)
    line = f'<line class="leader" x1="{x}" x2="{x}" y1="{TOP - 8}" y2="{y - 7}"/>'
    text = f'<text class="mark" x="{x + dx}" y="{TOP + 4}" text-anchor="{anchor}">first difference</text>'
    return f'{line}<circle class="ring" cx="{x}" cy="{y}" r="7"/>{text}'


def describe(point: Point) -> str:
    words = (
        f"{point.key}\n{point.op}\nerror {number(point.error)}   floor {number(point.floor)}   R {number(point.ratio)}"
    )
    return f"{words}\n{point.status}{', ' + point.role if point.role else ''}"


def _shown(error: float | None) -> float | None:
    return None if error is None else min(error, 1e6)


def thinned(points: list[Point]) -> list[Point]:
    """At most MAX_POINTS: of each run of neighbours the worst stays."""
    if len(points) <= MAX_POINTS:
        return points
    size = -(-len(points) // MAX_POINTS)
    return [max(points[i : i + size], key=lambda p: p.ratio or 0.0) for i in range(0, len(points), size)]


def _loop_bands(points: list[Point], xs: list[float], step: float, height: int) -> str:
    """Every second step shaded, and named where there is room."""
    made, begin = [], 0
    for index in range(1, len(points) + 1):
        if index < len(points) and points[index].step == points[begin].step:
            continue
        left, right = xs[begin] - step / 2, xs[index - 1] + step / 2
        if points[begin].step != "-":
            odd = "odd" if int(points[begin].step.rsplit(":", 1)[-1].split(".")[0]) % 2 else "even"
            made.append(
                f'<rect class="step {odd}" x="{left:.1f}" y="{TOP - 8}" width="{right - left:.1f}" '
                f'height="{height - TOP - BOTTOM + 8}"/>'
            )
        label = (
            points[begin].step
            if points[begin].step != "-"
            else points[begin].key.split("|")[1].split(".")[0].lstrip("@")
        )
        if right - left > 7 * len(label):
            made.append(
                f'<text class="tick" x="{(left + right) / 2:.1f}" y="{height - 10}" '
                f'text-anchor="middle">{escape(label)}</text>'
            )
        begin = index
    return "".join(made)


def _band(points: list[Point], xs: list[float], scale: LogScale) -> str:
    upper = [f"{x},{scale(p.tau)}" for p, x in zip(points, xs, strict=True)]
    lower = [f"{x},{scale.zero}" for x in (xs[-1], xs[0])]
    return f'<polygon class="band" points="{" ".join(upper + lower)}"/>'


def _floor_line(points: list[Point], xs: list[float], scale: LogScale) -> str:
    found = [f"{x},{scale(p.floor)}" for p, x in zip(points, xs, strict=True) if p.floor]
    return f'<polyline class="floor" points="{" ".join(found)}"/>' if len(found) > 1 else ""


def loop_chart(steps: list[StepPart]) -> str:
    """What the loop carries, step by step."""
    height = 220
    scale = LogScale([v for s in steps for v in (s.error, s.floor) if v and math.isfinite(v)], height)
    width = (WIDTH - LEFT - RIGHT) / len(steps)
    xs = [round(LEFT + (i + 0.5) * width, 1) for i in range(len(steps))]
    body = [scale.grid()]
    floors = [f"{x},{scale(s.floor)}" for s, x in zip(steps, xs, strict=True) if s.floor]
    body.append(f'<polyline class="floor" points="{" ".join(floors)}"/>')
    body.append(
        f'<polyline class="line" points="{" ".join(f"{x},{scale(s.error)}" for s, x in zip(steps, xs, strict=True))}"/>'
    )
    every = max(1, math.ceil(len(steps) / 16))
    for index, (part, x) in enumerate(zip(steps, xs, strict=True)):
        title = f"{part.step}\nerror {number(part.error)}   floor {number(part.floor)}   gain {number(part.gain)}"
        body.append(
            f'<circle class="p line-dot" cx="{x}" cy="{scale(part.error)}" '
            f'r="3.2"><title>{escape(title)}</title></circle>'
        )
        if index % every == 0:
            body.append(
                f'<text class="tick" x="{x}" y="{height - 10}" '
                f'text-anchor="middle">{escape(part.step.rsplit("/", 1)[-1])}</text>'
            )
    return _svg(height, "".join(body), "error of the loop's state")


def heat_class(value: float | None) -> str:
    """Five colours: equal, inside, and three decades over."""
    if value is None:
        return "none"
    if math.isinf(value):
        return "struct"
    if value == 0:
        return "h0"
    if value <= 1:
        return "h1" if value <= 0.1 else "h2"
    return "h3" if value <= 10 else "h4" if value <= 1000 else "h5"


def heat_map(heat: Heat, first: str | None) -> str:
    """Rows are parts of the model, columns steps, colour the largest R inside."""
    label = min(430, 20 + max(len(r) for r in heat.rows) * 6.6)
    size = min(110.0, max(5.0, (WIDTH - label - RIGHT) / max(len(heat.steps), 1)))
    line, top = 17, 26
    body = []
    for column, step in enumerate(heat.steps):
        name = "once" if step == "-" else step.rsplit(":", 1)[-1]
        if size > 26 or column % math.ceil(26 / size) == 0:
            body.append(
                f'<text class="tick" x="{label + (column + 0.5) * size:.1f}" y="{top - 8}" '
                f'text-anchor="middle">{escape(name)}</text>'
            )
    for index, (row, cells) in enumerate(zip(heat.rows, heat.cells, strict=True)):
        y = top + index * line
        shown = row if len(row) * 6.6 < label - 10 else "…" + row[-int((label - 20) / 6.6) :]
        body.append(
            f'<text class="row" x="{label - 8:.1f}" y="{y + 12}" '
            f'text-anchor="end">{escape(shown)}<title>{escape(row)}</title></text>'
        )
        for column, value in enumerate(cells):
            if value is None:
                continue
            title = f"{row} at {heat.steps[column]}: R = {number(value)}"
            body.append(
                f'<rect class="cell {heat_class(value)}" x="{label + column * size:.1f}" y="{y}" '
                f'width="{size - 1.5:.1f}" '
                f'height="{line - 1.5}" rx="2"><title>{escape(title)}</title></rect>'
            )
    return _svg(top + line * len(heat.rows) + 6, "".join(body), "step by node")


def axis_chart(axis: AxisPart) -> str:
    """Share of the squared error per index; the line is what evenly spread noise would give."""
    width, height, left = 330, 96, 6
    top = max([*axis.share, 1e-30])
    size = (width - 2 * left) / max(len(axis.share), 1)
    body = []
    for index, value in enumerate(axis.share):
        tall = value / top * (height - 26)
        place = (
            f"{axis.name} {index}"
            if len(axis.share) == axis.size
            else f"{axis.name}, part {index + 1} of {len(axis.share)}"
        )
        body.append(
            f'<rect class="bar" x="{left + index * size:.1f}" y="{height - 16 - tall:.1f}" '
            f'width="{max(size - 1, 0.6):.1f}" '
            f'height="{max(tall, 0.5):.1f}"><title>{escape(place)}: {value:.1%}</title></rect>'
        )
    even = height - 16 - (1 / max(len(axis.share), 1)) / top * (height - 26)
    body.append(f'<line class="evenline" x1="{left}" x2="{width - left}" y1="{even:.1f}" y2="{even:.1f}"/>')
    body.append(f'<text class="tick" x="{left}" y="{height - 3}">0</text>')
    body.append(f'<text class="tick" x="{width - left}" y="{height - 3}" text-anchor="end">{axis.size - 1}</text>')
    return _svg(height, "".join(body), f"energy along {axis.name}", width)


def residual_bars(before: float, after: float, floor: float | None) -> str:
    """Two bars on a logarithmic scale: the error as it is, and with the one thing changed."""
    values = [v for v in (before, after, floor or 0.0) if v > 0 and math.isfinite(v)]
    low = math.floor(math.log10(max(min(values, default=1e-8), LEAST))) - 1
    high = max(math.ceil(math.log10(max(values, default=1.0))), low + 1)
    width, left, room = 520, 84, 350

    def length(value: float) -> float:
        if value <= 0:
            return 2.0
        return max(2.0, (math.log10(min(max(value, 10.0**low), 10.0**high)) - low) / (high - low) * room)

    rows = []
    for index, (name, value, kind) in enumerate((("as it is", before, "over"), ("changed", after, "same"))):
        y = 4 + index * 24
        rows.append(f'<text class="row" x="{left - 8}" y="{y + 13}" text-anchor="end">{name}</text>')
        rows.append(f'<rect class="res {kind}" x="{left}" y="{y}" width="{length(value):.1f}" height="18" rx="3"/>')
        rows.append(f'<text class="row" x="{left + length(value) + 8:.1f}" y="{y + 13}">{number(value)}</text>')
    if floor:
        x = left + length(floor)
        rows.append(f'<line class="floor" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="50"/>')
        rows.append(f'<text class="tick" x="{x:.1f}" y="62" text-anchor="middle">floor {number(floor)}</text>')
    return _svg(66 if floor else 50, "".join(rows), "residual before and after", width)


def _svg(height: float, body: str, label: str, width: int = WIDTH) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height:.0f}" style="max-width:{width}px" role="img" '
        f'aria-label="{escape(label)}">{body}</svg>'
    )
