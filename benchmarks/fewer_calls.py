"""What `fast` gives up: pictures of the embedded model (trained weights) with calls left out, beside those with all.

python -m benchmarks.fewer_calls [--bounds 0.012] [--samplers ddim,dpm,euler,unipc,ancestral] [--steps 20]
                                 [--prompts 64] [--level fast]

For each sampler and bound: the share of calls that were made, and PSNR and SSIM to the picture with all of them at
`exact`. The level `fast` multiplies in bf16, too, where the processor does; `exact` leaves out calls alone.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

from rich.progress import track
from rich.table import Table

from .machine import console, print_machine

SAMPLERS = {
    "ddim": "DDIMScheduler",
    "dpm": "DPMSolverMultistepScheduler",
    "euler": "EulerDiscreteScheduler",
    "unipc": "UniPCMultistepScheduler",
    "ancestral": "EulerAncestralDiscreteScheduler",
}
THINGS = [
    "dog",
    "cat",
    "horse",
    "cow",
    "pig",
    "mouse",
    "rabbit",
    "fox",
    "bear",
    "panda",
    "koala",
    "tiger",
    "lion",
    "frog",
    "monkey",
    "chicken",
    "penguin",
    "bird",
    "duck",
    "owl",
    "bat",
    "wolf",
    "snail",
    "bee",
    "fish",
    "octopus",
    "whale",
    "turtle",
    "apple",
    "banana",
    "cherry",
    "strawberry",
    "grapes",
    "lemon",
    "pizza",
    "hamburger",
    "cake",
    "cookie",
    "car",
    "bus",
    "train",
    "rocket",
    "airplane",
    "bicycle",
    "boat",
    "house",
    "tree",
    "flower",
    "sun",
    "moon",
    "star",
    "cloud",
    "umbrella",
    "heart",
    "balloon",
    "gift",
    "book",
    "key",
    "lamp",
    "clock",
    "guitar",
    "camera",
    "phone",
    "pencil",
    "crown",
]


def ssim(one: Any, other: Any) -> float:
    """Structural similarity (doi:10.1109/TIP.2003.819861) of two pictures in 0…1, over windows of 8 x 8."""
    from torch.nn.functional import avg_pool2d

    def mean(x: Any) -> Any:
        return avg_pool2d(x, 8, stride=1)

    a, b = mean(one), mean(other)
    variances = mean(one * one) - a * a + mean(other * other) - b * b
    covariance = mean(one * other) - a * b
    c1, c2 = 0.01**2, 0.03**2
    return float(((2 * a * b + c1) * (2 * covariance + c2) / ((a * a + b * b + c1) * (variances + c2))).mean())


def psnr(one: Any, other: Any) -> float:
    return -10 * math.log10(max(float(((one - other) ** 2).mean()), 1e-10))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bounds", default="0.012", help="of `foretell`, separated by commas")
    parser.add_argument("--samplers", default=",".join(SAMPLERS))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--level", default="fast", choices=["fast", "exact"], help="of the pictures with fewer calls")
    options = parser.parse_args()
    import lockstep

    print_machine()
    pipes = [
        lockstep.DiffusionPipeline.from_pretrained("lockstep/emoji", dtype="float32").accelerate(level)
        for level in ("exact", options.level)
    ]
    for pipe in pipes:
        pipe.set_progress_bar_config(disable=True)
    exactly, quickly = pipes
    config, prompts = exactly.scheduler.config, [f"a {thing}" for thing in THINGS][: options.prompts]
    table = Table("sampler", "bound", "calls", "PSNR mean", "worst", "SSIM mean", "worst")
    for sampler in options.samplers.split(","):
        for pipe in pipes:
            pipe.scheduler = getattr(lockstep, SAMPLERS[sampler]).from_config(config)
        measured: dict[float, list[tuple[float, float, float]]] = {}
        for seed, prompt in enumerate(track(prompts, description=sampler, console=console, transient=True)):
            call = {"prompt": prompt, "seed": seed, "num_inference_steps": options.steps, "output_type": "pt"}
            exact = exactly(**call).images
            for bound in map(float, options.bounds.split(",")):
                result = quickly(**call, foretell=bound)
                left_out = len(result.manifest.record.get("foretold_steps", ()))
                shown = options.steps - left_out, psnr(result.images, exact), ssim(result.images, exact)
                measured.setdefault(bound, []).append(shown)
        for bound, found in measured.items():
            calls, decibels, similar = zip(*found, strict=True)
            mean = [sum(values) / len(values) for values in (calls, decibels, similar)]
            table.add_row(
                sampler, f"{bound}", f"{mean[0]:.1f} of {options.steps}", f"{mean[1]:.1f}", f"{min(decibels):.1f}",
                f"{mean[2]:.3f}", f"{min(similar):.3f}",
            )  # fmt: skip
    console.print(table)


if __name__ == "__main__":
    main()
