"""A folder's index chooses among what is there: it can neither import a module nor have any class it names loaded."""

import json
import shutil
import sys
import types

import pytest
import torch

import lockstep
from helpers import install_entry_point
from lockstep.blocks import ComponentSpec
from lockstep.blocks.index import imported_class, parse_index
from lockstep.configuration import ConfigMixin, register_to_config
from lockstep.errors import FileFormatError, LockstepError, UnsupportedError
from lockstep.guiders import BaseGuidance
from lockstep.pipelines.finding import pipeline_class
from lockstep.schedulers import SchedulerMixin

LOADED = []


class Bait:
    """What a hostile index would like to have loaded: a class with from_pretrained that belongs nowhere."""

    @classmethod
    def from_pretrained(cls, *arguments, **options):
        LOADED.append(arguments)


class BaitModule(torch.nn.Module, Bait):
    """The same, as a torch module."""


class OwnScheduler(lockstep.DDIMScheduler):
    """What a user's family may bring: a relative of what the pipeline wants."""


class OwnSettings(ConfigMixin):
    """Loaded as Lockstep loads, but no relative of anything wanted."""

    config_name = "own.json"

    @register_to_config
    def __init__(self, size: int = 1) -> None: ...


@pytest.fixture
def trap(monkeypatch):
    """A module that somebody has imported and that imports another one when it is asked for a name."""
    asked = []
    module = types.ModuleType("trap")
    module.__getattr__ = lambda name: asked.append(name) or Bait
    module.Borrowed = OwnScheduler
    monkeypatch.setitem(sys.modules, "trap", module)
    return asked


SCHEDULER = ComponentSpec("scheduler", SchedulerMixin)
ANYTHING = ComponentSpec("helper")  # says nothing of the class


def test_a_relative_of_what_is_wanted_is_found_where_it_is_imported():
    assert imported_class(__name__, "OwnScheduler", SCHEDULER) is OwnScheduler
    created = ComponentSpec("scheduler", lockstep.DDIMScheduler, default_creation_method="from_config")
    assert imported_class(__name__, "OwnScheduler", created) is OwnScheduler


@pytest.mark.parametrize(
    ("module", "name", "spec"),
    [
        (__name__, "Bait", SCHEDULER),
        (__name__, "Bait", ANYTHING),
        (__name__, "BaitModule", ComponentSpec("unet", torch.nn.Module)),
        (__name__, "OwnScheduler", ANYTHING),
        (__name__, "OwnSettings", SCHEDULER),
        (__name__, "OwnScheduler", ComponentSpec("guider", BaseGuidance)),
        (__name__, "lockstep", SCHEDULER),
        (__name__, "imported_class", SCHEDULER),
        ("trap", "Borrowed", SCHEDULER),  # defined elsewhere
        ("subprocess", "Popen", ANYTHING),
        ("builtins", "type", ANYTHING),
        ("antigravity", "Anything", SCHEDULER),
        ("", "OwnScheduler", SCHEDULER),
        (None, "OwnScheduler", SCHEDULER),
        ("os.path", "join", SCHEDULER),
        (f"{__name__}.OwnScheduler", "DDIMScheduler", SCHEDULER),
        (__name__, "__builtins__", SCHEDULER),
        (__name__, "OwnScheduler.__base__", SCHEDULER),
    ],
)
def test_nothing_else_is(trap, module, name, spec):
    before = set(sys.modules)
    assert imported_class(module, name, spec) is None
    assert set(sys.modules) == before
    assert trap == []


def test_a_module_is_not_asked_for_what_it_does_not_have(trap):
    """Many packages import a submodule when they are asked for a name, which is code that a file would choose."""
    assert imported_class("trap", "Bait", ANYTHING) is None
    assert imported_class("transformers", "AutoModel", ComponentSpec("unet", torch.nn.Module)) is None
    assert trap == []


def rewritten(source, target, **entries):
    folder = shutil.copytree(source, target)
    path = folder / "model_index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))
    return folder


@pytest.mark.parametrize(
    ("component", "entry"),
    [
        ("scheduler", [__name__, "Bait"]),
        ("unet", [__name__, "BaitModule"]),
        ("tokenizer", [__name__, "Bait"]),
        ("text_encoder", ["subprocess", "Popen"]),
        ("vae", ["transformers.models.auto", "AutoModel"]),
        ("unet", ["antigravity", "Anything"]),
        ("unet", ["my_unet", "MyUNet"]),
    ],
)
def test_a_hostile_index_loads_nothing(folder, tmp_path, component, entry):
    LOADED.clear()
    before = set(sys.modules)
    with pytest.raises(LockstepError, match=entry[1]):
        lockstep.DiffusionPipeline.from_pretrained(rewritten(folder, tmp_path / "copy", **{component: entry}))
    assert LOADED == []
    assert not {"antigravity", "my_unet"} & (set(sys.modules) - before)


@pytest.mark.parametrize("name", ["PicturePipeline", "VideoPipeline", "Popen", "__base__", ""])
def test_a_class_that_is_no_public_pipeline_is_refused(name, tmp_path):
    index = parse_index("folder", tmp_path, {"_class_name": name, "unet": ["diffusers", "UNet2DConditionModel"]})
    with pytest.raises(UnsupportedError, match="which Lockstep does not run"):
        pipeline_class(index)


@pytest.mark.parametrize("key", ["_class_name", "_blocks_class_name"])
@pytest.mark.parametrize("value", [["pipeline", "CustomPipeline"], {"a": 1}, 3])
def test_code_that_comes_with_a_folder_is_refused(key, value, tmp_path):
    content = {key: value, "unet": ["diffusers", "UNet2DConditionModel"]}
    with pytest.raises(FileFormatError, match="is not run here"):
        parse_index("folder", tmp_path / "model_index.json", content)


def test_an_entry_point_that_is_no_pipeline_is_refused(tmp_path, monkeypatch):
    install_entry_point(tmp_path, monkeypatch, "BaitPipeline", "subprocess:Popen")
    index = parse_index("folder", tmp_path, {"_class_name": "BaitPipeline", "unet": ["diffusers", "X"]})
    with pytest.raises(UnsupportedError, match="is no pipeline"):
        pipeline_class(index)


def test_blocks_that_are_none_are_refused(tmp_path):
    named = {"_class_name": "StableDiffusionPipeline", "_blocks_class_name": "DDIMScheduler"}
    index = parse_index("folder", tmp_path, {**named, "unet": ["diffusers", "UNet2DConditionModel"]})
    with pytest.raises(LockstepError, match="saved with the blocks DDIMScheduler"):
        index.blocks_class()
