"""Rules of a family's surroundings: its names are registered, it has tests, a page and a fresh proof."""

from __future__ import annotations

import ast
import importlib.metadata
import tomllib
from collections.abc import Iterator

from ... import extensions
from ..results import fingerprints, read_result
from .finding import Finding
from .reading import Rule
from .source import Family, Source, bases

MIXINS = (
    "ModelTesterMixin",
    "MemoryTesterMixin",
    "AttentionTesterMixin",
    "LoraTesterMixin",
    "TrainingTesterMixin",
    "TorchCompileTesterMixin",
)
BROUGHT = {"pipeline": "Pipeline", "scheduler": "Scheduler", "guider": "Guidance"}  # part -> end of its class's name


def names_are_registered(family: Family) -> Iterator[Finding]:
    """Every class that people use is found by its name."""
    house = family.home.is_house
    register = family.home.root / ("src/lockstep/__init__.py" if house else "pyproject.toml")
    text = register.read_text(encoding="utf-8") if register.is_file() else ""
    for part in ("model", *BROUGHT):
        path = family.file(part)
        if path is None or (part == "model" and not house):
            continue  # a package's models come with the family that names them
        for kind in _public(Source(path), part):
            if house and f'"{kind.name}"' not in text:
                yield Finding(
                    register, 1, f"{kind.name} is not among the public names",
                    f'add "{family.home.module(part, family.name).removeprefix("lockstep.")}": ["{kind.name}"] to '
                    "_DEFINES, then run python -m lockstep.blocks.stubs",
                )  # fmt: skip
            if not house and kind.name not in _entry_points(text, extensions.GROUPS[part]):
                yield Finding(
                    register, 1, f"{kind.name} is no entry point, so it is not found by its name",
                    f'add {kind.name} = "{family.home.module(part, family.name)}:{kind.name}" to '
                    f'[project.entry-points."{extensions.GROUPS[part]}"], then install the package again',
                )  # fmt: skip


def not_installed(family: Family) -> list[str]:
    """The classes of a package that its `pyproject.toml` names, and that what is installed does not know yet."""
    if family.home.is_house:
        return []
    register = family.home.root / "pyproject.toml"
    text = register.read_text(encoding="utf-8") if register.is_file() else ""
    found: list[str] = []
    for part in BROUGHT:
        path, group = family.file(part), extensions.GROUPS[part]
        known = {entry.name for entry in importlib.metadata.entry_points(group=group)}
        names = [kind.name for kind in _public(Source(path), part)] if path is not None else []
        found += [name for name in names if name in _entry_points(text, group) and name not in known]
    return found


def packages_are_imported_lazily(family: Family) -> Iterator[Finding]:
    """To import a package imports none of its modules."""
    root = family.home.root / "src" / family.home.package / "__init__.py"
    paths = [family.file("family"), None if family.home.is_house else root]
    for source in [Source(path) for path in paths if path is not None and path.is_file()]:
        for node in source.tree.body:
            if (
                isinstance(node, (ast.Import, ast.ImportFrom))
                and ast.unparse(node) != "from __future__ import annotations"
            ):
                yield Finding(
                    source.path, node.lineno, f"`{ast.unparse(node)}` makes every import of the package import torch",
                    "leave the file without imports; entry points and public names find the classes",
                )  # fmt: skip


def models_are_tested_by_the_mixins(family: Family) -> Iterator[Finding]:
    """A model's test composes all of the kit's mixins."""
    model, test = family.file("model"), family.file("test")
    if model is None:
        return
    if test is None:
        yield Finding(
            model, 1, f"{family.home.path('test', family.name)} is not there",
            f"write it as `lockstep new model` does: a config and {', '.join(MIXINS)}",
        )  # fmt: skip
        return
    composed = set().union(*(bases(kind) for kind in Source(test).classes))
    if missing := [mixin for mixin in MIXINS if mixin not in composed and "Everything" not in composed]:
        yield Finding(test, 1, f"the model is not tested by {', '.join(missing)}", "add them to the bases of the test")


def parity_is_tested(family: Family) -> Iterator[Finding]:
    """Some test holds the family against its reference."""
    names = {part: family.file(part) for part in ("test", "pipeline_test", "scheduler_test", "guider_test")}
    for part, path in names.items():
        owner = family.file({"test": "model"}.get(part, part.removesuffix("_test")))
        if owner is None or (part == "test" and path is None):
            continue  # a missing test of a model is told by the mixins' rule
        text = path.read_text(encoding="utf-8") if path is not None else ""
        if "reference" not in text:
            yield Finding(
                path or owner, 1, f"no test of {family.home.path(part, family.name)} has a reference",
                "compare with the original: parity.assert_same(ref=…, cand=…), assert_stages, or its plain formula",
            )  # fmt: skip


def there_is_a_page(family: Family) -> Iterator[Finding]:
    """The documentation has a page on it that names its class."""
    for part in ("model", *BROUGHT):
        path = family.file(part)
        page = "page" if part in ("pipeline", "model") else f"{part}_page"
        if path is None:
            continue
        found, wanted = family.file(page), family.home.file(page, family.name)
        names = [kind.name for kind in _public(Source(path), part)]
        text = found.read_text(encoding="utf-8") if found is not None else ""
        if names and not any(name in text for name in names):
            yield Finding(wanted, 1, f"no page names {names[0]}", f"say in {wanted.name} what it is and how it is used")


def the_proof_is_fresh(family: Family) -> Iterator[Finding]:
    """The saved result of the proof passed, on the files as they are."""
    if family.file("model") is None and family.file("pipeline") is None:
        return  # a scheduler's and a guider's proof is their test
    path = family.home.file("result", family.name)
    ending, build = ("_pipeline", "build") if family.file("pipeline") is not None else ("", "build_model")
    sides = [f"{family.home.path(f'{side}{ending}', family.name)}:{build}" for side in ("reference", "port")]
    result = read_result(family)
    if result is not None:
        sides = [result.reference, result.port]
    again = f"run lockstep parity stages {' '.join(sides)} --family {family.name}{family.home.option}"
    if result is None:
        yield Finding(path, 1, "there is no saved result of a proof", again)
        return
    if not result.passed:
        told = ", ".join(f"{stage} {verdict}" for stage, verdict in result.stages.items()) or "nothing"
        yield Finding(path, 1, f"the saved proof did not pass: {told}", f"repair the port, then {again}")
    now = fingerprints(family)
    changed = [name for name in sorted({*now, *result.sources}) if now.get(name) != result.sources.get(name)]
    for name in changed:
        told = f"{name} has changed since the proof was saved: the result is stale"
        yield Finding(family.home.root / name, 1, told, again, pitfall=18)


def _public(source: Source, part: str) -> list[ast.ClassDef]:
    ending = {"model": "Model", **BROUGHT}[part]
    return [kind for kind in source.classes if kind.name.endswith(ending) and not kind.name.startswith("_")]


def _entry_points(text: str, group: str) -> dict[str, str]:
    try:
        found = tomllib.loads(text).get("project", {}).get("entry-points", {}).get(group, {})
    except tomllib.TOMLDecodeError:
        return {}
    return dict(found)


RULES: dict[str, Rule] = {
    "names are registered": names_are_registered,
    "packages are imported lazily": packages_are_imported_lazily,
    "models are tested by the mixins": models_are_tested_by_the_mixins,
    "parity is tested": parity_is_tested,
    "there is a page": there_is_a_page,
    "the proof is fresh": the_proof_is_fresh,
}
