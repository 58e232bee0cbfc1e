"""Z-Image's transformer beside diffusers' with the same weights: every module, gradients, published configs, errors."""

import json
from pathlib import Path

import diffusers
import pytest
import torch

import lockstep
from helpers import assert_close, relative_l2
from lockstep import ZImageTransformer2DModel
from lockstep.errors import ConfigError, InputError, UnsupportedError
from lockstep.models.transformers import transformer_z_image
from models.testing import (
    BaseModelTesterConfig,
    Everything,
)
from models.transformers.test_transformers_against_diffusers import outputs_of_modules, sides

KINDS = ZImageTransformer2DModel, diffusers.ZImageTransformer2DModel
PUBLISHED = Path(__file__).parents[2] / "fixtures" / "transformer_configs"
TINY = {
    "in_channels": 4, "dim": 24, "n_layers": 3, "n_refiner_layers": 2, "n_heads": 2, "n_kv_heads": 2,
    "cap_feat_dim": 16, "axes_dims": (4, 4, 4), "axes_lens": (256, 32, 32),
}  # fmt: skip
CONFIGS = {
    "published structure": TINY,
    "no norm of queries": {**TINY, "qk_norm": False, "n_refiner_layers": 1},
    "axes of other widths": {**TINY, "axes_dims": (2, 6, 4), "rope_theta": 10_000.0, "t_scale": 1.0},
    "wider than its conditions": {**TINY, "dim": 288, "axes_dims": (48, 48, 48), "n_layers": 1, "n_refiner_layers": 1},
    "two kinds of patches": {**TINY, "all_patch_size": (2, 4), "all_f_patch_size": (1, 2)},
}
SHAPES = {  # of the pictures and lengths of the texts
    "one": ([(4, 1, 8, 6)], [7]),
    "one of each size": ([(4, 1, 8, 6), (4, 1, 8, 6)], [7, 7]),
    "whole groups": ([(4, 1, 8, 16), (4, 1, 8, 16)], [32, 64]),
    "texts of two lengths": ([(4, 1, 6, 10), (4, 1, 6, 10)], [40, 3]),
    "pictures of two sizes": ([(4, 1, 16, 10), (4, 1, 4, 4), (4, 1, 6, 2)], [1, 50, 33]),
    "frames": ([(4, 2, 8, 4)], [5]),
}


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def inputs(shapes="texts of two lengths", width=16):
    pictures, texts = SHAPES[shapes]
    return {
        "x": [drawn(*shape, seed=k) for k, shape in enumerate(pictures)],
        "t": torch.linspace(0.15, 0.85, len(pictures)),
        "cap_feats": [drawn(length, width, seed=10 + k) for k, length in enumerate(texts)],
    }


class ZImageConfig(BaseModelTesterConfig):
    model_class, reference_class = ZImageTransformer2DModel, diffusers.ZImageTransformer2DModel
    config = TINY

    def init_dict(self):
        return self.config

    def inputs(self):
        return inputs()

    def output(self, model, **inputs):
        return torch.cat([one.flatten() for one in model(**inputs)[0]])


class TestZImageTransformer2DModel(ZImageConfig, Everything):
    pass


def counted(path, output, given):
    """Of the texts' own blocks the tokens that are attended to; what lies behind, theirs turns by leftover places."""
    if not path.startswith("context_refiner."):
        return [output]
    return [row[: len(text) + -len(text) % 32] for row, text in zip(output, given["cap_feats"], strict=True)]


def assert_every_module(config, given):
    ours, theirs = sides(*KINDS, config)
    mine, wanted = (outputs_of_modules(side, given) for side in (ours, theirs))
    compared = 0
    for path, output in mine.items():
        if isinstance(output, torch.Tensor) and isinstance(wanted.get(path), torch.Tensor):
            for got, other in zip(*(counted(path, side, given) for side in (output, wanted[path])), strict=True):
                assert_close(got, other, 1e-5, path)
            compared += 1
    blocks = [path for path in mine if path.count(".") == 1 and path.startswith(("layers", "noise", "context"))]
    assert len(blocks) == config["n_layers"] + 2 * config["n_refiner_layers"]
    assert set(blocks) < set(wanted)
    assert compared > 15 * len(blocks)
    for got, other in zip(mine[""][0], wanted[""][0], strict=True):
        assert_close(got, other, 1e-5, "output")
    for seen in (mine, wanted):
        flat = torch.cat([one.flatten() for one in seen[""][0]])
        (flat * torch.linspace(-1, 1, flat.numel())).sum().backward()
    others = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        if others[name].grad is None:
            assert parameter.grad is None, name
        elif float(others[name].grad.norm()) > 1e-4:
            assert_close(parameter.grad, others[name].grad, 1e-5, f"gradient of {name}")


@pytest.mark.parametrize("shapes", list(SHAPES))
def test_every_module_and_gradient(shapes):
    assert_every_module(TINY, inputs(shapes))


@pytest.mark.parametrize("name", list(CONFIGS))
def test_every_config(name):
    assert_every_module(CONFIGS[name], inputs())


def test_other_patches():
    ours, theirs = sides(*KINDS, CONFIGS["two kinds of patches"])
    given = {**inputs("frames"), "x": [drawn(4, 2, 8, 12)], "patch_size": 4, "f_patch_size": 2}
    with torch.no_grad():
        assert_close(ours(**given)[0][0], theirs(**given)[0][0], 1e-5)


def test_a_batch_is_a_list_too():
    ours, _ = sides(*KINDS, TINY)
    given = inputs("one of each size")
    stacked = {**given, "x": torch.stack(given["x"]), "cap_feats": torch.stack(given["cap_feats"])}
    with torch.no_grad():
        assert all(map(torch.equal, ours(**given).sample, ours(**stacked).sample))


@pytest.mark.parametrize("name", ["Z-Image", "Z-Image-Turbo"])
def test_names_and_shapes_of_published_configs(name):
    config = json.loads((PUBLISHED / f"{name}.json").read_text())
    ours = lockstep.ZImageTransformer2DModel.on_meta(config)
    with torch.device("meta"):
        theirs = diffusers.ZImageTransformer2DModel.from_config(config)
    shapes = [{name: tuple(t.shape) for name, t in side.state_dict().items()} for side in (ours, theirs)]
    assert shapes[0] == shapes[1]
    assert round(ours.num_parameters() / 1e9, 2) == 6.15


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_as_far_from_fp32_as_theirs(dtype):
    ours, theirs = sides(*KINDS, TINY)

    def made(model, given):
        return torch.cat([one.flatten().float() for one in model(**given)[0]])

    with torch.no_grad():
        exact, given = made(ours, inputs()), inputs()
        half = {**given, **{name: [one.to(dtype) for one in given[name]] for name in ("x", "cap_feats")}}
        got, wanted = made(ours.to(dtype), half), made(theirs.to(dtype), half)
    assert relative_l2(got, exact) <= 1.2 * relative_l2(wanted, exact)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"axes_dims": (4, 4, 2)}, r"axes_dims.*12"),
        ({"axes_lens": (8, 8)}, "axes_lens"),
        ({"n_heads": 5}, "n_heads"),
        ({"all_f_patch_size": (1, 1)}, "all_patch_size"),
        ({"n_layers": -1}, "n_layers"),
    ],
)
def test_configs_that_do_not_fit(changes, word):
    with pytest.raises(ConfigError, match=word):
        ZImageTransformer2DModel(**{**TINY, **changes})


def test_omni_is_named():
    with pytest.raises(UnsupportedError, match="Omni"):
        ZImageTransformer2DModel(**{**TINY, "siglip_feat_dim": 8})


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"x": [drawn(5, 1, 8, 6)] * 2}, "channels 4"),
        ({"x": [drawn(4, 1, 7, 6)] * 2}, "patches"),
        ({"x": [drawn(4, 1, 80, 6)] * 2}, "places for"),
        ({"cap_feats": [drawn(300, 16)] * 2}, "places for"),
        ({"cap_feats": [drawn(0, 16)] * 2}, "places for"),
        ({"cap_feats": [drawn(5, 15)] * 2}, "width 16"),
        ({"cap_feats": [drawn(5, 16)]}, "2 pictures, 1 texts"),
        ({"t": torch.ones(3)}, "3 times"),
        ({"patch_size": 3}, "patches"),
        ({"joint_attention_kwargs": {"scale": 1.0}}, "set_adapters"),
    ],
)
def test_inputs_that_do_not_fit(changes, word):
    with pytest.raises(InputError, match=word):
        ZImageTransformer2DModel(**TINY)(**{**inputs("one of each size"), **changes})


PLANTED = {
    "sequences filled up to another number": ("GROUP", 16),
    "rows and columns exchanged": ("grid_places", lambda grid, start: places(grid, start)[:, [0, 2, 1]]),
    "pictures begin where texts do": ("grid_places", lambda grid, start: places(grid, 1)),
    "turned the other way": ("rotate", lambda x, table, *more: turned(x, (table[0], -table[1]), *more)),
}
places, turned = transformer_z_image.grid_places, transformer_z_image.rotate


@pytest.mark.parametrize("error", list(PLANTED))
def test_a_planted_error_is_seen(monkeypatch, error):
    monkeypatch.setattr(transformer_z_image, *PLANTED[error])
    with pytest.raises(AssertionError, match=r"relative L2|shapes differ"):
        assert_every_module(TINY, inputs())
