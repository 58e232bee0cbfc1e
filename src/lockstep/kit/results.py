"""The saved result of a proof: which stages passed, on which sources. `lockstep check` asks whether it is fresh."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import FileFormatError
from ..files import write_text
from .checks.source import Family


@dataclass(frozen=True)
class Result:
    """What was proven of a family."""

    reference: str
    port: str
    stages: dict[str, str] = field(default_factory=dict)  # stage -> verdict
    sources: dict[str, str] = field(default_factory=dict)  # path from the root -> sha256 of its content

    @property
    def passed(self) -> bool:
        return bool(self.stages) and all(verdict in ("PASS", "NOISE") for verdict in self.stages.values())


def fingerprints(family: Family) -> dict[str, str]:
    """Every file of the port and of its proof, by its content."""
    files = sorted({source.path for source in [*family.code, *family.tests]})
    root = family.home.root
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def save_result(family: Family, reference: str, port: str, stages: Mapping[str, str]) -> Path:
    """Keep what was proven of the family as it is now."""
    path = family.home.file("result", family.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"reference": reference, "port": port, "stages": dict(stages), "sources": fingerprints(family)}
    write_text(path, json.dumps(content, indent=2) + "\n")
    return path


def read_result(family: Family) -> Result | None:
    """The saved result, where there is one."""
    path = family.file("result")
    if path is None:
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Result(found["reference"], found["port"], dict(found["stages"]), dict(found["sources"]))
    except (ValueError, KeyError, TypeError) as problem:
        raise FileFormatError(f"{path} is no saved result ({problem}); make it anew with parity stages.") from problem
