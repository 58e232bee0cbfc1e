"""How far does bf16 lead from fp32, step by step? Small random Flux, Stable Diffusion 3 and Wan beside diffusers.

    python -m benchmarks.half_precision [--steps 12] [--members 4] [--families flux sd3 wan] [--nearest]

Each line is a step; the numbers are relative L2 distances of its latents to those of our fp32 run. `floor` is what the
format costs, whoever computes: diffusers in bf16, each operation computed in fp32 on its bf16 inputs and its result
rounded at random to one of the two bf16 numbers beside it (stochastic arithmetic: CESTAC, arXiv:1509.01347), the
geometric mean of several such runs, all of them as valid as each other, over the root of two, since rounding by chance
has twice the variance of rounding to the nearest. `at most` is what a correct run may have, by the spread of the
members, as `lockstep parity` judges. `lockstep` and `diffusers` are plain bf16 throughout. `gain` is
what becomes of an early error: the distance of a run whose first latents alone were rounded, over that rounding.
With `--nearest` the floor's latents, predictions and times are rounded to the nearest, as a run in bf16 does it.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import torch
from rich.table import Table
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from .machine import console

Tensor = torch.Tensor
HALF = torch.bfloat16
LEAST_SPREAD = 0.35  # of the logarithms of few members
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


def curve(pipe: Any, given: dict[str, Any], dtype: torch.dtype) -> list[Tensor]:
    """The latents after every step."""
    seen: list[Tensor] = []

    def note(_: Any, index: int, timestep: Any, values: dict[str, Tensor]) -> dict[str, Tensor]:
        seen.append(values["latents"].double())
        return {}

    cast = {name: value.to(dtype) if isinstance(value, Tensor) else value for name, value in given.items()}
    with torch.no_grad():
        pipe(**cast, callback_on_step_end=note)
    return seen


class RandomRounding(TorchDispatchMode):
    """Every bf16 result is computed in fp32, then rounded up or down by chance, the likelier the nearer."""

    def __init__(self, seed: int, but: torch.Size | None = None) -> None:
        super().__init__()
        self.draw, self.but = torch.Generator().manual_seed(seed), but  # a shape that is rounded to the nearest

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        made = function(*args, **kwargs)
        aliases = any(value.alias_info for value in (*function._schema.arguments, *function._schema.returns))
        if aliases or not self.is_half(made):  # a view, a result in place, or one that is kept in fp32
            return made
        casts = function is torch.ops.aten._to_copy.default
        if "dtype" in kwargs and not casts:
            return made
        kept = {name: value for name, value in kwargs.items() if not casts or name != "dtype"}
        exact = function(*tree_map(self.widened, args), **tree_map(self.widened, kept))
        return tree_map(self.narrowed, exact, made)

    def is_half(self, made: Any) -> bool:
        return any(
            isinstance(one, Tensor) and one.dtype == HALF for one in (made if isinstance(made, tuple) else [made])
        )

    def widened(self, value: Any) -> Any:
        return value.float() if isinstance(value, Tensor) and value.dtype == HALF else value

    def narrowed(self, exact: Any, made: Any) -> Any:
        between = self.but is not None and isinstance(made, Tensor) and (made.numel() == 1 or made.shape == self.but)
        if between or not isinstance(made, Tensor) or made.dtype != HALF:
            return made
        bits = exact.float().contiguous().view(torch.int32)  # the upper half of an fp32 number is a bf16 number
        chance = torch.randint(0, 1 << 16, bits.shape, generator=self.draw, dtype=torch.int32)
        low = 0xFFFF
        return torch.where(made.isfinite(), ((bits + chance) & ~low).view(torch.float32).to(HALF), made)


def distances(runs: list[Tensor], exact: list[Tensor]) -> list[float]:
    return [float((one - other).norm() / other.norm()) for one, other in zip(runs, exact, strict=True)]


def measured(family: str, steps: int, folder: str, members: int = 4, nearest: bool = False) -> dict[str, list[float]]:
    import diffusers

    import lockstep

    kind, config = MODELS[family]
    torch.manual_seed(0)
    getattr(lockstep, kind)(**config).save_pretrained(folder)
    given = arguments(family, steps)
    make: Callable[[Any, torch.dtype], Any] = lambda library, dtype: pipeline(library, family, folder, dtype)  # noqa: E731
    exact = curve(make(lockstep, torch.float32), given, torch.float32)
    theirs, ours = make(diffusers, HALF), make(lockstep, HALF)
    ensemble = []
    for seed in range(members):
        with RandomRounding(seed, but=given["latents"].shape if nearest else None):
            ensemble.append(distances(curve(theirs, given, HALF), exact))
    floors = [floor_and_limit(step) for step in zip(*ensemble, strict=True)]
    moved = {**given, "latents": given["latents"].to(HALF).float()}
    size = float((moved["latents"] - given["latents"]).norm() / given["latents"].norm())
    gain = distances(curve(make(lockstep, torch.float32), moved, torch.float32), exact)
    return {
        "floor": [floor for floor, _ in floors],
        "at most": [most for _, most in floors],
        "lockstep": distances(curve(ours, given, HALF), exact),
        "diffusers": distances(curve(theirs, given, HALF), exact),
        "gain": [one / size for one in gain],
    }


def floor_and_limit(distances: Sequence[float]) -> tuple[float, float]:
    """The geometric mean of the members, as if rounded to the nearest, and how far a run may be: three deviations of
    their logarithms more.

    Few members tell little of their own spread: it counts as at least 0.35, and as wider the fewer they are.
    """
    logs = [math.log(one / math.sqrt(2)) for one in distances]
    mean, spread = statistics.fmean(logs), max(statistics.stdev(logs), LEAST_SPREAD)
    return math.exp(mean), math.exp(mean + 3 * math.sqrt(1 + 1 / len(logs)) * spread)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--nearest", action="store_true", help="round the floor's latents and times to the nearest")
    parser.add_argument("--families", nargs="+", default=list(MODELS), choices=list(MODELS))
    options = parser.parse_args()
    too_far = 0
    for family in options.families:
        with tempfile.TemporaryDirectory() as folder:
            found = measured(family, options.steps, folder, options.members, options.nearest)
        table = Table("step", *found, title=PIPELINES[family])
        for index, row in enumerate(zip(*found.values(), strict=True)):
            *far, gain = row
            table.add_row(str(index), *(f"{value:.2e}" for value in far), f"{gain:.2f}")
        console.print(table)
        over = {name: ratios(found["lockstep"], found[name]) for name in ("floor", "diffusers", "at most")}
        told = ", ".join(f"{min(many):.2f} to {max(many):.2f} of {name!r}" for name, many in over.items())
        console.print(f"lockstep: {told}")
        too_far += sum(one > 1 for one in over["at most"])
    if too_far:
        console.print(f"{too_far} steps lie farther from fp32 than the format explains")
        sys.exit(1)


def ratios(ones: list[float], others: list[float]) -> list[float]:
    return [one / other for one, other in zip(ones, others, strict=True)]


if __name__ == "__main__":
    main()
