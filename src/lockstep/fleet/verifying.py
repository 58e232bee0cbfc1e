"""Whether a folder holds what its plan says: every file, no other, each made from its row, and some made again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import LockstepError, NotFoundError
from ..media import kind_named
from ..media.pixels import PixelHash
from .driving import LEDGER, LOCK, Ledger
from .making import Maker, hash_file
from .plan import NAME, Plan, PlannedRow, told_differences

OWN = (NAME, LEDGER, LOCK)


@dataclass
class Findings:
    """What is wrong with a folder; nothing where it is as planned."""

    files: int = 0
    missing: list[str] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)
    wrong: dict[str, str] = field(default_factory=dict)  # file -> what is not as planned
    replayed: int = 0

    @property
    def fine(self) -> bool:
        return not (self.missing or self.strange or self.wrong)


def verify(
    folder: Path,
    maker: Callable[[Plan], Maker] | None = None,
    *,
    replays: int = 3,
    tell: Callable[[int], None] = lambda count: None,
) -> Findings:
    """Hold every file against the plan and the ledger; `maker` makes some of them again."""
    plan = Plan.read(folder)
    if plan is None:
        raise NotFoundError(f"{folder} is not the folder of a batch: it has no {NAME}.")
    planned, found = plan.files, Findings()
    there = {path.name for path in folder.iterdir()} - set(OWN)
    found.missing = sorted(set(planned) - there)
    found.strange = sorted(there - set(planned))
    recorded: dict[str, list[dict[str, Any]]] = {}
    for entry in Ledger.read(folder):
        if "pixels" in entry:
            recorded.setdefault(entry["key"], []).append(entry)
    good: list[PlannedRow] = []
    for name in sorted(there & set(planned)):
        problem = compared(folder / name, plan, planned[name], recorded.get(planned[name].key, []))
        if problem:
            found.wrong[name] = problem
        else:
            good.append(planned[name])
        found.files += 1
        tell(found.files)
    if maker is not None and replays and good:
        again = maker(plan)
        if told := told_differences(plan.shared, again.shared()):
            found.wrong[NAME] = f"the model or its settings are not those of the plan any more: {told}"
            return found
        for row in random.Random(0).sample(good, min(replays, len(good))):
            if again.made(row) != pixels_in(folder / row.file)[0]:
                found.wrong[row.file] = "made again, it has other pixels"
            found.replayed += 1
    return found


def compared(path: Path, plan: Plan, row: PlannedRow, recorded: list[dict[str, Any]]) -> str | None:
    """What of a file is not as its row says, or as a line of the ledger does (it may have been made twice)."""
    try:
        pixels, manifest = pixels_in(path)
    except LockstepError as problem:
        return str(problem)
    if manifest.get("weights") != {name: plan.shared["weights"].get(name) for name in manifest.get("weights", {})}:
        return "its manifest names other weights"
    if manifest.get("seed") != [row.inputs["seed"]]:
        return f"its manifest has the seed {manifest.get('seed')}, the row {row.inputs['seed']}"
    if "prompt" in row.inputs and manifest.get("inputs", {}).get("prompt") != row.inputs["prompt"]:
        return "its manifest has another prompt"
    if manifest.get("pixels") != pixels:
        return "its pixels are not those that were written"
    if recorded and pixels not in {entry["pixels"] for entry in recorded}:
        return "its pixels are not those that the ledger names"
    hashes = {entry["sha256"] for entry in recorded if "sha256" in entry}
    if hashes and hash_file(path) not in hashes:
        return "its bytes are not those that the ledger names: it was written again, or is damaged"
    return None


def pixels_in(path: Path) -> tuple[str, dict[str, Any]]:
    """The hash of the pixels that a file holds (for a lossy one, of those that went in) and its manifest."""
    from ..blocks.manifest import read_manifest

    manifest = read_manifest(path)
    kind = kind_named("video" if "video" in manifest else "picture")
    format = kind.format_of(path)
    if not format.lossless:
        return str(manifest.get("pixels")), manifest
    return PixelHash(kind.frames(format.read(path))).text, manifest
