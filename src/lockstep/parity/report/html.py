"""The report as one page: everything inside the file, nothing from the network."""

from __future__ import annotations

import os
from collections.abc import Iterable
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from ..comparison.results import Standing
from . import svg
from .parts import First, Report, build, cause_heading, explained_heading, number, patch_of
from .pictures import FramePair, PicturePair, data_uri

LISTED = 400


def to_html(report: Report, title: str = "") -> str:
    """The whole page as text."""
    title = title or f"{report.verdict} · parity"
    sections = [
        _head(report),
        _causes(report),
        _not_tried(report),
        _depth(report),
        _heat(report),
        _first(report.first),
        _loop(report),
        _pictures(report),
        _config(report),
        _settings(report),
        _weights(report),
        _coverage(report),
        _values(report),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" '
        f'href="data:,">\n<title>{escape(title)}</title>\n<style>{_asset("page.css")}</style>\n</head>\n'
        "<body "
        f'class="{report.verdict.lower()}">\n<main>\n{"".join(sections)}</main>\n<script>{_asset("page.js")}</script>\n'
        "</body>\n</html>\n"
    )


def write_html(comparison: Any, path: str | Path) -> Path:
    """Build the page of a comparison and write it in one go."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(to_html(build(comparison)), encoding="utf-8")
    os.replace(temporary, path)
    return path


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _section(title: str, body: str, note: str = "") -> str:
    lead = f'<p class="note">{note}</p>' if note else ""
    return f"<section><h2>{escape(title)}</h2>{lead}{body}</section>\n" if body else ""


def code(text: Any) -> str:
    """Text in code type that may break behind its separators."""
    return f"<code>{escape(str(text)).replace('.', '.<wbr>').replace('|', '|<wbr>').replace('/', '/<wbr>')}</code>"


def _marked(text: str) -> str:
    """`path` in back quotes as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return "".join(code(part) if i % 2 else escape(part) for i, part in enumerate(parts))


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]], kind: str = "") -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _head(report: Report) -> str:
    sentence = report.sentence.removeprefix(f"{report.verdict}: ").rpartition(" [")[0] or report.sentence
    reasons = "".join(f"<li>{_marked(reason)}</li>" for reason in report.reasons[1:])
    facts = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in report.facts)
    command = ""
    if report.command:
        command = (
            '<div class="command"><span>This node alone</span>'
            f'<code id="command">{escape(report.command)}</code><button data-copy="command">copy</button></div>'
        )
    listed = f'<ul class="reasons">{reasons}</ul>' if reasons else ""
    return (
        "<header><span "
        f'class="badge">{escape(report.verdict)}</span><h1>{_marked(sentence[:1].upper() + sentence[1:])}</h1>'
        f'{listed}{command}<dl class="facts">{facts}</dl></header>\n'
    )


def _causes(report: Report) -> str:
    made = []
    for place, cause in enumerate(report.causes[:6]):
        what = "Next" if cause.standing is Standing.UNKNOWN else "To repair"
        fix = f'<p class="fix">{what}: {_marked(cause.fix)}</p>' if cause.fix else ""
        patch = "".join(
            f'<span class="{"was" if line.startswith("-") else "is"}">{escape(line)}</span>\n'
            for line in patch_of(cause)
        )
        fix += f'<pre class="patch">{patch}</pre>' if patch else ""
        made.append(
            f'<article class="cause{" main" if not place else ""}"><h3>{cause_heading(report, place)}: '
            f"{escape(cause.name)}</h3><p>{_marked(cause.why)}</p>{fix}"
            f"{svg.residual_bars(cause.residual_before, cause.residual_after, cause.floor)}<p class='at'>at "
            f"{code(cause.evidence.get('measured_at', cause.at))}</p></article>"
        )
    if report.explained:
        made.append(f"<p><b>{explained_heading(report)}:</b> {_marked(report.explained)}</p>")
    return _section(
        "Why", "".join(made), "Proven by recomputation: one thing is changed, and the error that remains is measured."
    )


def _not_tried(report: Report) -> str:
    listed = "".join(f"<li>{_marked(failed.describe())}</li>" for failed in report.not_tried)
    note = "The search for causes could not try these; the cause may be among them."
    return _section("Not tried", f"<ul>{listed}</ul>" if listed else "", note)


def _first(first: First | None) -> str:
    if first is None:
        return ""
    rows = [
        ("node", code(first.key)),
        ("operation", f"{escape(first.op)} {first.shape} {escape(' / '.join(first.dtypes))}"),
    ]
    rows += [(name, escape(value)) for name, value in first.numbers]
    rows += [("input", f"{code(key)} {escape(state)}") for key, state in first.inputs[:10]]
    facts = "".join(f"<tr><th>{escape(name)}</th><td>{value}</td></tr>" for name, value in rows)
    findings = "".join(f"<li>{_marked(finding)}</li>" for finding in first.findings)
    axes = "".join(
        f"<figure>{svg.axis_chart(axis)}<figcaption>{escape(axis.name)} ({axis.size}): "
        f"{'evenly spread' if axis.concentration < 1.5 else f'{axis.concentration:.1f} × even at {axis.top_index}'}"
        "</figcaption></figure>"
        for axis in first.axes
    )
    looks = f"<h3>What the difference looks like</h3><ul>{findings}</ul>" if findings else ""
    energy = f'<h3>Where its energy lies</h3><div class="axes">{axes}</div>' if axes else ""
    return _section("First difference", f'<table class="plain">{facts}</table>{looks}{energy}')


def _depth(report: Report) -> str:
    first = report.first.key if report.first else None
    chart = svg.depth_chart(report.curve, first)
    legend = _legend(
        [
            ("same", "equal to the last bit"),
            ("prior", "rounding"),
            ("floor", "inside the floor"),
            ("over", "over"),
            ("struct", "not comparable"),
            ("healed", "differs, heals"),
        ]
    )
    note = (
        "One dot per module output, in the order of computation. The band is what is allowed; the dashed line is the "
        "measured floor."
    )
    return _section("Error against depth", chart + legend, note)


def _legend(entries: list[tuple[str, str]]) -> str:
    return (
        '<p class="legend">'
        + "".join(f'<span><i class="{kind}"></i>{escape(text)}</span>' for kind, text in entries)
        + "</p>"
    )


def _loop(report: Report) -> str:
    if len(report.loop) < 2:
        return ""
    gains = [s.gain for s in report.loop if s.gain is not None]
    product = report.loop[-1].error / report.loop[0].error if report.loop[0].error else None
    note = "Error of the latents after every step" + (
        f"; the loop as a whole multiplies it by {number(product)}." if gains and product else "."
    )
    return _section("Through the loop", svg.loop_chart(report.loop), note)


def _heat(report: Report) -> str:
    if report.heat is None:
        return ""
    legend = _legend(
        [
            ("h0", "equal"),
            ("h1", "R ≤ 0.1"),
            ("h2", "R ≤ 1"),
            ("h3", "R ≤ 10"),
            ("h4", "R ≤ 1000"),
            ("h5", "more"),
            ("struct", "not comparable"),
        ]
    )
    note = "Colour is the largest R = error / threshold inside a part; over 1 is no rounding noise."
    return _section("Step × node", svg.heat_map(report.heat, None) + legend, note)


def _pictures(report: Report) -> str:
    return _section(
        "Pictures", "".join(_picture(p) for p in report.pictures), "Reference, candidate, and the amplified difference."
    )


def _picture(picture: PicturePair) -> str:
    if picture.is_video:
        strips = [
            ("reference", [f.reference for f in picture.frames]),
            ("candidate", [f.candidate for f in picture.frames]),
            ("difference", [f.difference for f in picture.frames]),
        ]
        rows = "".join(
            f'<div class="strip"><span>{name}</span>'
            + "".join(f'<img alt="{name}" src="{data_uri(image)}">' for image in images)
            + "</div>"
            for name, images in strips
        )
        labels = ", ".join(f"{f.label}: {_psnr(f)}" for f in picture.frames)
        labels += f"; difference × {picture.frames[0].amplification:g}"
        return f'<figure class="video">{rows}<figcaption>{code(picture.key)} {escape(labels)}</figcaption></figure>'
    return "".join(_triptych(picture, frame) for frame in picture.frames)


def _triptych(picture: PicturePair, frame: FramePair) -> str:
    images = (
        ("reference", frame.reference),
        ("candidate", frame.candidate),
        (f"difference × {frame.amplification:g}", frame.difference),
    )
    shown = "".join(
        f'<figure><img alt="{name}" src="{data_uri(image)}"><figcaption>{name}</figcaption></figure>'
        for name, image in images
    )
    flip = (
        f'<figure class="flip" title="hold to see the candidate"><img alt="flip" src="{data_uri(frame.reference)}">'
        f'<img class="other" alt="" src="{data_uri(frame.candidate)}"><figcaption>flip: point at '
        "it</figcaption></figure>"
    )
    told = (
        f"{_psnr(frame)}, largest difference {frame.largest * 255:.2g} of 255"
        if frame.largest
        else "equal in every pixel"
    )
    return f'<div class="triptych">{shown}{flip}</div><p class="note">{code(picture.key)} {told}</p>'


def _psnr(frame: FramePair) -> str:
    return f"{frame.psnr:.1f} dB" if frame.largest else "equal"


def _config(report: Report) -> str:
    if not report.config:
        return ""
    columns = list(report.config[0])
    rows = [[code(value) if (value := row[column]) != "" else "" for column in columns] for row in report.config]
    return _section("Configuration", _table(columns, rows))


def _settings(report: Report) -> str:
    rows = [[code(s["path"]), code(s["name"]), code(s["a"]), code(s["b"])] for s in report.settings[:LISTED]]
    table = _table(("where", "setting", "reference", "candidate"), rows) if rows else ""
    return _section(
        "Effective settings that differ",
        _folded(table, len(rows), 12),
        "Read from the live modules, not from config files.",
    )


def _folded(table: str, rows: int, limit: int) -> str:
    return table if rows <= limit else f"<details><summary>{rows} rows</summary>{table}</details>"


def _weights(report: Report) -> str:
    rows = [[escape(w["kind"]), code(", ".join(w["a"])), code(", ".join(w["b"]))] for w in report.weights[:LISTED]]
    table = _table(("relation", "reference", "candidate"), rows) if rows else ""
    return _section("Weights that are not simply equal", _folded(table, len(rows), 12))


def _coverage(report: Report) -> str:
    coverage = report.coverage
    bars = "".join(
        f'<div class="cover"><span>{escape(kind)}</span><div><i '
        f'style="width:{100 * done / total if total else 0:.1f}%"></i></div>'
        f"<b>{done} / {total}</b></div>"
        for kind, (done, total) in coverage.by_kind.items()
    )
    lists = ""
    for name, keys in (
        ("Not compared: only in the reference", coverage.missing),
        ("Not compared: only in the candidate", coverage.extra),
    ):
        if keys:
            shown = "".join(f"<li>{code(key)}</li>" for key in keys[:LISTED])
            more = f"<li>… {len(keys) - LISTED} more</li>" if len(keys) > LISTED else ""
            lists += f"<details><summary>{name} ({len(keys)})</summary><ul class='keys'>{shown}{more}</ul></details>"
    return _section("Coverage", f"<p>{escape(str(coverage))}.</p>{bars}{lists}")


def _values(report: Report) -> str:
    rows = [
        [
            code(p.key),
            escape(p.op),
            number(p.error),
            number(p.floor),
            number(p.ratio),
            f'<span class="tag {p.role or p.status}">{p.role or p.status}</span>',
        ]
        for p in report.worst
    ]
    if not rows:
        return ""
    table = _table(("value", "operation", "error", "floor", "R", "role"), rows, "values")
    search = '<input id="filter" type="search" placeholder="filter by name" aria-label="filter by name">'
    return _section("Largest differences", search + table, "Sorted by R = error / threshold.")
