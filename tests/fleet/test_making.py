"""A worker's hands, without a process around them."""

import functools

import pytest

from lockstep.blocks import manifest
from lockstep.cli.batch_rows import row_inputs
from lockstep.cli.pipelines import loaded
from lockstep.errors import InputError
from lockstep.fleet.making import Maker, Setup
from lockstep.fleet.plan import Plan
from lockstep.media import read_manifest

SMALL = {"height": "32", "width": "32", "num_inference_steps": "1"}


@pytest.fixture(scope="module")
def setup(folder, tmp_path_factory):
    options = {"dtype": "float32", "device": None, "workflow": None, "scheduler": None, "guider": None}
    load = functools.partial(loaded, str(folder), **options)
    return functools.partial(Setup, load, row_inputs, tmp_path_factory.mktemp("made"), 1)


def test_weights_are_hashed_once_and_stand_in_every_manifest(setup, monkeypatch):
    counted = []
    real = manifest.hash_weights
    monkeypatch.setattr(manifest, "hash_weights", lambda model: counted.append(1) or real(model))
    maker = Maker(setup())
    shared = maker.shared()
    rows = [{"prompt": "a cat", "seed": seed, **SMALL} for seed in range(3)]
    written = [maker.make(row) for row in Plan.of(shared, rows, rows, ".png").rows]
    told = [one.result() for one in written]
    assert len(counted) == len(shared["weights"]) == 3
    for row, one in zip(Plan.of(shared, rows, rows, ".png").rows, told, strict=True):
        record = read_manifest(maker.setup.folder / row.file)
        assert (record["weights"], record["pixels"]) == (shared["weights"], one["pixels"])


def test_rows_that_no_run_can_begin_with_are_refused_at_once(setup):
    Maker(setup({4: {"prompt": "a cat", "seed": 1, **SMALL}})).check()
    with pytest.raises(InputError, match=r"\(row 5\)"):
        Maker(setup({4: {"seed": 1, **SMALL}})).check()
