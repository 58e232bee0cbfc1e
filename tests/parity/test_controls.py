"""Changes that are none: another batching, another kernel, another way to write the same. None of them is a BUG."""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from lockstep import parity as px

ROOT = Path(__file__).parents[2]
TWO_CALLS = (
    "prediction = self.unet(model_input, timestep[None], context)",
    "prediction = torch.cat([self.unet(latents, timestep[None], one) for one in context.chunk(2)])",
)
COND_FIRST = (
    (
        "context = torch.cat([negative, embeds], dim=0)",
        "context = torch.cat([embeds, negative], dim=0)",
    ),
    ("uncond, cond =", "cond, uncond ="),
)


class Reference:
    """A model or pipeline of the benchmark, recorded once with its floor."""

    def __init__(self, name: str, folder: Path) -> None:
        from benchmarks.faults import cases

        self.name, self.folder = name, folder
        self.made = cases.reference(name, "fp32", 0, folder, steps=2)
        self.given = cases.inputs(name, 0, torch.float32) if name in cases.MODELS else ()

    def candidate(self):
        from benchmarks.faults import cases

        return cases.make(self.name, 0, torch.float32)

    def verdict(self, candidate, call=None) -> px.Comparison:
        with torch.no_grad(), px.record(candidate, self.folder / "candidate.trace", level="module+ops"):
            (call or self.made.call)(candidate)
        return px.compare(self.made.opened, self.folder / "candidate.trace", floor=self.made.floor)


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        yield {name: Reference(name, tmp_path_factory.mktemp(name)) for name in ("unet", "dit", "pipeline")}


def planted(candidate, owner, *swaps, method="forward"):
    from benchmarks.faults.planting import line

    assert line(owner, *swaps, method=method)(candidate)
    return candidate


def is_no_bug(result: px.Comparison) -> bool:
    return result.verdict in (px.Verdict.PASS, px.Verdict.NOISE)


@pytest.mark.parametrize("kernel", ["the same once more", "math attention", "no oneDNN", "two threads"])
def test_another_kernel(references, kernel):
    reference = references["unet"]
    with ExitStack() as stack:
        if kernel == "math attention":
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        elif kernel == "no oneDNN":
            stack.enter_context(warnings.catch_warnings(action="ignore"))  # torch talks of Intel's GPUs here
            stack.enter_context(torch.backends.mkldnn.flags(enabled=False))
        elif kernel == "two threads":
            stack.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(2)
        result = reference.verdict(reference.candidate())
    assert is_no_bug(result), result.sentence()


@pytest.mark.parametrize("rows", ["a copy of the batch", "other rows"])
def test_more_rows(references, rows):
    reference = references["unet"]

    def wider(tensor):
        if tensor.ndim < 2:
            return tensor
        return torch.cat([tensor, tensor if rows == "a copy of the batch" else tensor.flip(0) * 0.5])

    result = reference.verdict(reference.candidate(), lambda model: model(*map(wider, reference.given)))
    assert is_no_bug(result), result.sentence()


@pytest.mark.parametrize("way", ["two calls", "the condition first"])
def test_guidance_in_another_batch(references, way):
    from benchmarks.faults.pipeline import Pipeline

    reference = references["pipeline"]
    swaps = [TWO_CALLS] if way == "two calls" else COND_FIRST
    candidate = planted(reference.candidate(), Pipeline, *swaps, method="__call__")
    result = reference.verdict(candidate)
    assert is_no_bug(result), result.sentence()


@pytest.mark.parametrize("what", ["the model", "a block"])
def test_compiled(references, what):
    reference = references["dit"]
    model = candidate = reference.candidate()
    if what == "the model":
        candidate = torch.compile(model, backend="aot_eager")
    else:
        model.blocks[0] = torch.compile(model.blocks[0], backend="aot_eager")
    result = reference.verdict(candidate, lambda _: candidate(*reference.given))
    torch._dynamo.reset()
    assert is_no_bug(result), result.sentence()


@pytest.mark.parametrize("what", ["channels last in memory", "float64"])
def test_another_layout_or_width(references, what):
    reference = references["unet"]
    candidate = reference.candidate()
    if what == "float64":
        wide = [t.double() if t.is_floating_point() and t.ndim > 1 else t for t in reference.given]
        result = reference.verdict(candidate.double(), lambda model: model(*wide))
    else:
        result = reference.verdict(candidate.to(memory_format=torch.channels_last))
    assert is_no_bug(result), result.sentence()
