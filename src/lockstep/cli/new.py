"""`lockstep new`: a model, pipeline, scheduler or guider from templates, with tests and a proof."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError
from .console import err, out, print_json
from .options import Json

if TYPE_CHECKING:
    from ..kit.new import Home

app = typer.Typer(
    name="new", no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False,
    help="Write a new model, pipeline, scheduler or guider: files, tests, a reference, a page; names registered.",
)  # fmt: skip

Name = Annotated[str, typer.Argument(help="Of the family: night_sky, NightSky or Night-Sky.")]
Package = Annotated[
    Path | None, typer.Option(help="A package of your own, made if it is not there; else Lockstep's own repository.")
]


def model(name: Name, package: Package = None, json: Json = False) -> None:
    """A transformer with its attention class and processor, weight map, tests by the mixins and a reference."""
    _write("model", name, package, json)


def pipeline(
    name: Name,
    workflows: Annotated[str, typer.Option(help="t2i, or with more: t2i,i2i or t2i,i2i,inpaint.")] = "t2i",
    package: Package = None,
    json: Json = False,
) -> None:
    """A family: its blocks over the common ones and, where it is not there yet, its model."""
    _write("pipeline", name, package, json, workflows)


def scheduler(name: Name, package: Package = None, json: Json = False) -> None:
    """A scheduler with its grid and its step, held against a plain loop."""
    _write("scheduler", name, package, json)


def guider(name: Name, package: Package = None, json: Json = False) -> None:
    """A guider, held against a plain formula."""
    _write("guider", name, package, json)


def home_of(package: Path | None) -> Home:
    """The package that was named, or Lockstep's own repository around the working folder."""
    from ..kit.new import house_from, package_at

    if package is not None:
        return package_at(package)
    house = house_from(Path.cwd())
    if house is None:
        raise InputError(
            "This folder is not in Lockstep's own repository. Give a package of your own: --package ./sunrise-models."
        )
    return house


def _write(kind: str, name: str, package: Path | None, json: bool, workflows: str = "t2i") -> None:
    from ..kit.new import FamilyNames, write_new

    home, family = home_of(package), FamilyNames.of(name).name
    written = write_new(kind, name, home, workflows.split(","))
    if json:
        lists = {"new": written.new, "edited": written.edited, "kept": written.kept}
        print_json({"root": home.root, **{key: [str(path) for path in paths] for key, paths in lists.items()}})
        return
    for word, paths in (("new", written.new), ("edited", written.edited), ("kept", written.kept)):
        for path in paths:
            out.print(f"  [green]{word:>6}[/]  {path.relative_to(home.root)}", highlight=False, soft_wrap=True)
    for line in _next(kind, family, home):
        err.print(f"[dim]Next: {line}[/]", highlight=False, soft_wrap=True)


def _next(kind: str, family: str, home: Home) -> list[str]:
    """The commands that go on from here."""
    test = home.path({"model": "test", "pipeline": "pipeline_test"}.get(kind, f"{kind}_test"), family)
    folder = shlex.quote(str(home.root))
    there = [] if home.is_house else [f"cd {folder} && pip install -e .   (so that it is found by its name)"]
    if kind in ("scheduler", "guider"):
        return [*there, f"pytest {test}"]
    part, build = ("pipeline", "build") if kind == "pipeline" else ("", "build_model")
    ending = f"_{part}" if part else ""
    sides = f"{home.path(f'reference{ending}', family)}:{build} {home.path(f'port{ending}', family)}:{build}"
    return [
        *there,
        f"pytest {test}",
        f"put the original into {home.path(f'reference{ending}', family)}, then: lockstep port {sides}",
        f"lockstep parity stages {sides} --family {family}{home.option} && lockstep check {family}{home.option}",
    ]


def examples(*lines: str) -> str:
    """Examples at the end of a help text."""
    return "Examples:\n\n" + "\n\n".join(f"  lockstep {line}" for line in lines)


app.command(epilog=examples("new model Night-Sky", "new model sunrise --package ./sunrise-models"))(model)
app.command(
    epilog=examples("new pipeline Night-Sky --workflows t2i,i2i", "new pipeline sunrise --package ./sunrise-models")
)(pipeline)
app.command(epilog=examples("new scheduler half_moon --package ./sunrise-models"))(scheduler)
app.command(epilog=examples("new guider fading --package ./sunrise-models"))(guider)
