"""CLIP's text encoder in its published size beside Candle's, from the trace in tests/fixtures/candle.

Nothing differs but rounding: Candle's order of operations and of sums is imitated, and mistakes that a port could make
are shown to be visible in this trace.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from fixtures.candle.make_weights import values
from helpers import relative_l2, slow
from lockstep.models.text_encoders.clip import CLIPMLP, CLIPAttnProcessor, CLIPTextModel

CANDLE = Path(__file__).parents[2] / "fixtures" / "candle"
PUBLISHED = {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "eos_token_id": 2}
WANTED = 5e-6


def manifest():
    return json.loads((CANDLE / "manifest_clip_sd15.json").read_text())


def on_meta():
    with torch.device("meta"):
        return CLIPTextModel(**PUBLISHED).eval()


@pytest.fixture(scope="module")
def trace():
    return {name.split("|", 2)[2]: value for name, value in load_file(CANDLE / "clip_sd15.trace.safetensors").items()}


@pytest.fixture(scope="module")
def loaded():
    """The published size with Candle's weights; nothing is missing, nothing left over."""
    model = on_meta()
    tensors = {name: torch.from_numpy(values(name, shape)) for name, shape in manifest().items()}
    model.load_state_dict(tensors, strict=True, assign=True)
    return model


@pytest.fixture
def model(loaded):
    """The loaded model; what a test changes in it is taken back."""
    activations = {module: module.activation_fn for module in loaded.modules() if isinstance(module, CLIPMLP)}
    yield loaded
    loaded.set_attn_processor(CLIPAttnProcessor())
    for module, function in activations.items():
        module.activation_fn = function
    for norm in norms(loaded):
        norm.eps = 1e-5
    for module in (*norms(loaded), *linears(loaded)):
        module.__dict__.pop("forward", None)


def norms(model):
    return [module for module in model.modules() if isinstance(module, torch.nn.LayerNorm)]


def linears(model):
    return [module for module in model.modules() if isinstance(module, torch.nn.Linear)]


def encoded(model, trace):
    with torch.no_grad():
        return model(trace["text_encoder|in.input_ids"]).last_hidden_state


def test_names_and_shapes():
    assert {name: list(tensor.shape) for name, tensor in on_meta().state_dict().items()} == manifest()


def test_traced_points_are_all_compared(trace):
    assert set(trace) == {"text_encoder|in.input_ids", "text_encoder|out.last_hidden_state"}
    assert torch.equal(
        trace["text_encoder|in.input_ids"], load_file(CANDLE / "inputs_clip_sd15.safetensors")["input_ids"]
    )


@slow
def test_hidden_states(model, trace):
    assert relative_l2(encoded(model, trace), trace["text_encoder|out.last_hidden_state"]) <= WANTED


class CandleAttention(CLIPAttnProcessor):
    """As Candle computes it: the scale on the query, the lowest number added above the diagonal, a plain softmax."""

    def __call__(self, attn, x, mask_B1LL):
        qkv = (attn.q_proj(x) * (x.shape[-1] // attn.heads) ** -0.5, attn.k_proj(x), attn.v_proj(x))
        query, key, value = (part.unflatten(-1, (attn.heads, -1)).transpose(1, 2) for part in qkv)
        above = torch.full((x.shape[1], x.shape[1]), torch.finfo(torch.float32).min).triu(1)
        weights = (query @ key.transpose(2, 3) + above).softmax(dim=-1)
        return attn.out_proj((weights @ value).transpose(1, 2).flatten(2))


def candle_norm(norm):
    """As Candle computes it: one pass of fp32 sums from left to right;
    the variance is the mean square minus the square mean."""

    def forward(x):
        total = square = torch.zeros_like(x[..., 0])
        for column in x.unbind(-1):
            total, square = total + column, square + column * column
        mean = total / x.shape[-1]
        inverse = (square / x.shape[-1] - mean * mean + norm.eps).sqrt().reciprocal()
        return (x - mean[..., None]) * inverse[..., None] * norm.weight + norm.bias

    return forward


@slow
def test_what_is_left_is_rounding(model, trace):
    """Candle's order of operations moves our result by as much as the two are apart, and takes it no further away."""
    wanted = trace["text_encoder|out.last_hidden_state"]
    ours = encoded(model, trace)
    model.set_attn_processor(CandleAttention())
    for norm in norms(model):
        norm.forward = candle_norm(norm)
    imitated = encoded(model, trace)
    apart = relative_l2(ours, wanted)
    assert relative_l2(imitated, wanted) <= min(WANTED, 1.1 * apart)
    assert 0.2 * apart <= relative_l2(imitated, ours) <= 2 * apart


def chained_linear(linear):
    """As Candle's matrix product does it: one chain of fused multiply-adds along the inputs, in fp32."""
    weight, bias = linear.weight.detach().double().numpy().T.copy(), linear.bias.detach()

    def forward(x):
        rows = x.reshape(-1, x.shape[-1]).double().numpy()
        total = np.zeros((rows.shape[0], weight.shape[1]), np.float32)
        for k in range(rows.shape[1]):
            total = (total + np.multiply.outer(rows[:, k], weight[k])).astype(np.float32)  # exact, then rounded once
        return (torch.from_numpy(total) + bias).view(*x.shape[:-1], -1)

    return forward


@slow
def test_the_rounding_is_that_of_long_sums(model, trace):
    """Candle's errors (against float64) go with those of a left-to-right summation, and not with torch's."""
    first = {name: value[:, :8] for name, value in trace.items()}  # a token sees only those before it
    torchs = encoded(model, first)
    exact = encoded(model.double(), first)
    model.float()  # lossless both ways
    model.set_attn_processor(CandleAttention())
    for norm in norms(model):
        norm.forward = candle_norm(norm)
    for linear in linears(model):
        linear.forward = chained_linear(linear)
    errors = [
        (value - exact).flatten()
        for value in (first["text_encoder|out.last_hidden_state"], encoded(model, first), torchs)
    ]
    candle, chained, other = (error / error.norm() for error in errors)
    assert float(candle @ chained) > 0.3
    assert abs(float(candle @ other)) < 0.2


def with_exact_gelu(model):
    for module in model.modules():
        if isinstance(module, CLIPMLP):
            module.activation_fn = torch.nn.functional.gelu


@slow
@pytest.mark.parametrize(
    ("mistake", "least"),
    [
        (lambda model: [setattr(norm, "eps", 1e-6) for norm in norms(model)], 6e-6),
        (with_exact_gelu, 5e-3),
    ],
    ids=["eps 1e-6", "gelu instead of quick_gelu"],
)  # fmt: skip
def test_the_trace_shows_mistakes(model, trace, mistake, least):
    mistake(model)
    assert relative_l2(encoded(model, trace), trace["text_encoder|out.last_hidden_state"]) > least
