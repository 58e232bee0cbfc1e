"""UNet2DConditionModel beside Candle's, from the traces in tests/fixtures/candle.

Two things differ. Candle's GEGLU takes the tanh approximation of GELU. And it divides by a number by multiplying with
the rounded inverse, which moves the frequencies of the time embedding by a last bit, and times 981 that is seen (where
half the width is a power of two, as in the tiny UNet, the inverse is exact). To show that nothing else differs, every
suspicion is made a variant of the model and computed in float64, where nothing but the suspicion remains: the share
with which Candle's own result lies along the variant is 1 for what Candle does and 0 for what it does not.
"""

import json
import math
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from fixtures.candle.make_weights import values, write
from helpers import assert_close, relative_l2, slow
from lockstep.models.layers import GEGLU, Timesteps
from lockstep.models.unets.unet_2d_blocks import UpBlock2D
from lockstep.models.unets.unet_2d_condition import UNet2DConditionModel
from lockstep.schedulers.ddim import DDIMScheduler

CANDLE = Path(__file__).parents[2] / "fixtures" / "candle"
WANTED = 5e-6
GUIDANCE = 7.5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Candle's weights as a folder in the published layout."""
    folder = tmp_path_factory.mktemp("unet_tiny")
    manifest = json.loads((CANDLE / "manifest_unet_tiny.json").read_text())
    tensors = {name: torch.from_numpy(values(name, shape)) for name, shape in manifest.items()}
    save_file(tensors, folder / "diffusion_pytorch_model.safetensors")
    (folder / "config.json").write_text(json.dumps(json.loads((CANDLE / "configs.json").read_text())["unet_tiny"]))
    return folder


@pytest.fixture(scope="module")
def trace():
    return points(CANDLE / "unet_tiny.trace.safetensors")


def points(path):
    """Every traced tensor by `path|slot`."""
    return {name.split("|", 2)[2]: value for name, value in load_file(path).items()}


def load(folder, dtype=torch.float32):
    return UNet2DConditionModel.from_pretrained(folder, dtype=dtype)  # refuses what is missing or left over


def traced(model, inputs):
    """The same points of ours."""
    seen = {"unet|in.sample": inputs["sample"], "unet|in.encoder_hidden_states": inputs["encoder_hidden_states"]}

    def keep(path):
        def hook(module, args, output):
            if isinstance(output, tuple):
                output, skips = output
                seen.update({f"{path}|out.skip.{index}": skip for index, skip in enumerate(skips)})
            seen[f"{path}|out"] = output if isinstance(output, torch.Tensor) else output.sample

        return hook

    named = [("unet" + ("." + name if name else ""), module) for name, module in model.named_modules()]
    handles = [module.register_forward_hook(keep(path)) for path, module in named]
    given = {name: tensor.to(model.dtype) for name, tensor in inputs.items()}
    with torch.no_grad():
        model(**given)
    for handle in handles:
        handle.remove()
    return seen


class TanhGEGLU(torch.nn.Module):
    """As Candle computes it: the tanh approximation of GELU."""

    def __init__(self, geglu):
        super().__init__()
        self.proj = geglu.proj

    def forward(self, hidden):
        hidden, gate = self.proj(hidden).chunk(2, dim=-1)
        return hidden * F.gelu(gate, approximate="tanh")


class CandleTimesteps(torch.nn.Module):
    """As Candle computes it: times the rounded inverse instead of a division, and the C library's exponential."""

    def __init__(self, num_channels):
        super().__init__()
        self.half = num_channels // 2

    def forward(self, timesteps):
        exponents = torch.arange(self.half, dtype=torch.float32) * torch.tensor(-math.log(10000), dtype=torch.float32)
        exponents = exponents * torch.tensor(1 / self.half, dtype=torch.float32)
        frequencies = exponents.double().exp().float()  # rounded once; torch's own differs in the last bit
        angles = timesteps[:, None].float() * frequencies
        return torch.cat([angles.cos(), angles.sin()], dim=-1)


def with_candles_operations(model):
    """All that is known to differ."""
    model.time_proj = CandleTimesteps(model.time_proj.num_channels)
    return with_tanh_gelu(model)


def with_tanh_gelu(model):
    for owner in list(model.modules()):
        for name, child in list(owner.named_children()):
            if isinstance(child, GEGLU):
                setattr(owner, name, TanhGEGLU(child))
    return model


def inputs_of(name):
    return load_file(CANDLE / f"inputs_{name}.safetensors")


def test_every_traced_point_with_candles_gelu(folder, trace):
    got = traced(with_tanh_gelu(load(folder)), inputs_of("unet_tiny"))
    assert set(trace) <= set(got)
    assert len(trace) == 27
    for name, wanted in trace.items():
        assert_close(got[name], wanted, WANTED, name)


def test_frequencies_of_stable_diffusions_time_embedding():
    """Half of 320 is no power of two: a last bit of a frequency, times 981, is 1e-5 of the sinusoids."""
    (candle,) = points(CANDLE / "time_proj_sd15.trace.safetensors").values()
    timestep, ours = torch.tensor([981.0]), Timesteps(320, flip_sin_to_cos=True, downscale_freq_shift=0)
    assert 5e-6 < relative_l2(ours(timestep), candle) < 2e-5
    assert_close(CandleTimesteps(320)(timestep), candle, 1e-7)
    exponents = -math.log(10000) * torch.arange(160, dtype=torch.float64) / 160
    angles = 981 * exponents.exp()
    exact = torch.cat([angles.cos(), angles.sin()])[None]
    assert relative_l2(ours(timestep), exact) < 1.1 * relative_l2(candle, exact)  # neither is the better one


def test_without_it_the_first_transformer_is_where_we_part(folder, trace):
    got = traced(load(folder), inputs_of("unet_tiny"))
    apart = {name: relative_l2(got[name], wanted) for name, wanted in trace.items()}
    for name in ("unet.time_proj|out", "unet.time_embedding|out", "unet.conv_in|out"):
        assert apart[name] < 5e-7, name
    assert 5e-5 < apart["unet.down_blocks.0|out.skip.0"] < 1e-4
    assert 1e-4 < apart["unet|out"] < 3e-4


def test_what_remains_is_the_floor_of_float32(folder, trace):
    """With its GELU, Candle is as near to the float64 result as we are, at every point."""
    ours = traced(with_tanh_gelu(load(folder)), inputs_of("unet_tiny"))
    exact = traced(with_tanh_gelu(load(folder, torch.float64)), inputs_of("unet_tiny"))
    for name, candle in trace.items():
        floor = max(relative_l2(ours[name], exact[name]), 2e-7)
        assert relative_l2(candle, exact[name]) < 1.5 * floor, name


def with_eps(model, kind, where, eps):
    norms = [module for name, module in model.named_modules() if isinstance(module, kind) and where in name]
    assert norms
    for norm in norms:
        norm.eps = eps


def with_swapped_gate(model):
    """The gate first and the value after it."""
    for module in model.modules():
        if isinstance(module, TanhGEGLU):
            module.proj.weight.data = torch.cat(module.proj.weight.data.chunk(2)[::-1])
            module.proj.bias.data = torch.cat(module.proj.bias.data.chunk(2)[::-1])


def with_sine_first(model):
    model.time_proj.flip_sin_to_cos = False


def with_heads(model, width):
    """`attention_head_dim` read as a width instead of as a number."""
    for module in model.modules():
        if hasattr(module, "heads"):
            module.heads = module.to_q.out_features // width


def with_skips_in_order(model):
    """The skips of an up block first in first out (where their widths allow it)."""
    block = next(block for block in model.up_blocks if type(block) is UpBlock2D)
    plain = block.forward
    block.forward = lambda hidden, skips, *args, **kwargs: plain(hidden, skips[::-1], *args, **kwargs)


def with_skip_before_features(model):
    """`[skip, x]` instead of `[x, skip]`, in an up block where both are equally wide."""
    resnet = model.up_blocks[0].resnets[0]
    plain = resnet.forward
    resnet.forward = lambda hidden, *args: plain(torch.cat(hidden.chunk(2, dim=1)[::-1], dim=1), *args)


def with_padding_below(model):
    for block in model.down_blocks:
        for module in block.downsamplers or []:
            module.padding, module.conv.padding = 0, (0, 0)


SUSPICIONS = {
    "eps 1e-5 in the transformers' group norm": lambda m: with_eps(m, torch.nn.GroupNorm, "attentions", 1e-5),
    "eps 1e-6 in the resnets' group norm": lambda m: with_eps(m, torch.nn.GroupNorm, "resnets", 1e-6),
    "eps 1e-6 in the middle's resnets": lambda m: with_eps(m, torch.nn.GroupNorm, "mid_block.resnets", 1e-6),
    "eps 1e-6 in the last norm": lambda m: with_eps(m, torch.nn.GroupNorm, "conv_norm_out", 1e-6),
    "eps 1e-6 in the layer norms": lambda m: with_eps(m, torch.nn.LayerNorm, "", 1e-6),
    "gate and value swapped": with_swapped_gate,
    "sine before cosine": with_sine_first,
    "frequencies divided by half minus one": lambda m: setattr(m.time_proj, "downscale_freq_shift", 1.0),
    "heads that are 8 wide": lambda m: with_heads(m, 8),
    "skips first in first out": with_skips_in_order,
    "skip before features": with_skip_before_features,
    "padding on one side when halving": with_padding_below,
}


def share(variant, exact, candle):
    """How far Candle's difference from `exact` goes along that of the variant: 1 if Candle computes the variant."""
    direction, difference = (variant - exact).flatten().double(), (candle - exact).flatten().double()
    return float(direction @ difference / (direction @ direction)), relative_l2(variant, exact)


def output_of(model):
    given = {name: tensor.to(model.dtype) for name, tensor in inputs_of("unet_tiny").items()}
    with torch.no_grad():
        return model(**given).sample


def test_candle_computes_the_tanh_gelu(folder, trace):
    exact = output_of(load(folder, torch.float64))
    along, size = share(output_of(with_tanh_gelu(load(folder, torch.float64))), exact, trace["unet|out"])
    assert abs(along - 1) < 1e-3
    assert size > 1e-4


@pytest.mark.parametrize("name", SUSPICIONS)
def test_candle_does_not_compute(name, folder, trace):
    exact = output_of(with_tanh_gelu(load(folder, torch.float64)))
    variant = with_tanh_gelu(load(folder, torch.float64))
    SUSPICIONS[name](variant)
    along, size = share(output_of(variant), exact, trace["unet|out"])
    assert size > 5e-7, "the variant computes the same, so it shows nothing"
    assert abs(along) < 0.1


def test_a_guided_loop_of_ten_steps(folder):
    """Predictions, guidance and DDIM: the latents of every step."""
    trace = {
        tuple(name.split("|")[1:3]): value for name, value in load_file(CANDLE / "loop_tiny.trace.safetensors").items()
    }
    inputs = inputs_of("loop_tiny")
    model = with_tanh_gelu(load(folder))
    scheduler = DDIMScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        clip_sample=False,
        set_alpha_to_one=False,
        steps_offset=1,
    )
    scheduler.set_timesteps(10)
    text = torch.cat([inputs["negative_prompt_embeds"], inputs["prompt_embeds"]])
    latents = inputs["noise"]
    for index, timestep in enumerate(scheduler.timesteps):
        step = f"denoise:{index:02d}"
        assert int(timestep) == int(trace[step, "@timestep"])
        with torch.no_grad():
            without, with_text = model(torch.cat([latents, latents]), timestep, text).sample.chunk(2)
        guided = without + (with_text - without) * GUIDANCE
        latents = scheduler.step(guided, timestep, latents).prev_sample
        assert_close(without, trace[step, "@pred_uncond"], 1e-5, f"{step} without text")
        assert_close(with_text, trace[step, "@pred_cond"], 1e-5, f"{step} with text")
        assert_close(guided, trace[step, "@noise_pred"], 2e-5, f"{step} guided")
        assert_close(latents, trace[step, "@latents"], WANTED, f"{step} latents")


@slow
def test_full_size_stable_diffusion(tmp_path):
    """686 tensors, 32×32 latents; LOCKSTEP_CANDLE_TRACES is a folder with manifest, inputs and trace of `unet_sd15`."""
    if "LOCKSTEP_CANDLE_TRACES" not in os.environ:
        pytest.skip("LOCKSTEP_CANDLE_TRACES does not say where Candle's full-size trace is")
    source = Path(os.environ["LOCKSTEP_CANDLE_TRACES"])
    manifest = json.loads((source / "manifest_unet_sd15.json").read_text())
    assert len(manifest) == 686
    write(str(tmp_path / "diffusion_pytorch_model.safetensors"), manifest)
    config = CANDLE.parent / "unet_configs" / "stable-diffusion-v1-5.json"
    (tmp_path / "config.json").write_text(config.read_text())
    model, inputs = load(tmp_path), load_file(source / "inputs_unet_sd15.safetensors")
    trace = points(source / "unet_sd15.trace.safetensors")
    plain = traced(model, inputs)
    imitated = traced(with_candles_operations(model), inputs)
    for name, candle in trace.items():
        print(f"{name:35} {relative_l2(plain[name], candle):.2e} imitated {relative_l2(imitated[name], candle):.2e}")
    for name, candle in trace.items():
        assert_close(imitated[name], candle, WANTED, name)
