"""How far does bf16 lead from fp32, step by step? Small random Flux, Stable Diffusion 3 and Wan beside diffusers.

    python -m benchmarks.half_precision [--steps 12] [--families flux sd3 wan]

Each line is a step; the numbers are relative L2 distances of its latents to those of our fp32 run. `floor` is what bf16
costs at least: fp32 arithmetic on what was rounded to bf16: weights, what goes into the denoiser and comes out of it,
and what a family keeps in bf16 between two steps (Flux: latents and timesteps, Stable Diffusion 3: latents, Wan:
nothing). `lockstep` and `diffusers` are bf16 throughout. `gain` is what becomes of an early error: the distance of a
run whose first latents alone were rounded, over that rounding.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from rich.table import Table

from .machine import console

Tensor = torch.Tensor
HALF = torch.bfloat16
HEADS = {"num_attention_heads": 4, "attention_head_dim": 24}
KL = {
    "block_out_channels": (8, 8, 16), "norm_num_groups": 8, "sample_size": 32,
    "down_block_types": ("DownEncoderBlock2D",) * 3, "up_block_types": ("UpDecoderBlock2D",) * 3,
    "scaling_factor": 0.3611, "shift_factor": 0.1159, "use_quant_conv": False, "use_post_quant_conv": False,
}  # fmt: skip
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "flux": (
        "FluxTransformer2DModel",
        {**HEADS, "in_channels": 16, "num_layers": 3, "num_single_layers": 3, "joint_attention_dim": 64,
         "pooled_projection_dim": 32, "axes_dims_rope": (8, 8, 8), "guidance_embeds": True},
    ),
    "sd3": (
        "SD3Transformer2DModel",
        {**HEADS, "sample_size": 16, "in_channels": 4, "out_channels": 4, "num_layers": 4, "joint_attention_dim": 64,
         "caption_projection_dim": 96, "pooled_projection_dim": 32, "pos_embed_max_size": 24, "qk_norm": "rms_norm",
         "dual_attention_layers": (0, 1)},
    ),
    "wan": (
        "WanTransformer3DModel",
        {**HEADS, "in_channels": 4, "out_channels": 4, "text_dim": 64, "freq_dim": 32, "ffn_dim": 192, "num_layers": 4},
    ),
}  # fmt: skip
PIPELINES = {"flux": "FluxPipeline", "sd3": "StableDiffusion3Pipeline", "wan": "WanPipeline"}
TEXT_PARTS = {"flux": 2, "sd3": 3, "wan": 1}  # encoders, all of which are left out: embeddings are given


def scheduler(library: Any, family: str) -> Any:
    if family == "wan":
        flow = {"prediction_type": "flow_prediction", "use_flow_sigmas": True, "flow_shift": 3.0}
        return library.UniPCMultistepScheduler(**flow)
    shift = {"base_shift": 0.5, "max_shift": 1.15, "use_dynamic_shifting": True} if family == "flux" else {}
    return library.FlowMatchEulerDiscreteScheduler(shift=3.0, **shift)


def pipeline(library: Any, family: str, folder: str, dtype: torch.dtype) -> Any:
    """The pipeline of a family with the denoiser of a folder, and no text encoders."""
    kind = MODELS[family][0]
    parts = {"transformer": getattr(library, kind).from_pretrained(folder, torch_dtype=dtype).eval()}
    if family == "wan":
        stats = {"latents_mean": [0.0] * 4, "latents_std": [1.0] * 4}
        sizes = {"base_dim": 4, "z_dim": 4, "num_res_blocks": 1, "dim_mult": [1, 1, 1, 1]}
        parts["vae"] = library.AutoencoderKLWan(**sizes, **stats)
    else:
        parts["vae"] = library.AutoencoderKL(**KL, latent_channels=4)
    endings = ["", "_2", "_3"][: TEXT_PARTS[family]]
    without = {f"{name}{end}": None for name in ("text_encoder", "tokenizer") for end in endings}
    pipe = getattr(library, PIPELINES[family])(**parts, **without, scheduler=scheduler(library, family))
    pipe.set_progress_bar_config(disable=True)
    return pipe


def arguments(family: str, steps: int) -> dict[str, Any]:
    draw = torch.Generator().manual_seed(1)
    texts = [torch.randn(1, 12, 64, generator=draw) for _ in range(2)]
    pooled = [torch.randn(1, 32, generator=draw) for _ in range(2)]
    given = {"prompt_embeds": texts[0], "num_inference_steps": steps, "output_type": "latent"}
    if family == "wan":
        return given | {
            "negative_prompt_embeds": texts[1], "guidance_scale": 5.0, "height": 64, "width": 64, "num_frames": 9,
            "latents": torch.randn(1, 4, 3, 8, 8, generator=draw),
        }  # fmt: skip
    given |= {"pooled_prompt_embeds": pooled[0], "height": 64, "width": 64}
    if family == "flux":
        return given | {"guidance_scale": 3.5, "latents": torch.randn(1, 64, 16, generator=draw)}
    negative = {"negative_prompt_embeds": texts[1], "negative_pooled_prompt_embeds": pooled[1], "guidance_scale": 5.0}
    return given | negative | {"latents": torch.randn(1, 4, 16, 16, generator=draw)}


def curve(pipe: Any, given: dict[str, Any], dtype: torch.dtype, rounding: bool = False) -> list[Tensor]:
    """The latents after every step, rounded to bf16 there where it is asked for."""
    seen: list[Tensor] = []

    def note(_: Any, index: int, timestep: Any, values: dict[str, Tensor]) -> dict[str, Tensor]:
        latents = rounded(values["latents"]) if rounding else values["latents"]
        seen.append(latents.double())
        return {"latents": latents}

    cast = {k: (rounded(v) if rounding else v).to(dtype) if isinstance(v, Tensor) else v for k, v in given.items()}
    with torch.no_grad():
        pipe(**cast, callback_on_step_end=note)
    return seen


def rounded(value: Any) -> Any:
    whole = isinstance(value, Tensor) and value.is_floating_point() and value.ndim > 1
    return value.to(HALF).to(value.dtype) if whole else value


def rounds_at_its_ends(model: torch.nn.Module, times: bool) -> None:
    """Weights, what goes in and what comes out pass through bf16; between, the arithmetic is fp32."""
    for weight in model.parameters():
        weight.data = rounded(weight.data) if weight.ndim > 1 else weight.data.to(HALF).to(weight.dtype)

    def before(_: Any, args: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        given = {name: rounded(value) for name, value in named.items()}
        if times:  # a bf16 number of a thousand, and then a bf16 share of it
            given["timestep"] = ((1000 * given["timestep"]).to(HALF) / 1000).float()
        return tuple(map(rounded, args)), given

    model.register_forward_pre_hook(before, with_kwargs=True)
    model.register_forward_hook(lambda _, args, made: tuple(map(rounded, made)))


def distances(runs: list[Tensor], exact: list[Tensor]) -> list[float]:
    return [float((one - other).norm() / other.norm()) for one, other in zip(runs, exact, strict=True)]


def measured(family: str, steps: int, folder: str) -> dict[str, list[float]]:
    import diffusers

    import lockstep

    kind, config = MODELS[family]
    torch.manual_seed(0)
    getattr(lockstep, kind)(**config).save_pretrained(folder)
    given = arguments(family, steps)
    make: Callable[[Any, torch.dtype], Any] = lambda library, dtype: pipeline(library, family, folder, dtype)  # noqa: E731
    exact = curve(make(lockstep, torch.float32), given, torch.float32)
    floor = make(lockstep, torch.float32)
    rounds_at_its_ends(floor.transformer, times=family == "flux")
    moved = {**given, "latents": rounded(given["latents"])}
    step = float((moved["latents"] - given["latents"]).norm() / given["latents"].norm())
    gain = distances(curve(make(lockstep, torch.float32), moved, torch.float32), exact)
    return {
        "floor": distances(curve(floor, given, torch.float32, rounding=family != "wan"), exact),
        "lockstep": distances(curve(make(lockstep, HALF), given, HALF), exact),
        "diffusers": distances(curve(make(diffusers, HALF), given, HALF), exact),
        "gain": [one / step for one in gain],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--families", nargs="+", default=list(MODELS), choices=list(MODELS))
    options = parser.parse_args()
    for family in options.families:
        with tempfile.TemporaryDirectory() as folder:
            found = measured(family, options.steps, folder)
        table = Table("step", *found, title=PIPELINES[family])
        for index, row in enumerate(zip(*found.values(), strict=True)):
            *far, gain = row
            table.add_row(str(index), *(f"{value:.2e}" for value in far), f"{gain:.2f}")
        console.print(table)
        ratios = [one / other for one, other in zip(found["lockstep"], found["diffusers"], strict=True)]
        over = [one / other for one, other in zip(found["lockstep"], found["floor"], strict=True)]
        console.print(
            f"lockstep over diffusers: at most {max(ratios):.2f}; over the floor: {min(over):.2f} to {max(over):.2f}"
        )


if __name__ == "__main__":
    main()
