"""The report as JUnit XML: one case per part of the model, so that a CI page shows where."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from xml.etree import ElementTree

from ..comparison.results import Standing
from .parts import Report, number

_UNPRINTABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd]")


def to_junit(report: Report, name: str = "parity") -> str:
    """A test suite with the properties verdict, first, cause, R and coverage."""
    groups = _groups(report)
    failed = {group: text for group, text in groups.items() if text}
    verdict_failed = report.verdict not in ("PASS", "NOISE")
    suite = ElementTree.Element(
        "testsuite", name=name, tests=str(len(groups) + 1), failures=str(len(failed) + verdict_failed), errors="0"
    )
    properties = ElementTree.SubElement(suite, "properties")
    for key, value in junit_properties(report).items():
        ElementTree.SubElement(properties, "property", name=key, value=_text(value))
    case = ElementTree.SubElement(suite, "testcase", classname=name, name="verdict")
    if verdict_failed:
        failure = ElementTree.SubElement(case, "failure", message=_text(report.sentence), type=report.verdict)
        failure.text = _text("\n".join([*report.reasons, report.command]))
    for group, text in groups.items():
        case = ElementTree.SubElement(suite, "testcase", classname=name, name=_text(group))
        if text:
            failure = ElementTree.SubElement(case, "failure", message=_text(text.splitlines()[0]), type="over")
            failure.text = _text(text)
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def junit_properties(report: Report) -> dict[str, str]:
    ratio = next((p.ratio for p in report.worst if report.first and p.key == report.first.key), None)
    return {
        "verdict": report.verdict,
        "first": report.first.key if report.first else "",
        "cause": report.causes[0].name if report.causes and report.causes[0].standing is Standing.PROVEN else "",
        "R": number(ratio) if ratio is not None else "",
        "coverage": f"{report.coverage.fraction:.4f}",
    }


def _groups(report: Report) -> dict[str, str]:
    """Rows of the heat map; the text says which of a row's steps are over."""
    found: dict[str, list[str]] = defaultdict(list)
    if report.heat is None:
        return {}
    for row, cells in zip(report.heat.rows, report.heat.cells, strict=True):
        found[row] = []
        for step, value in zip(report.heat.steps, cells, strict=True):
            if value is not None and value > 1:
                found[row].append(f"{step}: R = {'not comparable' if math.isinf(value) else number(value)}")
    return {row: "\n".join(lines) for row, lines in found.items()}


def _text(value: str) -> str:
    return _UNPRINTABLE.sub("?", value)
