"""Two programs side by side: other names, fused and split weights, other slots, a map file."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lockstep.parity import AlignmentError, Trace, TraceWriter, Verdict, align_traces, compare, floor, record
from parity import tiny


class FusedAttention(nn.Module):
    """The same attention with one projection, other names and another argument name."""

    def __init__(self, original):
        super().__init__()
        self.heads = original.heads
        self.qkv = nn.Linear(original.to_q.in_features, 3 * original.to_q.out_features, bias=False)
        self.qkv.weight.data = torch.cat([original.to_q.weight, original.to_k.weight, original.to_v.weight]).detach()
        self.proj_out = original.to_out

    def forward(self, tokens):
        q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in self.qkv(tokens).chunk(3, -1))
        return self.proj_out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def recorded(model, path, name=None, **options):
    with torch.no_grad(), record(model, path, level="module+ops", name=name, **options):
        model(tiny.sample(), timestep=3.0)
    return path


def renamed(model):
    """A port with a vocabulary of its own."""

    class Port(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp, self.final_norm, self.final = model.embed, model.norm, model.head
            self.layers = nn.ModuleList(self._layer(block) for block in model.blocks)

        @staticmethod
        def _layer(block):
            layer = nn.Module()
            layer.ln_1, layer.attention, layer.ln_2, layer.mlp = block.norm1, block.attn, block.norm2, block.ff
            return layer

        def forward(self, x, timestep):
            h = self.inp(x) + torch.as_tensor(timestep, dtype=x.dtype) / 1000
            for layer in self.layers:
                h = h + layer.attention(layer.ln_1(h))
                h = h + layer.mlp(layer.ln_2(h))
            return self.final(self.final_norm(h))

    return Port().eval()


def test_other_root_names(tmp_path):
    a = recorded(tiny.transformer(), tmp_path / "a.trace", name="unet")
    b = recorded(tiny.transformer(), tmp_path / "b.trace", name="model")
    result = compare(a, b)
    assert result.verdict is Verdict.PASS
    assert result.coverage.fraction == 1


def test_other_names_are_found_by_the_weights(tmp_path):
    torch.manual_seed(1)
    model = tiny.transformer()
    for parameter in model.parameters():  # norms start as ones and zeros, which prove nothing
        parameter.data += 0.01 * torch.randn(parameter.shape)
    a, b = recorded(model, tmp_path / "a.trace"), recorded(renamed(model), tmp_path / "b.trace")
    alignment = align_traces(Trace.open(a), Trace.open(b))
    assert alignment.modules["model.blocks.1.attn.to_q"] == ("model.layers.1.attention.to_q", "weights")
    assert alignment.modules["model.blocks.1.norm2"][0] == "model.layers.1.ln_2"
    assert alignment.modules["model.blocks.1.attn"][0] == "model.layers.1.attention"
    assert {match.kind for match in alignment.weights} == {"same"}
    result = compare(a, b)
    assert result.verdict is Verdict.PASS, result.sentence()
    assert result.coverage.fraction > 0.9, result.coverage.missing
    model.blocks[2].ff.approximate = "tanh"
    result = compare(a, recorded(renamed(model), tmp_path / "c.trace"))
    assert result.verdict is Verdict.BUG
    assert result.first.site == "model.blocks.2.ff"


def test_a_fused_projection_is_recognised_and_is_no_bug(tmp_path):
    model = tiny.transformer()
    a = recorded(model, tmp_path / "a.trace")
    floor(model, a, runs=("fp64", "ulp"))
    fused = tiny.transformer()
    for block in fused.blocks:
        block.attn = FusedAttention(block.attn)
    b = recorded(fused, tmp_path / "b.trace")
    alignment = align_traces(Trace.open(a), Trace.open(b))
    fused_matches = [m for m in alignment.weights if m.kind == "fused"]
    assert len(fused_matches) == 3
    assert fused_matches[0].b == ("model.blocks.0.attn.qkv.weight",)
    assert [path.rsplit(".", 2)[1] for path in fused_matches[0].a] == ["to_q", "to_k", "to_v"]
    back = align_traces(Trace.open(b), Trace.open(a))
    assert sum(m.kind == "split" for m in back.weights) == 3
    result = compare(a, b, floor=tmp_path / "a.floor")
    assert result.verdict in (Verdict.PASS, Verdict.NOISE), result.sentence()


def test_transposed_permuted_and_different_weights(tmp_path):
    a = recorded(tiny.transformer(), tmp_path / "a.trace")
    model = tiny.transformer()
    attn = model.blocks[0].attn
    attn.to_q.weight.data = attn.to_q.weight.data.T.contiguous()
    nn.init.normal_(attn.to_v.weight)
    b = recorded(model, tmp_path / "b.trace")
    kinds = {m.a[0]: m.kind for m in align_traces(Trace.open(a), Trace.open(b)).weights if m.kind != "same"}
    assert kinds == {"model.blocks.0.attn.to_q.weight": "permuted", "model.blocks.0.attn.to_v.weight": "different"}


def test_weights_rounded_to_half_are_still_the_same(tmp_path):
    a = recorded(tiny.transformer(), tmp_path / "a.trace")
    model = tiny.transformer().to(torch.bfloat16)
    with torch.no_grad(), record(model, tmp_path / "b.trace"):
        model(tiny.sample().to(torch.bfloat16), timestep=3.0)
    kinds = {m.kind for m in align_traces(Trace.open(a), Trace.open(tmp_path / "b.trace")).weights}
    assert kinds == {"same"}


def write(path, *values):
    with TraceWriter(path) as writer:
        for step, name, slot, value in values:
            writer.put(step, name, slot, np.asarray(value, np.float32))
    return path


def test_published_names_of_pipeline_values_and_slots(tmp_path):
    rng = np.random.default_rng(0)
    latents, noise, skip, image = (rng.standard_normal((1, 4, 8, 8)) for _ in range(4))
    a = write(
        tmp_path / "a.trace",
        ("denoise:00", "@noise_pred", "out", noise),
        ("denoise:00", "@latents", "out", latents),
        ("-", "unet.down", "out", latents),
        ("-", "unet.down", "out.skip.0", skip),
        ("-", "vae", "out.image", image),
    )
    b = write(
        tmp_path / "b.trace",
        ("denoise:00", "@scheduler.step", "in.model_output", noise),
        ("denoise:00", "@scheduler.step", "out", latents),
        ("-", "unet.down", "out.0", latents),
        ("-", "unet.down", "out.1.0", skip),
        ("-", "vae.decode", "out", image),
    )
    for first, second in ((a, b), (b, a)):
        result = compare(first, second)
        assert result.verdict is Verdict.PASS, result.sentence()
        assert result.coverage.fraction == 1, result.coverage.missing


def test_a_map_file(tmp_path):
    rng = np.random.default_rng(0)
    uncond, cond, hidden = (rng.standard_normal((1, 4)) for _ in range(3))
    a = write(
        tmp_path / "a.trace",
        ("denoise:00", "@pred_uncond", "out", uncond),
        ("denoise:00", "@pred_cond", "out", cond),
        ("-", "encoder.h.0", "out", hidden),
    )
    b = write(
        tmp_path / "b.trace",
        ("denoise:00", "unet", "out", np.concatenate([uncond, cond])),
        ("-", "text.layers.0", "out", hidden),
    )
    map_file = tmp_path / "map.toml"
    map_file.write_text(
        '[modules]\n"encoder.h" = "text.layers"\n[values]\n'
        '"*|@pred_uncond|out" = "*|unet|out[0:1]"\n"*|@pred_cond|out" = "*|unet|out[1:2]"\n'
    )
    result = compare(a, b, map=map_file)
    assert result.verdict is Verdict.PASS, result.sentence()
    assert result.coverage.fraction == 1
    swapped = {"modules": {"encoder.h": "text.layers"}, "values": {"*|@pred_uncond|out": "*|unet|out[1:2]"}}
    assert compare(a, b, map=swapped).verdict is Verdict.BUG


@pytest.mark.parametrize(
    ("text", "words"),
    [("[modules]\n'nothing' = 'x'", "does not have"), ("[values]\n'-|a|out' = '-|b|out'", "no such values"),
        ("[moduls]\na='b'", "unknown tables"), ("not toml", "cannot be read")],
)  # fmt: skip
def test_a_wrong_map_is_refused(tmp_path, text, words):
    a = write(tmp_path / "a.trace", ("-", "m", "out", np.ones(3)))
    (tmp_path / "map.toml").write_text(text)
    with pytest.raises(AlignmentError, match=words):
        compare(a, a, map=tmp_path / "map.toml")


def test_traces_with_nothing_in_common_are_invalid(tmp_path):
    a = write(tmp_path / "a.trace", ("-", "m.a", "out", np.ones((3, 4))), ("-", "n", "out", np.ones(4)))
    b = write(tmp_path / "b.trace", ("-", "x.y", "out", np.ones((5, 6))), ("-", "z", "out", np.ones(9)))
    result = compare(a, b)
    assert result.verdict is Verdict.INVALID
    assert "no value" in result.reasons[0]


def test_a_result_wrapped_in_another_way_is_found_by_its_numbers(tmp_path):
    rng = np.random.default_rng(0)
    last, first = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 3, 4))
    a = write(tmp_path / "a.trace", ("-", "m.encoder", "out", last), ("-", "m", "out", last))
    b = write(
        tmp_path / "b.trace",
        ("-", "m.encoder", "out.0", first),
        ("-", "m.encoder", "out.1", last),
        ("-", "m", "out", last),
    )
    result = compare(a, b)
    assert result.verdict is Verdict.PASS, result.sentence()
    assert str(result.nodes[0].other) == "-|m.encoder|out.1"


def test_another_view_of_the_same_numbers_is_the_same(tmp_path):
    values = np.random.default_rng(0).standard_normal((2, 8, 16))
    a = write(tmp_path / "a.trace", ("-", "m.norm", "out", values), ("-", "m", "out", values))
    b = write(tmp_path / "b.trace", ("-", "m.norm", "out", values.reshape(2, 8, 4, 4)), ("-", "m", "out", values))
    assert compare(a, b).verdict is Verdict.PASS
    moved = values.reshape(2, 8, 4, 4).swapaxes(2, 3)
    c = write(tmp_path / "c.trace", ("-", "m.norm", "out", moved), ("-", "m", "out", values * 1.01))
    assert "shape" in compare(a, c).first.problem
