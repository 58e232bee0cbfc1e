"""The fault benchmark and the Candle comparison run, and say what they should on a few cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import slow

ROOT = Path(__file__).parents[2]
CANDLE = ROOT / "tests" / "fixtures" / "candle"


@pytest.fixture(scope="module", autouse=True)
def _benchmarks_can_be_imported():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        yield


@pytest.fixture(scope="module")
def clip(tmp_path_factory, _benchmarks_can_be_imported):
    from benchmarks.faults.cases import reference

    folder = tmp_path_factory.mktemp("faults")
    return reference("clip", "fp32", 0, folder), folder


def outcome(clip, name):
    from benchmarks.faults.cases import run_case
    from benchmarks.faults.catalogue import FAULTS, HARMLESS

    (fault,) = [f for f in [*FAULTS, *HARMLESS] if f.model == "clip" and f.name == name]
    return run_case(clip[0], fault, clip[1])


@pytest.mark.parametrize(
    "name",
    ["GELU for quick GELU", "LayerNorm eps 1e-6", "softmax over queries", "last token pooled", "padding masked"],
)
def test_faults_are_found_placed_and_named(clip, name):
    found = outcome(clip, name)
    assert (found.verdict, found.node_rank, found.cause_rank) == ("BUG", 1, 1), found


@pytest.mark.parametrize("name", ["scale folded into the query", "fp64 (clip)", "batch copy (clip)"])
def test_harmless_changes_are_no_bug(clip, name):
    assert outcome(clip, name).verdict in ("PASS", "NOISE")


def test_the_held_out_faults_can_be_planted():
    """The second list: at least forty faults and twelve controls, each with its names written down."""
    from benchmarks.faults import held_out, outside
    from benchmarks.faults.cases import DTYPES, make

    assert len(held_out.FAULTS) >= 40
    assert len(held_out.CONTROLS) >= 12
    assert len(outside.FAULTS) >= 20
    for fault in [*held_out.ALL, *outside.ALL]:
        changed = fault.plant(make(fault.model, 0, DTYPES["fp32"]))
        assert fault.harmless or (changed and fault.causes), fault.name
    assert len({(fault.model, fault.name) for fault in held_out.ALL}) == len(held_out.ALL)


def test_every_fault_can_be_planted():
    """A fault is a text in a method: it must still be there, and change something."""
    from benchmarks.faults.cases import DTYPES, make
    from benchmarks.faults.catalogue import ALL, FAULTS, FIRST, HARMLESS

    for fault in FAULTS:
        assert fault.plant(make(fault.model, 0, DTYPES["fp32"])), fault.name
        assert fault.causes, fault.name
    for fault in HARMLESS:
        fault.plant(make(fault.model, 0, DTYPES["fp32"]))
    run = [*ALL, *FIRST, *FIRST]  # seeds 0, 1 and 2
    assert sum(fault.harmless for fault in run) >= 0.3 * len(run)
    assert len({(fault.model, fault.name) for fault in ALL}) == len(ALL)
    assert len({fault.name for fault in FAULTS}) >= 40


def test_candles_decoder_is_within_the_floor(tmp_path):
    from benchmarks.candle.__main__ import explain, is_explained

    result = explain("vae_tiny", CANDLE, tmp_path)
    assert result.verdict in ("PASS", "NOISE")
    assert is_explained(result)
    assert result.coverage.fraction == 1.0


@slow
@pytest.mark.parametrize("name", ["unet_tiny", "loop_tiny"])
def test_candles_gelu_is_named_and_nothing_is_left_behind_it(tmp_path, name):
    from benchmarks.candle.__main__ import describe, explain, is_explained

    result = explain(name, CANDLE, tmp_path)
    proven = [c for c in result.causes if c.evidence["accepted"] and "with it" in c.evidence]
    assert [c.name for c in proven] == ["gelu_variant"]
    assert "tanh" in proven[0].why
    assert proven[0].residual_after < 0.05 * proven[0].residual_before
    assert proven[0].evidence["with it"].startswith(("PASS", "NOISE"))
    assert is_explained(result)
    assert "cause 1: gelu_variant" in describe(result)
