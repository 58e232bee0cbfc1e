"""A UNet in other frameworks against ours: the published bugs are found, the repaired ports agree, faults are named."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PORTS = ("numpy", "jax", "mlx")
# the bugs of the reference library's Flax UNet and of the MLX example, in the order of computation
PUBLISHED = {"jax": ["norm_eps", "gelu_variant"], "mlx": ["norm_eps"]}
FAULTS = {
    "numpy": ["skip before the input", "sine first", "scale 1 / width", "feed-forward without residual"],
    "jax": ["no SiLU before the time", "sine first", "feed-forward without residual"],
    "mlx": ["no SiLU before the time", "scale 1 / width", "sine first"],
}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        from benchmarks.ports.__main__ import Reference

        yield Reference(tmp_path_factory.mktemp("ports"))


def told(reference, port, choices, folder):
    from benchmarks.ports.__main__ import said
    from benchmarks.ports.backends import NEEDS, is_installed

    if not is_installed(port):
        pytest.skip(f"the framework {NEEDS[port][0]} is not installed")
    return said(reference, port, choices, folder)


@pytest.mark.parametrize("port", PUBLISHED)
def test_the_published_bugs_are_found(reference, port, tmp_path):
    from benchmarks.ports.unet import PUBLISHED as CHOICES

    answer = told(reference, port, CHOICES[port], tmp_path)
    assert (answer.verdict, answer.causes) == ("BUG", PUBLISHED[port]), answer.sentence
    assert answer.at[0] == "-|unet.down_blocks.0.attentions.0.norm|out"


@pytest.mark.parametrize("port", PORTS)
def test_the_repaired_port_agrees(reference, port, tmp_path):
    from benchmarks.ports.unet import Choices

    assert told(reference, port, Choices(), tmp_path).verdict in ("PASS", "NOISE")


@pytest.mark.parametrize(
    ("port", "fault"),
    [
        pytest.param(port, fault, marks=[] if place == number else [pytest.mark.slow])
        for number, port in enumerate(PORTS)
        for place, fault in enumerate(FAULTS[port])
    ],
)
def test_a_planted_fault_is_named(reference, port, fault, tmp_path):
    from benchmarks.ports.unet import PLANTED

    choices, right = PLANTED[fault]
    answer = told(reference, port, choices, tmp_path)
    assert answer.verdict == "BUG"
    assert answer.causes, answer.sentence
    assert answer.causes[0] in right, answer.sentence


@pytest.mark.slow
@pytest.mark.parametrize("port", ["jax", "mlx"])
@pytest.mark.parametrize("fault", ["skip before the input", "gate and value exchanged"])
def test_what_the_trace_does_not_show_is_named_by_what_takes_it(reference, port, fault, tmp_path):
    """The trace of these ports does not say what goes into a block; the code that hands it over is looked at."""
    from benchmarks.ports.unet import PLANTED

    choices, right = PLANTED[fault]
    answer = told(reference, port, choices, tmp_path)
    assert answer.verdict == "BUG"
    assert answer.causes[:1] != [], answer.sentence
    assert answer.causes[0] in right, answer.sentence
