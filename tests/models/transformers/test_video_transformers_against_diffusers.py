"""The transformers of Wan and Helios beside diffusers' with the same weights."""

import diffusers
import pytest
import torch

from helpers import assert_close, relative_l2
from lockstep import HeliosTransformer3DModel, WanTransformer3DModel
from lockstep.errors import ConfigError, InputError
from models.testing import BaseModelTesterConfig
from models.transformers.test_transformers_against_diffusers import (
    Everything,
    drawn,
    flat,
    outputs_of_modules,
    sides,
)

# every tensor is as many bytes as a cache line has, or several: a file keeps them in step
WAN = {
    "num_attention_heads": 2, "attention_head_dim": 16, "in_channels": 4, "out_channels": 4, "text_dim": 16,
    "freq_dim": 16, "ffn_dim": 32, "num_layers": 2, "rope_max_seq_len": 32,
}  # fmt: skip
IMAGE = {**WAN, "in_channels": 9, "image_dim": 16, "added_kv_proj_dim": 32}
HELIOS = {**{k: v for k, v in WAN.items() if k != "rope_max_seq_len"}, "rope_dim": (4, 6, 6)}
WAN_CONFIGS = {
    "Wan text": WAN,
    "Wan image": IMAGE,
    "Wan first and last frame": {**IMAGE, "pos_embed_seq_len": 10},
    "Wan 2.2 image": {**WAN, "in_channels": 9},
    "Wan 2.2 5B, a time for each token": WAN,
    "Wan without a norm before the text": {**WAN, "cross_attn_norm": False, "patch_size": (2, 2, 2)},
}
HELIOS_CONFIGS = {
    "Helios": HELIOS,
    "Helios, first chunk": HELIOS,
    "Helios, amplified": {**HELIOS, "is_amplify_history": True},
    "Helios, amplified alike, text and time for all": {
        **HELIOS,
        "is_amplify_history": True,
        "history_scale_mode": "scalar",
        "guidance_cross_attn": False,
        "zero_history_timestep": False,
    },
}


def wan_inputs(config, name, batch=2, frames=2, rows=6, columns=10):
    images = 2 if config.get("pos_embed_seq_len") else 1
    tokens = frames // config.get("patch_size", (1, 2, 2))[0] * rows * columns // 4
    inputs = {
        "hidden_states": drawn(batch, config["in_channels"], frames, rows, columns),
        "encoder_hidden_states": drawn(batch, 512 if "image_dim" in config else 7, config["text_dim"], seed=1),
        "timestep": torch.tensor([900, 250][:batch]),
    }
    if "each token" in name:
        inputs["timestep"] = torch.linspace(0, 999, batch * tokens).view(batch, tokens)
    if "image_dim" in config:
        inputs["encoder_hidden_states_image"] = drawn(batch * images, 5, config["image_dim"], seed=2)
    return inputs


def helios_inputs(config, name, batch=2, frames=3, rows=6, columns=10):
    inputs = {
        "hidden_states": drawn(batch, 4, frames, rows, columns),
        "encoder_hidden_states": drawn(batch, 7, config["text_dim"], seed=1),
        "timestep": torch.tensor([900, 250][:batch]),
    }
    if "first chunk" in name:
        return inputs
    inputs["indices_hidden_states"] = torch.arange(20, 20 + frames)[None]
    for part, start, length in (("short", 18, 2), ("mid", 16, 2), ("long", 0, 16)):
        inputs[f"latents_history_{part}"] = drawn(batch, 4, length, rows, columns, seed=start)
        inputs[f"indices_latents_history_{part}"] = torch.arange(start, start + length)[None]
    return inputs


CASES = [
    *[(WanTransformer3DModel, diffusers.WanTransformer3DModel, c, wan_inputs, n) for n, c in WAN_CONFIGS.items()],
    *[
        (HeliosTransformer3DModel, diffusers.HeliosTransformer3DModel, c, helios_inputs, n)
        for n, c in HELIOS_CONFIGS.items()
    ],
]
# one number, whose gradient is a sum of terms that cancel: the reference's own in fp32 is 8.7e-5 from that in fp64
CANCELLING = "history_key_scale"
OTHERWISE = ("condition_embedder", "norm_out")  # called in another way; what they make is compared further on


@pytest.mark.parametrize(("kind", "reference", "config", "inputs", "name"), CASES, ids=[case[-1] for case in CASES])
def test_every_module_and_gradient(kind, reference, config, inputs, name):
    ours, theirs = sides(kind, reference, config)
    mine, wanted = (outputs_of_modules(side, inputs(config, name)) for side in (ours, theirs))
    compared = 0
    for path, output in mine.items():
        if path in wanted and path and path not in OTHERWISE:
            for got, other in zip(flat(output), flat(wanted[path]), strict=True):
                assert_close(got, other, 1e-5, path)
                compared += 1
    assert {f"blocks.{index}" for index in range(2)} <= set(mine) & set(wanted)
    assert compared > 30
    weights = torch.linspace(-1, 1, mine[""][0].numel()).view_as(mine[""][0])
    for seen in (mine, wanted):
        assert_close(seen[""][0], wanted[""][0], 1e-5, "output")
        (seen[""][0] * weights).sum().backward()
    others = dict(theirs.named_parameters())
    for path, parameter in ours.named_parameters():
        if others[path].grad is not None and float(others[path].grad.norm()) > 1e-4:  # a bias can move all keys alike
            tolerance = 1e-4 if path.endswith(CANCELLING) else 1e-5
            assert_close(parameter.grad, others[path].grad, tolerance, f"gradient of {path}")


@pytest.mark.parametrize(("kind", "reference", "config", "inputs", "name"), CASES[::6], ids=["Wan", "Helios"])
def test_half_precision_is_as_far_from_fp32_as_theirs(kind, reference, config, inputs, name, tmp_path):
    """Loaded from a folder, as the norms and tables that stay in fp32 are known there."""
    ours, _ = sides(kind, reference, config)
    ours.save_pretrained(tmp_path)
    given = inputs(config, name)
    half = {n: v.bfloat16() if v.is_floating_point() else v for n, v in given.items()}
    low, low_theirs = (k.from_pretrained(tmp_path, torch_dtype=torch.bfloat16) for k in (kind, reference))
    kept = {n for n, p in low.named_parameters() if p.dtype == torch.float32}
    assert kept == {n for n, p in low_theirs.named_parameters() if p.dtype == torch.float32}
    assert low.dtype == low_theirs.dtype == torch.bfloat16
    with torch.no_grad():
        exact = ours(**given)[0]
        got, wanted = low(**half)[0], low_theirs(**half)[0]
    assert relative_l2(got, exact) <= 1.2 * relative_l2(wanted, exact)


def test_what_does_not_fit_is_named():
    with pytest.raises(ConfigError, match="patch_size"):
        WanTransformer3DModel(**{**WAN, "patch_size": (2, 2)})
    with pytest.raises(ConfigError, match="qk_norm"):
        WanTransformer3DModel(**{**WAN, "qk_norm": "layer_norm"})
    with pytest.raises(ConfigError, match="rope_dim"):
        HeliosTransformer3DModel(**{**HELIOS, "rope_dim": (4, 4, 2)})
    with pytest.raises(ConfigError, match="history_scale_mode"):
        HeliosTransformer3DModel(**{**HELIOS, "history_scale_mode": "per_row"})
    model, inputs = WanTransformer3DModel(**WAN), wan_inputs(WAN, "")
    for name, value, word in (
        ("hidden_states", drawn(2, 5, 2, 6, 10), "channels 4"),
        ("hidden_states", drawn(2, 4, 2, 7, 10), "multiples"),
        ("hidden_states", drawn(2, 4, 2, 2, 66), "32 places"),
        ("encoder_hidden_states", drawn(2, 7, 9), "width 16"),
        ("timestep", torch.zeros(2, 3), "tokens"),
        ("encoder_hidden_states_image", drawn(2, 5, 16), "image_dim"),
        ("attention_kwargs", {"scale": 1.0}, "set_adapters"),
    ):
        with pytest.raises(InputError, match=word):
            model(**{**inputs, name: value})
    model, inputs = HeliosTransformer3DModel(**HELIOS), helios_inputs(HELIOS, "")
    with pytest.raises(InputError, match="latents_history_short"):
        model(**{**inputs, "latents_history_short": None})
    with pytest.raises(InputError, match="latents_history_mid"):
        model(**{**inputs, "latents_history_mid": drawn(2, 3, 2, 6, 10)})


class WanConfig(BaseModelTesterConfig):
    model_class, reference_class = WanTransformer3DModel, diffusers.WanTransformer3DModel

    def init_dict(self):
        return WAN_CONFIGS["Wan first and last frame"]

    def inputs(self):
        return wan_inputs(self.init_dict(), "")


class HeliosConfig(BaseModelTesterConfig):
    model_class, reference_class = HeliosTransformer3DModel, diffusers.HeliosTransformer3DModel

    def init_dict(self):
        return HELIOS

    def inputs(self):
        return helios_inputs(self.init_dict(), "")


class TestWanTransformer3DModel(WanConfig, Everything):
    pass


class TestHeliosTransformer3DModel(HeliosConfig, Everything):
    pass
