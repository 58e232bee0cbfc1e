"""`write_new`: every file of a new integration, and the lines by which it is found; all of it, or nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ... import extensions
from ...errors import InputError, UnknownNameError, WriteError
from ...files import write_text
from .filling import arranged, filled
from .homes import Home
from .names import FamilyNames
from .registering import (
    with_entry_point,
    with_exported,
    with_family_drawn,
    with_public_name_in,
    with_public_names,
)
from .taken import CLASSES, refuse_a_taken_name

# what can be new -> part of the layout -> template
MODEL = {
    "model": "model/transformer.py",
    "map": "model/map.py",
    "reference": "model/reference.py",
    "port": "model/port.py",
    "test": "model/test_transformer.py",
}
PIPELINE = {
    "family": "pipeline/__init__.py",
    "encoders": "pipeline/encoders.py",
    "before_denoise": "pipeline/before_denoise.py",
    "denoise": "pipeline/denoise.py",
    "decoders": "pipeline/decoders.py",
    "blocks": "pipeline/blocks_{workflows}.py",
    "pipeline": "pipeline/pipeline.py",
    "reference_pipeline": "pipeline/reference_pipeline.py",
    "port_pipeline": "pipeline/port_pipeline.py",
    "pipeline_test": "pipeline/test_pipeline.py",
    "page": "pipeline/page.md",
}
KINDS = {
    "model": {**MODEL, "page": "model/page.md"},
    "pipeline": {**MODEL, **PIPELINE},
    **{
        kind: {
            kind: f"{kind}/{kind}.py",
            f"{kind}_reference": f"{kind}/reference.py",
            f"{kind}_test": f"{kind}/test_{kind}.py",
            f"{kind}_page": f"{kind}/page.md",
        }
        for kind in ("scheduler", "guider")
    },
}
PACKAGE = {  # what a package has besides, where there is none yet
    ".gitignore": "package/gitignore",
    "pyproject.toml": "package/pyproject.toml",
    "Makefile": "package/Makefile",
    "README.md": "package/README.md",
    "tests/conftest.py": "package/conftest.py",
    "src/{package}/__init__.py": "package/__init__.py",
}
WORKFLOWS = {"t2i": "text to image", "i2i": "image to image", "inpaint": "painting"}


@dataclass
class Written:
    """What was written: new files, edited ones, and those that were there and stay."""

    new: list[Path] = field(default_factory=list)
    edited: list[Path] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)


def write_new(kind: str, given: str, home: Home, workflows: Iterable[str] = ("t2i",)) -> Written:
    """Write a new model, pipeline, scheduler or guider into a home; a pipeline's model may be there already."""
    if kind not in KINDS:
        raise UnknownNameError("kind of integration", kind, KINDS)
    names, chosen = FamilyNames.of(given), _workflows(workflows)
    texts = _texts(kind, names, home, chosen)
    written = Written()
    model_there = kind == "pipeline" and home.file("model", names.name).is_file()
    for path in list(texts):
        if not path.exists():
            continue
        if path in _package_files(home) or (model_there and path in [home.file(part, names.name) for part in MODEL]):
            written.kept.append(path)
            del texts[path]
    page = _page_with_pipeline(names, home, texts, chosen) if model_there else {}
    taken = [path for path in texts if path.exists()]
    if taken:
        listed = ", ".join(str(path.relative_to(home.root)) for path in taken)
        raise InputError(f"{names.name!r} is there already: {listed}. Choose another name, or remove these files.")
    refuse_a_taken_name(kind, names, home, model_there)
    names.refuse_too_long()
    edits = {**_edits(kind, names, home, texts, model_there), **page}
    written.edited = [path for path in edits if path.exists()]
    written.new = [path for path in (*texts, *edits) if path not in written.edited]
    written.kept = [path for path in written.kept if path not in edits]
    _write({**texts, **edits}, _regenerated_stubs if home.is_house else lambda home: None, home)
    return written


def _page_with_pipeline(
    names: FamilyNames, home: Home, texts: dict[Path, str], workflows: tuple[str, ...]
) -> dict[Path, str]:
    """The page that came with the model, which tells of the pipeline as well now; what people wrote in it stays."""
    page = home.file("page", names.name)
    if not page.is_file():
        return {}
    there, whole = page.read_text(encoding="utf-8"), texts.pop(page)
    if there == _texts("model", names, home, workflows)[page]:
        return {page: whole}
    if CLASSES["pipeline"].format(names.camel) in there:
        return {}
    part = whole.partition("\n")[2].replace("## Proof", "## Proof of the pipeline")
    return {page: f"{there.rstrip()}\n\n## Pipeline\n{part}"}


def _texts(kind: str, names: FamilyNames, home: Home, workflows: tuple[str, ...]) -> dict[Path, str]:
    """Path -> content of every new file."""
    told = [WORKFLOWS[one] for one in workflows]
    listed = " and ".join([", ".join(told[:-1]), told[-1]]) if len(told) > 1 else told[0]
    words = {
        "name": names.name,
        "Name": names.camel,
        "Title": names.title,
        "workflow_words": listed,
        **home.words(names.name),
    }
    own = (home.package, "reference_", "port_")
    texts: dict[Path, str] = {}
    if not home.is_house:
        for place, template in PACKAGE.items():
            texts[home.root / place.format(package=home.package)] = filled(f"{template}.txt", words)
    for part, template in KINDS[kind].items():
        text = filled(f"{template.format(workflows='_'.join(workflows))}.txt", words)
        path = home.file(part, names.name)
        if path.suffix == ".py":
            module = home.module(part, names.name) if path.is_relative_to(home.root / "src") else None
            if module is not None and path.name == "__init__.py":
                module += ".__init__"
            text = arranged(text, module, own)
        texts[path] = text
    return texts


def _edits(kind: str, names: FamilyNames, home: Home, texts: dict[Path, str], model_there: bool) -> dict[Path, str]:
    """Path -> new content of the files in which names are registered; a file that is new itself is changed in place."""
    if not home.is_house:
        project = home.root / "pyproject.toml"
        text = texts.pop(project) if project in texts else project.read_text(encoding="utf-8")
        if kind in extensions.GROUPS:
            name = CLASSES[kind].format(names.camel)
            text = with_entry_point(text, extensions.GROUPS[kind], name, f"{home.module(kind, names.name)}:{name}")
        return {project: text}
    package = home.root / "src" / home.package
    public = package / "__init__.py"
    text, edits = public.read_text(encoding="utf-8"), {}
    if kind in ("scheduler", "guider"):
        name = CLASSES[kind].format(names.camel)
        room = package / f"{kind}s" / "__init__.py"
        edits[room] = with_exported(room.read_text(encoding="utf-8"), names.name, name)
        text = with_public_name_in(text, f"{kind}s", name)
    if kind in ("model", "pipeline") and not model_there:
        row = {f"models.transformers.transformer_{names.name}": [CLASSES["model"].format(names.camel)]}
        text = with_public_names(text, "models.transformers", row)
    if kind == "pipeline":
        rows = {
            f"pipelines.{names.name}.blocks": [f"{names.camel}Blocks"],
            f"pipelines.{names.name}.pipeline": [CLASSES["pipeline"].format(names.camel)],
        }
        text = with_public_names(text, "pipelines", rows)
        page = home.root / "docs" / "architecture.md"
        if page.is_file():
            edits[page] = with_family_drawn(page.read_text(encoding="utf-8"), names.name)
    return {**edits, public: text}


def _write(texts: dict[Path, str], then: Callable[[Home], None], home: Home) -> None:
    """Every file, and what follows from them; where something fails, all is as it was."""
    before = {path: path.read_text(encoding="utf-8") if path.exists() else None for path in texts}
    folders = {folder for path in texts for folder in path.parents if not folder.exists()}
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, text)
        then(home)
    except BaseException as problem:  # also ctrl-C, which leaves nothing half-written either
        for path, old in before.items():
            path.unlink(missing_ok=True) if old is None else write_text(path, old)
        for folder in sorted(folders, key=lambda one: -len(one.parts)):
            with suppress(OSError):  # not there yet, or with files of somebody else in it
                folder.rmdir()
        if isinstance(problem, OSError):
            raise WriteError(f"{problem} Nothing was changed.") from problem
        raise


def _regenerated_stubs(home: Home) -> None:
    """The stubs of the house know the new names."""
    environment = {**os.environ, "PYTHONPATH": str(home.root / "src")}
    command = [sys.executable, "-m", "lockstep.blocks.stubs"]
    done = subprocess.run(command, cwd=home.root, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise WriteError(f"The stubs cannot be made anew: {done.stderr.strip().splitlines()[-1]}")


def _package_files(home: Home) -> list[Path]:
    return [] if home.is_house else [home.root / place.format(package=home.package) for place in PACKAGE]


def _workflows(given: Iterable[str]) -> tuple[str, ...]:
    """The workflows in their own order; each of them contains those before it."""
    wanted = list(dict.fromkeys(word.strip() for word in given if word.strip())) or ["t2i"]
    for word in wanted:
        if word not in WORKFLOWS:
            raise UnknownNameError("workflow", word, WORKFLOWS)
    known = list(WORKFLOWS)
    chosen = tuple(known[: max(map(known.index, wanted)) + 1])
    if set(chosen) != set(wanted):
        raise InputError(
            f"Workflows go with those before them: {','.join(chosen)} is offered, {','.join(wanted)} is not. "
            "Take out of the written blocks what you do not want."
        )
    return chosen
