"""The transformers of Flux and Stable Diffusion 3 beside diffusers' with the same weights."""

import json
from pathlib import Path

import diffusers
import pytest
import torch

from helpers import assert_close, relative_l2
from lockstep import FluxControlNetModel, FluxTransformer2DModel, SD3ControlNetModel, SD3Transformer2DModel
from lockstep.errors import ConfigError, InputError
from models.testing import (
    BaseModelTesterConfig,
    Everything,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*FluxPosEmbed.*:FutureWarning")  # theirs uses what it deprecates
PUBLISHED = Path(__file__).parents[2] / "fixtures" / "transformer_configs"
FLUX = {
    "in_channels": 8, "num_layers": 2, "num_single_layers": 3, "attention_head_dim": 12, "num_attention_heads": 2,
    "joint_attention_dim": 16, "pooled_projection_dim": 10, "axes_dims_rope": (4, 4, 4),
}  # fmt: skip
SD3 = {
    "sample_size": 8, "in_channels": 4, "out_channels": 4, "num_layers": 3, "attention_head_dim": 8,
    "num_attention_heads": 2, "joint_attention_dim": 16, "caption_projection_dim": 16, "pooled_projection_dim": 10,
    "pos_embed_max_size": 12,
}  # fmt: skip
FLUX_CONFIGS = {
    "schnell": FLUX,
    "dev": {**FLUX, "guidance_embeds": True},
    "Fill": {**FLUX, "in_channels": 24, "out_channels": 8, "guidance_embeds": True},
    "more axes than places": {**FLUX, "axes_dims_rope": (2, 6, 4), "num_single_layers": 1},
}
SD3_CONFIGS = {
    "3 medium": SD3,
    "3.5 large": {**SD3, "qk_norm": "rms_norm"},
    "3.5 medium": {**SD3, "qk_norm": "rms_norm", "dual_attention_layers": (0, 1)},
    "every layer dual": {**SD3, "dual_attention_layers": (0, 1, 2)},
}


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def flux_inputs(config, batch=2, rows=3, columns=5, text=6):
    """A picture of rows × columns tokens; odd sizes, other places than 0 for the text too."""
    ids = torch.zeros(rows, columns, 3)
    ids[..., 1] += torch.arange(rows)[:, None]
    ids[..., 2] += torch.arange(columns)[None]
    inputs = {
        "hidden_states": drawn(batch, rows * columns, config["in_channels"]),
        "encoder_hidden_states": drawn(batch, text, config["joint_attention_dim"], seed=1),
        "pooled_projections": drawn(batch, config["pooled_projection_dim"], seed=2),
        "timestep": torch.linspace(0.2, 0.9, batch),
        "img_ids": ids.flatten(0, 1),
        "txt_ids": torch.zeros(text, 3),
    }
    if config.get("guidance_embeds"):
        inputs["guidance"] = torch.full((batch,), 3.5)
    return inputs


def sd3_inputs(config, batch=2, rows=6, columns=10, text=5):
    return {
        "hidden_states": drawn(batch, config["in_channels"], rows, columns),
        "encoder_hidden_states": drawn(batch, text, config["joint_attention_dim"], seed=1),
        "pooled_projections": drawn(batch, config["pooled_projection_dim"], seed=2),
        "timestep": torch.linspace(200.0, 900.0, batch),
    }


CASES = [
    *[(FluxTransformer2DModel, diffusers.FluxTransformer2DModel, c, flux_inputs) for c in FLUX_CONFIGS.values()],
    *[(SD3Transformer2DModel, diffusers.SD3Transformer2DModel, c, sd3_inputs) for c in SD3_CONFIGS.values()],
]
NAMES = [*FLUX_CONFIGS, *SD3_CONFIGS]


def sides(kind, reference, config, seed=0):
    """Both models with the same random weights."""

    class Config(BaseModelTesterConfig):
        model_class = kind

        def init_dict(self):
            return config

    ours, theirs = Config().model(seed), reference(**config).eval()
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def outputs_of_modules(model, inputs):
    """What each module gave, by its path; blocks, norms, attentions, layers."""
    seen, handles = {}, []
    for path, module in model.named_modules():
        handles.append(module.register_forward_hook(lambda m, a, out, path=path: seen.__setitem__(path, out)))
    model(**inputs)
    for handle in handles:
        handle.remove()
    return seen


def flat(output):
    if isinstance(output, torch.Tensor):
        return [output]
    return [] if output is None else [tensor for part in output for tensor in flat(part)]


@pytest.mark.parametrize(("kind", "reference", "config", "inputs"), CASES, ids=NAMES)
def test_every_module_and_gradient(kind, reference, config, inputs):
    ours, theirs = sides(kind, reference, config)
    mine, wanted = (outputs_of_modules(side, inputs(config)) for side in (ours, theirs))
    compared = 0
    for path, output in mine.items():
        if not path or path not in wanted:
            continue
        for index, (got, other) in enumerate(zip(flat(output), flat(wanted[path]), strict=True)):
            if got.shape != other.shape:  # theirs has the heads before the tokens
                other = other.transpose(1, 2)
            assert_close(got, other, 1e-5, f"{path} [{index}]")
            compared += 1
    blocks = [path for path in mine if "blocks." in path and path.count(".") == 1]
    assert len(blocks) == len([path for path in wanted if path in blocks]) > 0
    assert compared > 20 * len(blocks)
    weights = torch.linspace(-1, 1, mine[""][0].numel()).view_as(mine[""][0])
    for seen in (mine, wanted):
        assert_close(seen[""][0], wanted[""][0], 1e-5, "output")
        (seen[""][0] * weights).sum().backward()
    others = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        if others[name].grad is None or float(others[name].grad.norm()) < 1e-4:  # a bias that moves all keys alike
            continue
        assert_close(parameter.grad, others[name].grad, 1e-5, f"gradient of {name}")


@pytest.mark.parametrize("residuals", [1, 2, 3])
def test_residuals_of_a_controlnet(residuals):
    ours, theirs = sides(*CASES[1][:3])
    inputs = flux_inputs(FLUX_CONFIGS["dev"])
    parts = [drawn(2, 15, 24, seed=k) for k in range(residuals)]
    for more in (
        {"controlnet_block_samples": parts},
        {"controlnet_single_block_samples": parts},
        {"controlnet_block_samples": parts, "controlnet_blocks_repeat": True},
    ):
        with torch.no_grad():
            assert_close(ours(**inputs, **more)[0], theirs(**inputs, **more)[0])
    ours, theirs = sides(SD3Transformer2DModel, diffusers.SD3Transformer2DModel, SD3)
    inputs, parts = sd3_inputs(SD3), [drawn(2, 15, 16, seed=k) for k in range(residuals)]
    for more in ({"block_controlnet_hidden_states": parts}, {"skip_layers": [1]}, {"skip_layers": [0, 1]}):
        with torch.no_grad():
            assert_close(ours(**inputs, **more)[0], theirs(**inputs, **more)[0])


NETS = {
    "plain": {**FLUX, "num_layers": 2, "num_single_layers": 1, "guidance_embeds": True},
    "without single blocks": {**FLUX, "num_layers": 1, "num_single_layers": 0},
    "union": {**FLUX, "num_layers": 1, "num_single_layers": 1, "num_mode": 5},
    "pixels": {**FLUX, "num_layers": 1, "num_single_layers": 0, "patch_size": 2, "conditioning_embedding_channels": 2},
}


@pytest.mark.parametrize("name", list(NETS))
def test_controlnets_of_flux(name):
    config = NETS[name]
    ours, theirs = sides(FluxControlNetModel, diffusers.FluxControlNetModel, config)
    inputs = flux_inputs(config)
    inputs["controlnet_cond"] = drawn(2, 3, 48, 80, seed=4) if name == "pixels" else drawn(2, 15, 8, seed=4)
    if name == "union":
        inputs["controlnet_mode"] = torch.tensor([[3], [1]])
    got, wanted = (side(**inputs, conditioning_scale=0.7, return_dict=False) for side in (ours, theirs))
    for mine, other in zip(got, wanted, strict=True):
        assert (mine is None) == (other is None)
        for index, (one, two) in enumerate(zip(mine or (), other or (), strict=True)):
            assert_close(one, two, 1e-5, f"residual {index}")
    sum(part.sum() for part in got[0]).backward()
    sum(part.sum() for part in wanted[0]).backward()
    others = dict(theirs.named_parameters())
    for path, parameter in ours.named_parameters():
        if others[path].grad is not None and float(others[path].grad.norm()) > 1e-3:
            assert_close(parameter.grad, others[path].grad, 1e-5, path)
    if name == "union":
        with pytest.raises(InputError, match="5 kinds"):
            ours(**{**inputs, "controlnet_mode": None})


SD3_NETS = {
    "sd3": {**SD3, "num_layers": 2},
    "painting": {**SD3, "num_layers": 2, "extra_conditioning_channels": 1},
    "sd3.5, dual": {**SD3, "num_layers": 2, "qk_norm": "rms_norm", "dual_attention_layers": (0,)},
    "sd3.5 large": {**SD3, "num_layers": 2, "joint_attention_dim": None, "use_pos_embed": False},
    "no positions": {**SD3, "num_layers": 2, "pos_embed_type": None},
}


@pytest.mark.parametrize("name", list(SD3_NETS))
def test_controlnets_of_sd3(name):
    config = SD3_NETS[name]
    ours, theirs = sides(SD3ControlNetModel, diffusers.SD3ControlNetModel, config)
    inputs = sd3_inputs(SD3)
    inputs["controlnet_cond"] = drawn(2, 4 + config.get("extra_conditioning_channels", 0), 6, 10, seed=4)
    if name == "sd3.5 large":
        inputs |= {"hidden_states": drawn(2, 15, 16), "encoder_hidden_states": None}
    (got,), (wanted,) = (side(**inputs, conditioning_scale=0.7, return_dict=False) for side in (ours, theirs))
    for index, (one, two) in enumerate(zip(got, wanted, strict=True)):
        assert_close(one, two, 1e-5, f"residual {index}")
    sum(part.sum() for part in got).backward()
    sum(part.sum() for part in wanted).backward()
    others = dict(theirs.named_parameters())
    for path, parameter in ours.named_parameters():
        if others[path].grad is not None and float(others[path].grad.norm()) > 1e-3:
            assert_close(parameter.grad, others[path].grad, 1e-5, path)
    text = drawn(2, 7, 16) if name == "sd3.5 large" else None
    with pytest.raises(InputError, match="text"):
        ours(**{**inputs, "encoder_hidden_states": text})


def test_a_controlnet_of_sd3_starts_as_the_transformer():
    transformer = SD3Transformer2DModel(**SD3)
    net = SD3ControlNetModel.from_transformer(transformer, num_layers=None, num_extra_conditioning_channels=0)
    assert len(net.transformer_blocks) == len(transformer.transformer_blocks)
    given = {**sd3_inputs(SD3), "controlnet_cond": drawn(2, 4, 6, 10)}
    assert not any(part.any() for part in net(**given).controlnet_block_samples)
    for own, other in zip(net.transformer_blocks, transformer.transformer_blocks, strict=True):
        assert torch.equal(own.ff.net[2].weight, other.ff.net[2].weight)


def test_a_controlnet_starts_as_the_transformer():
    transformer = sides(*CASES[1][:3])[0]
    net = FluxControlNetModel.from_transformer(transformer, num_layers=1, num_single_layers=2)
    inputs = {**flux_inputs(FLUX_CONFIGS["dev"]), "controlnet_cond": drawn(2, 15, 8)}
    assert not any(part.any() for part in net(**inputs).controlnet_block_samples)
    assert torch.equal(net.transformer_blocks[0].ff.net[2].weight, transformer.transformer_blocks[0].ff.net[2].weight)
    assert net.config.num_single_layers == 2


FILES = {path.stem: json.loads(path.read_text()) for path in PUBLISHED.glob("*.json")}
LAYERS = {"num_layers": 6, "num_single_layers": 0}
VARIANTS = {  # published models that differ from one of these files in a few values
    **FILES,
    "FLUX.1-Fill-dev": {**FILES["FLUX.1-dev"], "in_channels": 384, "out_channels": 64},
    "FLUX.1-Depth-dev": {**FILES["FLUX.1-dev"], "in_channels": 128, "out_channels": 64},
    "FLUX.1-dev-ControlNet-Canny": {**FILES["FLUX.1-dev"], "_class_name": "FluxControlNetModel", **LAYERS},
    "stable-diffusion-3-medium": {
        **FILES["stable-diffusion-3.5-medium"],
        "dual_attention_layers": [],
        "qk_norm": None,
        "pos_embed_max_size": 192,
    },
}


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_names_and_shapes_of_published_configs(name):
    config = VARIANTS[name]
    kind = config["_class_name"]
    import lockstep

    ours = getattr(lockstep, kind).on_meta(config)
    with torch.device("meta"):
        theirs = getattr(diffusers, kind).from_config(config)
    shapes = [{name: tuple(t.shape) for name, t in side.state_dict().items()} for side in (ours, theirs)]
    assert shapes[0] == shapes[1]


def test_the_table_of_positions_is_the_published_one():
    for config in ({**SD3, "pos_embed_max_size": 24, "sample_size": 32}, SD3):
        ours, theirs = SD3Transformer2DModel(**config), diffusers.SD3Transformer2DModel(**config)
        assert torch.equal(ours.pos_embed.pos_embed, theirs.pos_embed.pos_embed)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("kind", "reference", "config", "inputs"), CASES[1:7:3], ids=[NAMES[1], NAMES[4]])
def test_half_precision_is_as_far_from_fp32_as_theirs(kind, reference, config, inputs, dtype):
    ours, theirs = sides(kind, reference, config)
    with torch.no_grad():
        exact = ours(**inputs(config))[0]
        half = {n: v.to(dtype) if n not in ("img_ids", "txt_ids") else v for n, v in inputs(config).items()}
        got, wanted = ours.to(dtype)(**half)[0], theirs.to(dtype)(**half)[0]
    assert relative_l2(got, exact) <= 1.2 * relative_l2(wanted, exact)


def test_what_does_not_fit_is_named():
    with pytest.raises(ConfigError, match=r"axes_dims_rope.*12"):
        FluxTransformer2DModel(**{**FLUX, "axes_dims_rope": (4, 4, 2)})
    with pytest.raises(ConfigError, match="qk_norm"):
        SD3Transformer2DModel(**{**SD3, "qk_norm": "layer_norm"})
    with pytest.raises(ConfigError, match=r"caption_projection_dim.*16"):
        SD3Transformer2DModel(**{**SD3, "caption_projection_dim": 20})
    model, inputs = FluxTransformer2DModel(**FLUX), flux_inputs(FLUX)
    for name, value, word in (
        ("hidden_states", drawn(2, 15, 7), "channels 8"),
        ("encoder_hidden_states", drawn(2, 6, 15), "width 16"),
        ("pooled_projections", drawn(2, 9), "width 10"),
        ("pooled_projections", drawn(2, 10).double(), "float64"),
        ("timestep", torch.ones(3), "3 values"),
        ("img_ids", torch.zeros(14, 3), r"\(15, 3\)"),
        ("guidance", torch.ones(2), "guidance_embeds"),
        ("joint_attention_kwargs", {"scale": 1.0}, "set_adapters"),
    ):
        with pytest.raises(InputError, match=word):
            model(**{**inputs, name: value})
    with pytest.raises(InputError, match="guidance is missing"):
        FluxTransformer2DModel(**FLUX_CONFIGS["dev"])(**inputs)
    model, inputs = SD3Transformer2DModel(**SD3), sd3_inputs(SD3)
    for side in (7, 26):
        with pytest.raises(InputError, match=r"multiple of 2 up to 24"):
            model(**{**inputs, "hidden_states": drawn(2, 4, side, 6)})


class FluxConfig(BaseModelTesterConfig):
    model_class, reference_class = FluxTransformer2DModel, diffusers.FluxTransformer2DModel

    def init_dict(self):
        return FLUX_CONFIGS["dev"]

    def inputs(self):
        return flux_inputs(FLUX_CONFIGS["dev"])


class SD3Config(BaseModelTesterConfig):
    model_class, reference_class = SD3Transformer2DModel, diffusers.SD3Transformer2DModel

    def init_dict(self):
        return SD3_CONFIGS["3.5 medium"]

    def inputs(self):
        return sd3_inputs(SD3_CONFIGS["3.5 medium"])


class TestFluxTransformer2DModel(FluxConfig, Everything):
    pass


class TestSD3Transformer2DModel(SD3Config, Everything):
    pass
