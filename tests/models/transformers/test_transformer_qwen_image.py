"""Qwen-Image's transformer beside diffusers' with the same weights: modules, gradients, published config, errors."""

import json
from pathlib import Path

import diffusers
import pytest
import torch

from helpers import assert_close, relative_l2
from lockstep import QwenImageTransformer2DModel
from lockstep.errors import ConfigError, InputError, UnsupportedError
from models.testing import BaseModelTesterConfig, Everything
from models.transformers.test_transformers_against_diffusers import drawn, flat, outputs_of_modules, sides

KINDS = QwenImageTransformer2DModel, diffusers.QwenImageTransformer2DModel
PUBLISHED = Path(__file__).parents[2] / "fixtures" / "transformer_configs" / "Qwen-Image.json"
TINY = {
    "in_channels": 16, "out_channels": 4, "num_layers": 3, "attention_head_dim": 12, "num_attention_heads": 2,
    "joint_attention_dim": 16, "axes_dims_rope": (4, 4, 4),
}  # fmt: skip
CONFIGS = {
    "published structure": TINY,
    "edited pictures at time 0": {**TINY, "zero_cond_t": True},
    "axes of other widths": {**TINY, "axes_dims_rope": (2, 6, 4), "patch_size": 1, "out_channels": 16, "num_layers": 1},
    "layers": {**TINY, "use_additional_t_cond": True, "use_layer3d_rope": True, "num_layers": 1},
}
SHAPES = {  # frames, rows and columns of the pictures
    "one": [(1, 4, 3)],
    "edited": [(1, 3, 5), (1, 2, 4)],
    "two edited": [(1, 3, 3), (1, 7, 2), (1, 2, 5)],
    "frames": [(2, 3, 2)],
}
COUNTED = {"every token": None, "texts of two lengths": [[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1]]}


def inputs(shapes="edited", counted="texts of two lengths", batch=2):
    tokens = sum(frames * rows * columns for frames, rows, columns in SHAPES[shapes])
    mask = COUNTED[counted]
    return {
        "hidden_states": drawn(batch, tokens, 16),
        "encoder_hidden_states": drawn(batch, 6, 16, seed=1),
        "encoder_hidden_states_mask": None if mask is None else torch.tensor(mask[-batch:]),
        "timestep": torch.linspace(0.2, 0.9, batch),
        "img_shapes": [SHAPES[shapes]] * batch,
    }


class QwenImageConfig(BaseModelTesterConfig):
    model_class, reference_class = KINDS

    def init_dict(self):
        return {**TINY, "num_layers": 2}

    def inputs(self):
        return inputs("one")

    def may_lack_gradient(self, name):
        return (name.startswith("transformer_blocks.1.") and "txt" in name) or "to_add_out" in name


class TestQwenImageTransformer2DModel(QwenImageConfig, Everything):
    pass


def assert_every_module(config, given):
    ours, theirs = sides(*KINDS, config)
    mine, wanted = (outputs_of_modules(side, given) for side in (ours, theirs))
    counted, compared = given["encoder_hidden_states_mask"], 0
    for path in (set(mine) & set(wanted)) - {""}:
        for got, other in zip(flat(mine[path]), flat(wanted[path]), strict=True):
            if counted is not None and got.shape[:2] == counted.shape:  # nobody attends to the rest of a text
                got, other = (side[counted.bool()] for side in (got, other))
            assert_close(got, other, 1e-5, path)
            compared += 1
    assert_close(mine[""][0], wanted[""][0], 1e-5, "output")
    blocks = [path for path in mine if "blocks." in path and path.count(".") == 1]
    assert len(blocks) == config["num_layers"]
    assert set(blocks) < set(wanted)
    assert compared > 20 * len(blocks)
    weights = torch.linspace(-1, 1, mine[""][0].numel()).view_as(mine[""][0])
    for seen in (mine, wanted):
        (seen[""][0] * weights).sum().backward()
    others = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        if others[name].grad is not None and float(others[name].grad.norm()) > 1e-4:
            assert_close(parameter.grad, others[name].grad, 1e-5, f"gradient of {name}")


@pytest.mark.parametrize("counted", list(COUNTED))
@pytest.mark.parametrize("shapes", list(SHAPES))
def test_every_module_and_gradient(shapes, counted):
    assert_every_module(TINY, inputs(shapes, counted))


@pytest.mark.parametrize("name", list(CONFIGS))
def test_every_config(name):
    given = inputs("edited")
    if name == "layers":
        given["additional_t_cond"] = torch.tensor([0, 1])
    assert_every_module(CONFIGS[name], given)


def test_one_sample_and_shapes_without_a_list():
    ours, theirs = sides(*KINDS, TINY)
    given = inputs("one", "every token", batch=1)
    with torch.no_grad():
        assert_close(ours(**given)[0], theirs(**given)[0], 1e-5)
        single = {**given, "img_shapes": [(1, 4, 3)]}
        assert torch.equal(ours(**single)[0], ours(**given)[0])


def test_residuals_of_a_controlnet():
    ours, theirs = sides(*KINDS, TINY)
    for count in (1, 2, 3):
        given = inputs("one")
        given["controlnet_block_samples"] = [drawn(2, 12, 24, seed=k) for k in range(count)]
        with torch.no_grad():
            assert_close(ours(**given)[0], theirs(**given)[0], 1e-5)


def test_places_of_large_pictures():
    """Angles are computed in fp32 as they were taught: at 4000 places, exact ones would differ in the fourth digit."""
    ours, theirs = sides(*KINDS, {**TINY, "num_layers": 1})
    shapes = [(1, 1, 3000)]
    given = {**inputs("one"), "hidden_states": drawn(2, 3000, 16), "img_shapes": [shapes] * 2}
    with torch.no_grad():
        assert_close(ours(**given)[0], theirs(**given)[0], 1e-5)


def test_names_and_shapes_of_the_published_config():
    config = json.loads(PUBLISHED.read_text())
    ours = QwenImageTransformer2DModel.on_meta(config)
    with torch.device("meta"):
        theirs = diffusers.QwenImageTransformer2DModel.from_config(config)
    shapes = [{name: tuple(t.shape) for name, t in side.state_dict().items()} for side in (ours, theirs)]
    assert shapes[0] == shapes[1]
    assert round(ours.num_parameters() / 1e9, 2) == 20.43


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_as_far_from_fp32_as_theirs(dtype):
    ours, theirs = sides(*KINDS, TINY)
    given = inputs()
    half = {**given, **{name: given[name].to(dtype) for name in ("hidden_states", "encoder_hidden_states")}}
    with torch.no_grad():
        exact = ours(**given)[0]
        got, wanted = ours.to(dtype)(**half)[0].float(), theirs.to(dtype)(**half)[0].float()
    assert relative_l2(got, exact) <= 1.2 * relative_l2(wanted, exact)


@pytest.mark.parametrize(
    ("changes", "word"),
    [({"axes_dims_rope": (4, 4, 2)}, r"axes_dims_rope.*12"), ({"num_layers": -1}, "num_layers")],
)
def test_configs_that_do_not_fit(changes, word):
    with pytest.raises(ConfigError, match=word):
        QwenImageTransformer2DModel(**{**TINY, **changes})


def test_a_taught_guidance_scale_is_named():
    with pytest.raises(UnsupportedError, match="guidance_embeds"):
        QwenImageTransformer2DModel(**{**TINY, "guidance_embeds": True})


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"hidden_states": drawn(2, 12, 15)}, "channels 16"),
        ({"encoder_hidden_states": drawn(2, 6, 15)}, "width 16"),
        ({"encoder_hidden_states_mask": torch.ones(2, 5)}, "a word for each token"),
        ({"timestep": None}, "2 values"),
        ({"timestep": torch.ones(3)}, "2 values"),
        ({"img_shapes": None}, "img_shapes is missing"),
        ({"img_shapes": [[(1, 4, 4)]] * 2}, "16 tokens"),
        ({"img_shapes": [[(1, 4, 3)], [(1, 3, 4)]]}, "same sizes"),
        ({"guidance": torch.ones(2)}, "guidance"),
        ({"additional_t_cond": torch.ones(2)}, "additional_t_cond"),
        ({"attention_kwargs": {"scale": 1.0}}, "set_adapters"),
    ],
)
def test_inputs_that_do_not_fit(changes, word):
    with pytest.raises(InputError, match=word):
        QwenImageTransformer2DModel(**TINY)(**{**inputs("one"), **changes})
