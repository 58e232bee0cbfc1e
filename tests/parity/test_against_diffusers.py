"""A pipeline of diffusers and one of ours on the same weights, neither of them edited."""

import pytest
import torch

import lockstep
from lockstep.parity import Trace, Verdict, compare, record
from parity import tiny


def ours(pipe, steps=2):
    return pipe(
        "a cat", num_inference_steps=steps, height=32, width=32, guidance_scale=5.0, output_type="pt",
        generator=torch.Generator().manual_seed(7),
    ).images  # fmt: skip


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pipelines")
    theirs = tiny.diffusers_pipeline()
    theirs.save_pretrained(folder / "weights")
    with record(theirs, folder / "theirs.trace", level="module+ops", side="reference"):
        tiny.generate(theirs, steps=2)
    return folder / "theirs.trace", lockstep.StableDiffusionPipeline.from_pretrained(folder / "weights")


def test_the_same_weights_pass(both, tmp_path):
    reference, pipe = both
    with record(pipe, tmp_path / "ours.trace", level="module+ops"):
        ours(pipe)
    result = compare(reference, tmp_path / "ours.trace")
    assert result.verdict is Verdict.PASS, result.sentence()
    assert result.coverage.fraction >= 0.95, result.coverage.missing
    assert Trace.open(reference).steps == Trace.open(tmp_path / "ours.trace").steps


def upset_gelu(pipe):
    gated = pipe.unet.mid_block.attentions[0].transformer_blocks[0].ff.net[0]

    class TanhGated(type(gated)):
        def forward(self, hidden_states):
            hidden_states, gate = self.proj(hidden_states).chunk(2, dim=-1)
            return hidden_states * torch.nn.functional.gelu(gate, approximate="tanh")

    original, gated.__class__ = type(gated), TanhGated
    return lambda: setattr(gated, "__class__", original)


def upset_eps(pipe):
    norm = pipe.unet.down_blocks[0].resnets[0].norm1
    norm.eps = 1e-6
    return lambda: setattr(norm, "eps", 1e-5)


def upset_bias(pipe):
    pipe.vae.decoder.conv_in.bias.data += 0.01
    return lambda: pipe.vae.decoder.conv_in.bias.data.sub_(0.01)


@pytest.mark.parametrize(
    ("fault", "step", "site"),
    [
        (upset_gelu, "denoise:00", "unet.mid_block.attentions.0.transformer_blocks.0.ff.net.0"),
        (upset_eps, "denoise:00", "unet.down_blocks.0.resnets.0.norm1"),
        (upset_bias, "-", "vae.decoder.conv_in"),
    ],
    ids=["gelu", "eps", "bias"],
)
def test_a_planted_fault_is_found(both, tmp_path, fault, step, site):
    reference, pipe = both
    repair = fault(pipe)
    try:
        with record(pipe, tmp_path / "ours.trace", level="module+ops"):
            ours(pipe)
    finally:
        repair()
    result = compare(reference, tmp_path / "ours.trace")
    assert result.verdict is Verdict.BUG, result.sentence()
    assert (result.first.step, result.first.site) == (step, site), result.sentence()
