"""UNet2DConditionModel beside diffusers' with the same weights: every module's output, gradients, names and shapes."""

import json
from pathlib import Path

import pytest
import torch
from diffusers import UNet2DConditionModel as Reference

from helpers import assert_close, relative_l2, slow
from lockstep.models.unets.unet_2d_condition import UNet2DConditionModel

PUBLISHED = Path(__file__).parents[2] / "fixtures" / "unet_configs"
CROSS = ("DownBlock2D", "CrossAttnDownBlock2D"), ("CrossAttnUpBlock2D", "UpBlock2D")
PLAIN = {
    "sample_size": 8,
    "block_out_channels": (16, 32),
    "down_block_types": CROSS[0],
    "up_block_types": CROSS[1],
    "layers_per_block": 1,
    "cross_attention_dim": 24,
    "attention_head_dim": 2,
    "norm_num_groups": 8,
}
FOUR_LEVELS = {
    **PLAIN,
    "block_out_channels": (16, 16, 32, 32),
    "down_block_types": ("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",),
    "up_block_types": ("UpBlock2D",) + ("CrossAttnUpBlock2D",) * 3,
    "layers_per_block": 2,
}
TEXT_TIME = {
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 8,
    "projection_class_embeddings_input_dim": 20 + 6 * 8,
    "use_linear_projection": True,
}
CONFIGS = {
    "plain": PLAIN,
    "Stable Diffusion 1": FOUR_LEVELS,
    "Stable Diffusion 1 inpainting": {**PLAIN, "in_channels": 9},
    "Stable Diffusion 2": {
        **FOUR_LEVELS,
        "attention_head_dim": (1, 2, 4, 8),
        "use_linear_projection": True,
        "upcast_attention": True,
    },
    "XL base": {
        **PLAIN,
        **TEXT_TIME,
        "block_out_channels": (16, 16, 32),
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        "transformer_layers_per_block": (1, 2, 3),
        "attention_head_dim": (1, 2, 4),
        "layers_per_block": 2,
        "upcast_attention": None,
    },
    "XL refiner": {
        **FOUR_LEVELS,
        **TEXT_TIME,
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        "transformer_layers_per_block": 2,
    },
    "pooled text": {**PLAIN, "addition_embed_type": "text", "addition_embed_type_num_heads": 4},
    "pooled text of an encoder's width": {
        **PLAIN,
        "addition_embed_type": "text",
        "addition_embed_type_num_heads": 2,
        "encoder_hid_dim": 10,
    },
    "text projection": {**PLAIN, "encoder_hid_dim": 10, "encoder_hid_dim_type": "text_proj"},
    "guidance embedding": {**PLAIN, "time_cond_proj_dim": 12},
    "class by number": {**PLAIN, "num_class_embeds": 5},
    "class by timestep": {**PLAIN, "class_embed_type": "timestep", "act_fn": "gelu"},
    "class by itself": {**PLAIN, "class_embed_type": "identity"},
    "class by projection": {
        **PLAIN,
        "class_embed_type": "projection",
        "projection_class_embeddings_input_dim": 11,
        "class_embeddings_concat": True,
    },
    "class by simple projection": {
        **PLAIN,
        "class_embed_type": "simple_projection",
        "projection_class_embeddings_input_dim": 11,
    },
    "scale and shift": {**PLAIN, "resnet_time_scale_shift": "scale_shift", "mid_block_scale_factor": 1.5},
    "only cross-attention": {**PLAIN, "only_cross_attention": (True, True), "attention_head_dim": 4},
    "no middle": {**PLAIN, "mid_block_type": None},
    "middle without text": {**PLAIN, "mid_block_type": "UNetMidBlock2D"},
    "no text at all": {
        **PLAIN,
        "down_block_types": ("DownBlock2D",) * 2,
        "up_block_types": ("UpBlock2D",) * 2,
        "mid_block_type": "UNetMidBlock2D",
    },
    "uneven layers and depths": {
        **PLAIN,
        "layers_per_block": (1, 2),
        "transformer_layers_per_block": [1, [1, 2]],
        "reverse_transformer_layers_per_block": [[2, 1, 1], [1, 1]],
        "down_block_types": ("CrossAttnDownBlock2D",) * 2,
        "up_block_types": ("CrossAttnUpBlock2D",) * 2,
        "cross_attention_dim": (24, 24),
    },
    "other embeddings of time": {
        **PLAIN,
        "flip_sin_to_cos": False,
        "freq_shift": 1,
        "time_embedding_dim": 40,
        "time_embedding_act_fn": "silu",
        "timestep_post_act": "mish",
        "act_fn": "mish",
    },
    "other convolutions": {
        **PLAIN,
        "conv_in_kernel": 5,
        "conv_out_kernel": 1,
        "downsample_padding": 0,
        "center_input_sample": True,
        "norm_eps": 1e-3,
        "dropout": 0.3,
        "out_channels": 3,
    },
}


def pair(config: dict) -> tuple[UNet2DConditionModel, Reference]:
    """Both models with the same weights, none of them zero or one."""
    ours, theirs = UNet2DConditionModel(**config).eval(), Reference(**config).eval()
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            start = 1.0 if name.endswith("weight") and parameter.ndim == 1 else 0.0
            parameter.copy_(start + torch.randn_like(parameter) / max(parameter[0].numel(), 4) ** 0.5)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def inputs(config: dict, size: tuple[int, int] = (8, 8), batch: int = 2) -> dict:
    values = {
        "sample": torch.randn(batch, config.get("in_channels", 4), *size),
        "timestep": torch.linspace(981, 13, batch).round(),
        "encoder_hidden_states": torch.randn(batch, 5, config.get("encoder_hid_dim") or 24),
    }
    if config.get("addition_embed_type") == "text_time":
        sizes = torch.tensor([[64.0, 48, 0, 4, 64, 32]]).expand(batch, -1)
        values["added_cond_kwargs"] = {"text_embeds": torch.randn(batch, 20), "time_ids": sizes}
    if config.get("time_cond_proj_dim"):
        values["timestep_cond"] = torch.randn(batch, config["time_cond_proj_dim"])
    labels = {
        "timestep": torch.tensor([3.0, 500.0]),
        "identity": torch.randn(batch, 64),
        "projection": torch.randn(batch, 11),
        "simple_projection": torch.randn(batch, 11),
    }
    if config.get("class_embed_type"):
        values["class_labels"] = labels[config["class_embed_type"]]
    elif config.get("num_class_embeds"):
        values["class_labels"] = torch.tensor([1, 4])
    return values


def run_with_outputs(model, **kwargs) -> dict[str, list[torch.Tensor]]:
    """Every module's outputs by name, tuples and dataclasses taken apart (a module that runs twice has two)."""
    seen: dict[str, list[torch.Tensor]] = {}

    def flat(value):
        if isinstance(value, torch.Tensor):
            return [value]
        if isinstance(value, (tuple, list)):
            return [tensor for item in value for tensor in flat(item)]
        return flat(value.sample)

    def keep(name):
        return lambda module, args, output: seen.setdefault(name, []).extend(flat(output))

    handles = [module.register_forward_hook(keep(name)) for name, module in model.named_modules()]
    try:
        model(**kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return seen


@pytest.mark.parametrize("name", CONFIGS)
def test_every_module_gives_what_the_reference_gives(name):
    config = CONFIGS[name]
    ours, theirs = pair(config)
    given = inputs(config)
    with torch.no_grad():
        got, wanted = run_with_outputs(ours, **given), run_with_outputs(theirs, **given)
    blocks = {n for n in wanted if n.count(".") == 1 and "block" in n} | {"conv_in", "time_embedding", "conv_out", ""}
    assert blocks <= set(got), f"not compared: {sorted(blocks - set(got))}"
    compared = 0
    for module in set(got) & set(wanted):
        assert len(got[module]) == len(wanted[module]), module
        for index, (mine, reference) in enumerate(zip(got[module], wanted[module], strict=True)):
            assert_close(mine, reference, 1e-5, f"{module}[{index}]")
            compared += 1
    assert compared > 20


@pytest.mark.parametrize("name", CONFIGS)
def test_gradients(name):
    config = CONFIGS[name]
    ours, theirs = pair(config)
    given = inputs(config)
    weights = torch.linspace(-1, 1, 64).view(8, 8)
    inputs_of = []
    for model in (ours, theirs):
        sample = given["sample"].clone().requires_grad_()
        (model(**{**given, "sample": sample}).sample * weights).sum().backward()
        inputs_of.append(sample.grad)
    assert_close(*inputs_of, 1e-5, "gradient of the sample")
    wanted = {parameter_name: parameter.grad for parameter_name, parameter in theirs.named_parameters()}
    negligible = 1e-6 * max(gradient.norm() for gradient in wanted.values() if gradient is not None)
    compared = 0
    for parameter_name, parameter in ours.named_parameters():
        assert (parameter.grad is None) == (wanted[parameter_name] is None), parameter_name
        if parameter.grad is not None and wanted[parameter_name].norm() > negligible:
            assert_close(parameter.grad, wanted[parameter_name], 1e-4, f"gradient of {parameter_name}")
            compared += 1
    assert compared > 0.9 * len(wanted)


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("size", [(15, 9), (12, 20), (9, 11)])
def test_sizes_that_do_not_halve_evenly(size, padding):
    config = {**FOUR_LEVELS, "downsample_padding": padding}
    ours, theirs = pair(config)
    given = inputs(config, size, batch=1)
    seen = []
    for block in ours.down_blocks:
        block.register_forward_pre_hook(lambda module, args: seen.append(tuple(args[0].shape[2:])))
    with torch.no_grad():
        assert_close(ours(**given).sample, theirs(**given).sample)


@pytest.mark.parametrize(
    "timestep", [981, 3.5, torch.tensor(7), torch.tensor([7]), torch.tensor([7, 8]), torch.tensor(2.25)]
)
def test_timesteps_of_every_kind(timestep):
    ours, theirs = pair(PLAIN)
    given = {**inputs(PLAIN), "timestep": timestep}
    with torch.no_grad():
        assert_close(ours(**given).sample, theirs(**given).sample)


def test_masks():
    config = {**PLAIN, "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D")}
    ours, theirs = pair(config)
    given = inputs(config)
    keep_text = torch.tensor([[1, 1, 0, 0, 0], [1, 1, 1, 1, 0]])
    keep_pixels = torch.rand(2, 16) > 0.3
    with torch.no_grad():
        free = ours(**given).sample
        for masks in (
            {"encoder_attention_mask": keep_text},
            {"encoder_attention_mask": keep_text.bool()},
            {"attention_mask": keep_pixels},
            {"attention_mask": keep_pixels, "encoder_attention_mask": keep_text},
        ):
            got = ours(**given, **masks).sample
            assert_close(got, theirs(**given, **masks).sample)
            assert relative_l2(got, free) > 1e-3


def test_residuals_of_a_controlnet():
    ours, theirs = pair(FOUR_LEVELS)
    given = inputs(FOUR_LEVELS)
    channels = [16, 16, 16, 16, 16, 16, 16, 32, 32, 32, 32, 32]
    sizes = [8, 8, 8, 4, 4, 4, 2, 2, 2, 1, 1, 1]
    residuals = tuple(torch.randn(2, width, size, size) for width, size in zip(channels, sizes, strict=True))
    steer = {"down_block_additional_residuals": residuals, "mid_block_additional_residual": torch.randn(2, 32, 1, 1)}
    with torch.no_grad():
        got = ours(**given, **steer).sample
        assert_close(got, theirs(**given, **steer).sample)
        assert relative_l2(got, ours(**given).sample) > 1e-3


@pytest.mark.parametrize("with_middle", [False, True])
def test_residuals_of_an_adapter(with_middle):
    config = {**FOUR_LEVELS, "down_block_types": ("DownBlock2D",) + ("CrossAttnDownBlock2D",) * 2 + ("DownBlock2D",)}
    ours, theirs = pair(config)
    given = inputs(config)
    # after the plain first block the size is halved already; the others give theirs before they halve it
    shapes = [(16, 4), (16, 4), (32, 2), (32, 1)] + [(32, 1)] * with_middle
    residuals = [torch.randn(2, channels, size, size) for channels, size in shapes]
    with torch.no_grad():
        free = ours(**given).sample
        got = ours(**given, down_intrablock_additional_residuals=tuple(residuals)).sample
        wanted = theirs(**given, down_intrablock_additional_residuals=list(residuals)).sample
    assert_close(got, wanted)
    assert relative_l2(got, free) > 1e-3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_as_near_to_fp32_as_the_reference(dtype):
    ours, theirs = pair(PLAIN)
    given = inputs(PLAIN)
    halves = {name: value.to(dtype) if name != "timestep" else value for name, value in given.items()}
    with torch.no_grad():
        exact = theirs(**given).sample
        got, wanted = ours.to(dtype)(**halves).sample, theirs.to(dtype)(**halves).sample
    assert got.dtype == dtype
    assert relative_l2(got, exact) <= 1.1 * relative_l2(wanted, exact)


def test_autocast():
    ours, theirs = pair(PLAIN)
    given = inputs(PLAIN)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert_close(ours(**given).sample, theirs(**given).sample, 1e-2)


@pytest.mark.parametrize("path", sorted(PUBLISHED.glob("*.json")), ids=lambda path: path.stem)
def test_names_and_shapes_of_published_models(path):
    config = json.loads(path.read_text())
    with torch.device("meta"):
        ours, theirs = UNet2DConditionModel.from_config(config), Reference.from_config(config)
    assert ours.unknown_config_keys == []
    got, wanted = ({n: tuple(t.shape) for n, t in model.state_dict().items()} for model in (ours, theirs))
    assert got == wanted
    assert len(got) == {"stable-diffusion-v1-5": 686, "stable-diffusion-xl-base-1.0": 1680}.get(path.stem, len(got))


def test_stable_diffusion_has_its_published_size():
    config = json.loads((PUBLISHED / "stable-diffusion-v1-5.json").read_text())
    with torch.device("meta"):
        model = UNet2DConditionModel.from_config(config)
    assert model.num_parameters() == 859_520_964
    norms = [module for module in model.modules() if isinstance(module, torch.nn.LayerNorm)]
    assert len(norms) == 48
    assert sum(block.num_skips for block in model.up_blocks) == 12


@slow
@torch.no_grad()
def test_full_size_stable_diffusion():
    """860 million random weights, 32×32 latents: the output, every block's output and every skip."""
    config = json.loads((PUBLISHED / "stable-diffusion-v1-5.json").read_text())
    ours = UNet2DConditionModel.from_config(config).eval()
    with torch.device("meta"):
        theirs = Reference.from_config(config).eval()
    theirs.load_state_dict(ours.state_dict(), assign=True)
    given = {
        "sample": torch.randn(1, 4, 32, 32),
        "timestep": 981,
        "encoder_hidden_states": torch.randn(1, 77, 768),
    }
    got, wanted = run_with_outputs(ours, **given), run_with_outputs(theirs, **given)
    worst = 0.0
    for module in set(got) & set(wanted):
        for index, (mine, reference) in enumerate(zip(got[module], wanted[module], strict=True)):
            assert_close(mine, reference, 1e-5, f"{module}[{index}]")
            worst = max(worst, relative_l2(mine, reference))
    print(
        f"{len(set(got) & set(wanted))} modules, output {relative_l2(got[''][0], wanted[''][0]):.2e}, worst {worst:.2e}"
    )
