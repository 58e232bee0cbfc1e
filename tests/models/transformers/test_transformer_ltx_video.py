"""LTX-Video's transformer beside diffusers' with the same weights: modules, gradients, published configs, errors."""

import json
from pathlib import Path

import diffusers
import pytest
import torch

import lockstep
from helpers import assert_close, relative_l2
from lockstep import LTXVideoTransformer3DModel
from lockstep.errors import ConfigError, InputError
from lockstep.models.transformers import transformer_ltx_video
from models.testing import BaseModelTesterConfig, Everything
from models.transformers.test_transformers_against_diffusers import flat, outputs_of_modules, sides

KINDS = LTXVideoTransformer3DModel, diffusers.LTXVideoTransformer3DModel
PUBLISHED = Path(__file__).parents[2] / "fixtures" / "transformer_configs"
TINY = {
    "in_channels": 6, "out_channels": 6, "num_attention_heads": 2, "attention_head_dim": 12,
    "cross_attention_dim": 24, "num_layers": 3, "caption_channels": 16,
}  # fmt: skip
CONFIGS = {
    "published structure": TINY,
    "numbers left over by three axes": {**TINY, "attention_head_dim": 14, "cross_attention_dim": 28, "num_layers": 1},
    "norms with weights": {**TINY, "norm_elementwise_affine": True, "norm_eps": 1e-4, "num_layers": 1},
    "makes more than it reads": {**TINY, "out_channels": 9, "num_layers": 1},
}


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def inputs(config=TINY, batch=2, grid=(2, 3, 5), text=7, **more):
    tokens = grid[0] * grid[1] * grid[2]
    mask = torch.ones(batch, text, dtype=torch.bool)
    mask[-1, 3:] = False
    given = {
        "hidden_states": drawn(batch, tokens, config["in_channels"]),
        "encoder_hidden_states": drawn(batch, text, config["caption_channels"], seed=1),
        "timestep": torch.linspace(200.0, 900.0, batch),
        "encoder_attention_mask": mask,
        "num_frames": grid[0], "height": grid[1], "width": grid[2], "rope_interpolation_scale": (8 / 25, 32, 32),
    }  # fmt: skip
    return {**given, **more}


def first_frame_clean(batch=2, grid=(2, 3, 5)):
    times = torch.linspace(200.0, 900.0, batch)[:, None].repeat(1, grid[0] * grid[1] * grid[2])
    times[:, : grid[1] * grid[2]] = 0.0
    return times


CASES = {
    "plain": {},
    "one": {"batch": 1, "grid": (1, 1, 1)},
    "odd": {"grid": (3, 1, 7), "text": 1},
    "a time for each token": {"timestep": first_frame_clean()},
    "no scale": {"rope_interpolation_scale": None},
    "places given": {"video_coords": drawn(2, 3, 30, seed=5).abs() * 300},
    "a bias in place of a mask": {"encoder_attention_mask": drawn(2, 1, 7, seed=6)},
}


class LTXConfig(BaseModelTesterConfig):
    model_class, reference_class = LTXVideoTransformer3DModel, diffusers.LTXVideoTransformer3DModel

    def init_dict(self):
        return TINY

    def inputs(self):
        return inputs()


class TestLTXVideoTransformer3DModel(LTXConfig, Everything):
    pass


def assert_every_module(config, given):
    ours, theirs = sides(*KINDS, config)
    mine, wanted = (outputs_of_modules(side, given) for side in (ours, theirs))
    compared = 0
    for path in (set(mine) & set(wanted)) - {""}:
        for got, other in zip(flat(mine[path]), flat(wanted[path]), strict=True):
            assert_close(got.flatten(), other.flatten(), 1e-5, path)
            compared += 1
    blocks = [path for path in mine if path.startswith("transformer_blocks.") and path.count(".") == 1]
    assert len(blocks) == config["num_layers"]
    assert compared > 15 * len(blocks)
    assert_close(mine[""][0], wanted[""][0], 1e-5, "output")
    for seen in (mine, wanted):
        (seen[""][0] * torch.linspace(-1, 1, seen[""][0].numel()).view_as(seen[""][0])).sum().backward()
    others = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        if float(others[name].grad.norm()) > 1e-4:  # a bias that moves all keys alike has none
            assert_close(parameter.grad, others[name].grad, 1e-5, f"gradient of {name}")


@pytest.mark.parametrize("case", list(CASES))
def test_every_module_and_gradient(case):
    assert_every_module(TINY, inputs(**CASES[case]))


@pytest.mark.parametrize("name", list(CONFIGS))
def test_every_config(name):
    assert_every_module(CONFIGS[name], inputs(CONFIGS[name]))


PLANTED = {
    "angles in another order": ("WHOLE", (20, 2048, 1024)),
    "norms of queries by another eps": ("QK_EPS", 1e-2),
    "tokens that do not count, counted": ("MASKED", 0.0),
}


@pytest.mark.parametrize("error", list(PLANTED))
def test_a_planted_error_is_seen(monkeypatch, error):
    name, value = PLANTED[error]
    monkeypatch.setattr(transformer_ltx_video, name, value)
    with pytest.raises(AssertionError, match="relative L2"):
        assert_every_module(TINY, inputs())


@pytest.mark.parametrize(("name", "billions"), [("LTX-Video", 1.92), ("LTX-Video-0.9.7-dev", 13.04)])
def test_names_and_shapes_of_published_configs(name, billions):
    config = json.loads((PUBLISHED / f"{name}.json").read_text())
    ours = lockstep.LTXVideoTransformer3DModel.on_meta(config)
    with torch.device("meta"):
        theirs = diffusers.LTXVideoTransformer3DModel.from_config(config)
    shapes = [{name: tuple(t.shape) for name, t in side.state_dict().items()} for side in (ours, theirs)]
    assert shapes[0] == shapes[1]
    assert round(ours.num_parameters() / 1e9, 2) == billions


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_as_far_from_fp32_as_theirs(dtype):
    ours, theirs = sides(*KINDS, TINY)
    given = inputs()
    half = {**given, **{name: given[name].to(dtype) for name in ("hidden_states", "encoder_hidden_states")}}
    with torch.no_grad():
        exact = ours(**given)[0]
        got, wanted = (side.to(dtype)(**half)[0] for side in (ours, theirs))
    assert relative_l2(got, exact) <= 1.2 * relative_l2(wanted, exact)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"cross_attention_dim": 16}, "cross_attention_dim is 24"),
        ({"qk_norm": "rms_norm"}, "qk_norm"),
        ({"attention_bias": False}, "attention_bias"),
        ({"attention_head_dim": 1, "cross_attention_dim": 2}, "three axes"),
        ({"num_layers": -1}, "num_layers"),
    ],
)
def test_configs_that_do_not_fit(changes, word):
    with pytest.raises(ConfigError, match=word):
        LTXVideoTransformer3DModel(**{**TINY, **changes})


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"hidden_states": drawn(2, 30, 5)}, "channels 6"),
        ({"encoder_hidden_states": drawn(2, 7, 15)}, "width 16"),
        ({"num_frames": 3}, "30 tokens"),
        ({"width": None}, "30 tokens"),
        ({"timestep": torch.ones(3)}, "each of 2 samples"),
        ({"encoder_attention_mask": torch.ones(2, 6)}, "whether it counts"),
        ({"video_coords": torch.ones(2, 3, 29)}, "video_coords"),
        ({"attention_kwargs": {"scale": 1.0}}, "set_adapters"),
    ],
)
def test_inputs_that_do_not_fit(changes, word):
    with pytest.raises(InputError, match=word):
        LTXVideoTransformer3DModel(**TINY)(**{**inputs(), **changes})
