"""The checks of `make quality` that are the house's own: each finds a planted fault, and nothing in the package."""

import functools
from pathlib import Path

import pytest
from tools.quality import __main__ as command
from tools.quality import blocks, imports, lengths, public_types

import lockstep
from lockstep.blocks import ComponentSpec, ConfigSpec, LoopSequentialPipelineBlocks, ModularPipelineBlocks, stubs
from lockstep.blocks.vocabulary import VOCABULARY, Value
from lockstep.kit.checks.finding import Finding

ROOT = Path(lockstep.__file__).parent


def written(folder, **files):
    """A package in a folder; two underscores in a name stand for a slash."""
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text)
    return folder


# ---- imports ----


@pytest.mark.parametrize(
    ("place", "text", "problem"),
    [
        ("models__unet", "import torch\nfrom ..pipelines.pipeline import DiffusionPipeline\n", "but models may import"),
        ("errors", "import json\nfrom .blocks import Run\n", "is of the base and imports lockstep.blocks"),
        ("schedulers__euler", "def f():\n    import diffusers\n", "a reference for tests only"),
        ("parity__trace", "import os\nfrom .. import files\n", "parity stands beside the library"),
        ("pipelines__flux__blocks", "\nfrom ..stable_diffusion.blocks import Decode\n", "flux may not know stable"),
        ("media__old", "import importlib\nimportlib.import_module('lockstep.cli')\n", "but media may import only"),
        ("models__old", "\ncli = __import__('lockstep.cli.app')\n", "imports lockstep.cli.app, but models"),
        (
            "models__old",
            "from importlib import import_module\nimport_module('..serve', '')\n",
            "imports lockstep.serve",
        ),
        ("pipelines__flux__blocks", "\nfrom .. import stable_diffusion\n", "flux may not know stable_diffusion"),
        ("pipelines__flux__blocks", "\nfrom lockstep.pipelines import wan as w\n", "flux may not know wan"),
        ("models__old", "\nfrom .. import pipelines as p\n", "imports lockstep.pipelines, but models"),
        ("models__old", "\nimport lockstep.pipelines.pipeline as p\n", "imports lockstep.pipelines.pipeline, but"),
        ("models__old", "\nfrom lockstep import StableDiffusionPipeline\n", "but models may import"),
        ("models__old", "\nimportlib.import_module('.cli', 'lockstep')\n", "imports lockstep.cli, but models"),
        ("models__old", "\nimportlib.import_module(name='lockstep.cli')\n", "imports lockstep.cli, but models"),
        ("models__old", "from importlib import import_module as load\nload('lockstep.cli')\n", "imports lockstep.cli"),
        ("models__old", "\nentry = pkgutil.resolve_name('lockstep.cli.app:run')\n", "imports lockstep.cli.app"),
        ("models__old", "if TYPE_CHECKING:\n    from ..serve import app\n", "imports lockstep.serve"),
        ("models__old", "def f():\n    import lockstep\n", "imports lockstep as a whole"),
        ("models__old", "def f():\n    import lockstep.errors\n", "imports lockstep as a whole"),
        ("models__old", "\nfrom ..__init__ import DiffusionPipeline\n", "imports lockstep as a whole"),
        ("pipelines__loading", "\nfrom .flux.pipeline import FluxPipeline\n", "may know none of them"),
        ("models__old", "NAME = 'lockstep.cli'\nimport_module(NAME)\n", "a text that does not stand there"),
        ("models__old", "\nimport_module('lockstep.' + 'cli')\n", "a text that does not stand there"),
        ("models__old", "\nload = importlib.import_module\n", "gives importlib.import_module another name"),
        ("models__old", "\nexec('from lockstep import cli')\n", "runs a text by exec"),
        ("models__old", "\npydoc.locate('lockstep.cli')\n", "runs a text by pydoc.locate"),
        ("models__old", "\ncli = sys.modules['lockstep.cli']\n", "imports lockstep.cli, but models"),
        ("guiders__old", "\nfrom transformers.models import clip\n", "a reference for tests only"),
        ("attic__old", "", "package 'attic' is not in the table"),
    ],
)
def test_an_import_against_the_table_is_found(tmp_path, place, text, problem):
    (finding,) = imports.findings(written(tmp_path, **{place: text, "pipelines__flux__pipeline": ""}))
    assert problem in finding.message
    assert finding.line == (2 if text else 1)


def test_imports_along_the_table_are_fine(tmp_path):
    text = "from ..models.modeling import ModelMixin\nfrom ..blocks import Run\nfrom .common.parts import VAE\n"
    assert imports.findings(written(tmp_path, pipelines__pipeline=text)) == []


# ---- blocks ----


def size_of(components, factor):
    return components.vae.scale * factor


class Base(ModularPipelineBlocks):
    expected_components = [ComponentSpec("unet")]
    expected_configs = [ConfigSpec("shift")]
    inputs = ["prompt_embeds", "latents"]
    outputs = ["latents", "noise"]


class Careful(Base):
    def check(self, components, inputs):
        assert inputs.latents is None or components.unet

    def __call__(self, components, state, i, t):
        state.latents = state.prompt_embeds * components.shift + components.unet.width
        state.noise = state.latents.to(components.device, components.dtype)


class ReadsComponent(Base):
    def __call__(self, components, state):
        return components.vae


class ReadsInHelper(Base):
    def __call__(self, components, state):
        return size_of(components, 2)


class ReadsInMethod(Base):
    def __call__(self, parts, state):
        return self.encoded(1, pieces=parts)

    def encoded(self, count, pieces):
        return getattr(pieces, "vae", None)


class ReadsInParent(ReadsComponent):
    def __call__(self, components, state):
        return super().__call__(components, state)


class ReadsInCheck(Base):
    def check(self, components, inputs):
        assert components.vae


class Loop(LoopSequentialPipelineBlocks):
    block_classes = [Base]
    loop_over = "timesteps"

    def loop_items(self, components, state):
        return components.vae.items


class ReadsByAnotherName(Base):
    def __call__(self, components, state):
        parts, values = components, state
        chosen = parts
        return chosen.vae, values.latents


class ReadsPerhaps(Base):
    def __call__(self, components, state):
        chosen = components if state.latents is None else None
        return chosen.vae


class ReadsAtOnce(Base):
    def __call__(self, components, state):
        return (components or None).vae


class ReadsWhereNamed(Base):
    def __call__(self, components, state):
        return (parts := components).unet and parts.vae


class ReadsByItsClass(Base):
    def __call__(self, components, state):
        return type(self).of(components)

    @staticmethod
    def of(components):
        return components.vae


class ReadsInside(Base):
    def __call__(self, components, state):
        def decoder(parts):
            return parts.vae

        return decoder(components)


class ReadsInLambda(Base):
    def __call__(self, components, state):
        return (lambda parts: parts.vae)(components)


class ReadsLater(Base):
    def __call__(self, components, state):
        return functools.partial(size_of, components)


class ReadsOfItsClass(Base):
    def __call__(self, components, state):
        return self.of(components)

    @classmethod
    def of(cls, components):
        return components.vae


class ReadsByAnotherFunction(Base):
    def __call__(self, components, state):
        chosen = size_of
        return chosen(components)


@functools.cache
def size_once(components):
    return components.vae


class ReadsOnce(Base):
    def __call__(self, components, state):
        return size_once(components)


class Reader:
    def __init__(self, components):
        self.vae = components.vae


class ReadsInClass(Base):
    def __call__(self, components, state):
        return Reader(components)


class HidesInList(Base):
    def __call__(self, components, state):
        return [one.vae for one in (components,)]


class HidesInMap(Base):
    def __call__(self, components, state):
        return map(size_of, [components])


class HidesInStar(Base):
    def __call__(self, components, state):
        return size_of(*[components])


class HidesInMatch(Base):
    def __call__(self, components, state):
        match components:
            case other:
                return other.vae


class HidesInDict(Base):
    def __call__(self, components, state):
        return {"parts": components}


class KeepsComponents(Base):
    def __call__(self, components, state):
        self.parts = components


class KeepsState(Base):
    def __call__(self, components, state):
        kept = {}
        kept["state"] = state


class WritesByName(Base):
    def __call__(self, components, state):
        setattr(state, "prompt_embeds", None)  # noqa: B010  the guise that is planted


class ReadsState(Base):
    def unneeded(self, inputs):
        return inputs.output_type


class WritesState(Base):
    def __call__(self, components, state):
        state.prompt_embeds = None


GUISES = [ReadsComponent, ReadsInHelper, ReadsInMethod, ReadsInParent, ReadsInCheck, ReadsByAnotherName, Loop]
HANDED = [ReadsInside, ReadsInLambda, ReadsLater, ReadsOfItsClass, ReadsByAnotherFunction, ReadsOnce, ReadsInClass]


@pytest.mark.parametrize("kind", [*GUISES, ReadsPerhaps, ReadsAtOnce, ReadsWhereNamed, ReadsByItsClass, *HANDED])
def test_a_block_that_reads_an_undeclared_component_is_found(kind):
    (finding,) = blocks.findings([kind])
    assert f"{kind.__name__} reads components.vae: add ComponentSpec('vae', …)" in finding.message
    assert finding.path == Path(__file__)
    assert "vae" in Path(__file__).read_text().splitlines()[finding.line - 1]


def test_a_block_that_reads_or_writes_an_undeclared_value_is_found():
    (read,) = blocks.findings([ReadsState])
    assert "ReadsState reads state.output_type: add it to inputs" in read.message
    for kind in (WritesState, WritesByName):
        (write,) = blocks.findings([kind])
        assert f"{kind.__name__} writes state.prompt_embeds: add it to outputs" in write.message


class ReadsByGet(Base):
    def __call__(self, components, state):
        return state.get("output_type")


class ReadsByItsInside(Base):
    def __call__(self, components, state):
        return components.__getattr__("vae")


def test_a_block_that_asks_in_another_way_is_found():
    (read,) = blocks.findings([ReadsByGet])
    assert "ReadsByGet reads state.output_type" in read.message
    (read,) = blocks.findings([ReadsByItsInside])
    assert "ReadsByItsInside reads components.__getattr__" in read.message


HIDDEN = [KeepsComponents, HidesInList, HidesInMap, HidesInStar, HidesInMatch, HidesInDict]


@pytest.mark.parametrize(("kind", "what"), [*((kind, "components") for kind in HIDDEN), (KeepsState, "state")])
def test_a_block_that_hides_a_view_is_found(kind, what):
    (finding,) = blocks.findings([kind])
    assert f"{kind.__name__} puts its {what} out of sight" in finding.message


def test_what_is_declared_may_be_read():
    assert blocks.findings([Careful]) == []


def test_every_block_of_the_package_is_looked_at():
    assert {"Decode", "EncodePrompt", "SchedulerStep"} <= {kind.__name__ for kind in blocks.all_blocks()}


# ---- public names ----

THINGS = """
from typing import Any, ClassVar, TYPE_CHECKING, overload
from .base import Base

class Thing(Base):
    size: int
    table: ClassVar[Any] = None
    _hidden: Any

    def __init__(self, width, height: int = 3) -> None: ...
    def load(self, **options: "Any") -> "Thing": ...
    def rows(self) -> list[Any]: ...
    def _private(self, x: Any) -> Any: ...

    @overload
    def get(self, name: str) -> str: ...
    @overload
    def get(self, name: int) -> int: ...
    def get(self, name: Any) -> Any: ...

    if not TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any: ...

def make(what: int | Any) -> Thing: ...
"""
BASE = "from typing import Any\n\nclass Base:\n    def inherited(self) -> Any: ...\n"


def test_a_public_name_that_says_nothing_is_found(tmp_path):
    root = written(tmp_path, things=THINGS, base=BASE)
    found = public_types.findings(root, {"Thing": "things", "make": "things"}, {})
    assert [finding.message.partition(": ")[0] for finding in found] == [
        "base.Base.inherited returns Any",
        "things.Thing.table is typed Any",
        "things.Thing.__init__(width) is typed Any",
        "things.Thing.load(options) is typed Any",
        "things.make(what) is typed Any",
    ]
    assert found[0].path == tmp_path / "base.py"
    assert found[0].line == 4


@pytest.mark.parametrize(
    "annotation", ["Optional[Any]", "typing.Union[int, Any]", "Annotated[Any, 'x']", "'Any | None'"]
)
@pytest.mark.parametrize("head", ["def", "async def"])
def test_any_is_found_in_its_guises(tmp_path, annotation, head):
    root = written(tmp_path, things=f"class Thing:\n    {head} make(self, what: {annotation}) -> int: ...\n")
    (finding,) = public_types.findings(root, {"Thing": "things"}, {})
    assert "things.Thing.make(what) is typed Any" in finding.message


@pytest.mark.parametrize(
    "text",
    [
        "from typing import Any\nWhatever = Any\nclass Thing:\n    x: Whatever\n",
        "from typing import Any as A\nclass Thing:\n    x: A\n",
        "from typing import Any, TypeAlias\nW: TypeAlias = 'Any | None'\nclass Thing:\n    x: W\n",
        "from typing import Any\nclass Thing:\n    def __init__(self) -> None:\n        self.x: Any = 1\n",
        "from typing import Any\nclass Thing:\n    if sys.version_info >= (3, 11):\n        x: Any\n",
        "from typing import Any\nclass Thing:\n    try:\n        x: Any = 1\n    except ValueError: ...\n",
    ],
)
def test_any_by_another_name_is_found(tmp_path, text):
    (finding,) = public_types.findings(written(tmp_path, things=text), {"Thing": "things"}, {})
    assert "things.Thing.x is typed Any" in finding.message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("RATE: Any = 3\n", "media.RATE is typed Any"),
        ("if True:\n    def RATE(x: Any) -> int: ...\n", "media.RATE(x) is typed Any"),
        ("class RATE:\n    class Inner:\n        def deep(self) -> Any: ...\n", "media.Inner.deep returns Any"),
        ("class RATE:\n    def __len__(self) -> Any: ...\n", "media.RATE.__len__ returns Any"),
        ("class RATE:\n    width: InitVar[Any]\n", "media.RATE.width is typed Any"),
        ("def RATE(x: type[Any]) -> int: ...\n", "media.RATE(x) is typed Any"),
    ],
)
@pytest.mark.parametrize("listed", ["__all__ = ['RATE']\n", "__all__ = []\n__all__ += ['RATE']\n"])
def test_what_a_room_lists_is_looked_at(tmp_path, monkeypatch, text, told, listed):
    monkeypatch.setattr(public_types, "GIVEN", {})
    monkeypatch.setattr(lockstep, "_WHERE", {})
    root = written(tmp_path, media=f"from typing import Any\n{listed}{text}")
    (finding,) = public_types.findings(root, exceptions={})
    assert told in finding.message


def test_a_room_that_lists_nothing_is_public_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(public_types, "GIVEN", {})
    monkeypatch.setattr(lockstep, "_WHERE", {})
    root = written(tmp_path, images="def load(path) -> int: ...\ndef _own(path): ...\n")
    (finding,) = public_types.findings(root, exceptions={})
    assert "images.load(path) is typed Any" in finding.message


def test_an_exception_allows_what_it_names_and_has_to_be_needed(tmp_path):
    root = written(tmp_path, things=THINGS, base=BASE)
    exceptions = {"base.*": "reason", "things.Thing.*": "reason", "things.make(what)": "reason", "gone.*": "reason"}
    (stale,) = public_types.findings(root, {"Thing": "things", "make": "things"}, exceptions)
    assert "'gone.*' allows nothing any more" in stale.message


def test_a_stub_counts_before_the_source(tmp_path):
    root = written(tmp_path, things="def make(what): ...\n")
    (tmp_path / "things.pyi").write_text("def make(what: int) -> str: ...\n")
    assert public_types.findings(root, {"make": "things"}, {}) == []


def test_every_exception_has_a_reason():
    assert all(len(reason.split()) > 3 for reason in public_types.EXCEPTIONS.values())


# ---- stubs ----


@pytest.mark.slow
def test_a_stub_that_is_out_of_date_is_found(monkeypatch, capsys):
    monkeypatch.setitem(lockstep._WHERE, "Checkpoints", "blocks.checkpoints")
    monkeypatch.setitem(VOCABULARY, "loudness", Value(float, "How loud it is."))
    assert stubs.main(["--check"]) == 1
    told = capsys.readouterr().out
    assert "__init__.pyi is out of date: run python -m lockstep.blocks.stubs" in told
    assert "named_values.pyi is out of date" in told


def test_a_stub_has_the_attributes_that_a_class_types(tmp_path, monkeypatch):
    (tmp_path / "faces.py").write_text("class Face:\n    loudness: int = 3\n    _own: int = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "class Face:\n    loudness: int\n" in stubs.stub_for("faces")
    assert "_own" not in stubs.stub_for("faces")


def test_a_stub_of_nothing_is_found(monkeypatch, tmp_path, capsys):
    (tmp_path / "gone.pyi").write_text("x: int\n")
    monkeypatch.setattr(stubs, "stub_path", lambda module: tmp_path / f"{module.rpartition('.')[2]}.pyi")
    monkeypatch.setattr(stubs, "every_stub", lambda: {"lockstep": "y: int\n"})
    (tmp_path / "lockstep.pyi").write_text("y: int\n")
    assert stubs.main(["--check"]) == 1
    assert "gone.pyi belongs to no module that has a stub" in capsys.readouterr().out


# ---- lengths ----


def test_a_source_that_is_too_long_is_found(tmp_path):
    root = written(tmp_path, long="x = 1\n" * 501, short="x = 1\n" * 500)
    (tmp_path / "long.pyi").write_text("x: int\n" * 900)
    (finding,) = lengths.findings([root])
    assert finding.path == tmp_path / "long.py"
    assert "has 501 lines" in finding.message


# ---- the command ----


@pytest.mark.slow  # `make quality` is the same
def test_the_package_keeps_its_rules(capsys):
    assert stubs.main(["--check"]) == 0, capsys.readouterr().out
    assert command.main() == 0, capsys.readouterr().out


def test_one_finding_fails_the_command(monkeypatch, capsys):
    monkeypatch.setattr(command, "CHECKS", {"rule": lambda: [Finding(ROOT / "errors.py", 7, "is broken")]})
    assert command.main() == 1
    assert "errors.py:7: is broken" in capsys.readouterr().out
