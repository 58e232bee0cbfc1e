"""Accelerated models beside diffusers' own, on the same random weights: time, ratio, error, memory.

python -m benchmarks.acceleration [unet|vae|picture ...] [--size 64] [--rounds 3]

The UNet and the autoencoder have the sizes of Stable Diffusion 1.5 (a UNet of 3.4 GB in fp32, twice); "picture" is a
whole picture of the embedded model, with its trained weights.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from .machine import console, interleaved, print_comparison, print_machine, seconds

UNET = {"sample_size": 64, "cross_attention_dim": 768}
VAE = {
    "block_out_channels": (128, 256, 512, 512),
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "layers_per_block": 2,
}


def unet(size: int) -> tuple[Any, Any, Callable[[Any], Any]]:
    """diffusers' UNet, ours with its weights, and a forward pass of two latents."""
    import diffusers
    import torch

    import lockstep

    theirs = diffusers.UNet2DConditionModel(**UNET).eval()
    ours = lockstep.UNet2DConditionModel(**UNET).eval()
    ours.load_state_dict(theirs.state_dict(), assign=True)
    x, text = torch.randn(2, 4, size, size), torch.randn(2, 77, 768)
    return theirs, ours, lambda model: model(x, torch.tensor(501), text).sample


def vae(size: int) -> tuple[Any, Any, Callable[[Any], Any]]:
    """diffusers' autoencoder, ours with its weights, and the decoding of one latent."""
    import diffusers
    import torch

    import lockstep

    theirs = diffusers.AutoencoderKL(**VAE).eval()
    ours = lockstep.AutoencoderKL(**VAE).eval()
    ours.load_state_dict(theirs.state_dict(), assign=True)
    x = torch.randn(1, 4, size, size)
    return theirs, ours, lambda model: model.decode(x).sample


def compare(name: str, size: int, rounds: int) -> None:
    """One model, three ways, in turn."""
    import torch

    torch.manual_seed(0)
    with torch.no_grad():
        theirs, ours, run = {"unet": unet, "vae": vae}[name](size)
        exact = run(theirs)
        fast = type(ours)(**(UNET if name == "unet" else VAE)).eval()
        fast.load_state_dict(theirs.state_dict(), assign=True)
        sides = {"diffusers": theirs, "lockstep": ours, "lockstep, exact": fast.accelerate()}
        console.print(f"[dim]{name}[/] {fast.acceleration}", highlight=False)
        for side, model in sides.items():  # warm up
            error = float((run(model) - exact).norm() / exact.norm())
            console.print(f"[dim]relative L2 of {side} to diffusers[/] {error:.1e}", highlight=False)
        results = interleaved({side: lambda m=model: seconds(lambda: run(m)) for side, model in sides.items()}, rounds)
    print_comparison(f"{name}, {size}x{size} latents", "s", results, "diffusers")


def compare_pictures(rounds: int) -> None:
    """A whole picture of the embedded model, words to pixels."""
    import diffusers
    import torch

    import lockstep
    from lockstep.files import resolve_folder

    folder = resolve_folder("lockstep/emoji")
    plain, fast = (lockstep.DiffusionPipeline.from_pretrained(folder, dtype="float32") for _ in range(2))
    theirs = diffusers.DiffusionPipeline.from_pretrained(str(folder)).to(torch.float32)
    sides = {"diffusers": theirs, "lockstep": plain, "lockstep, exact": fast.accelerate()}
    for pipe in sides.values():
        pipe.set_progress_bar_config(disable=True)
    timed = {
        name: lambda p=pipe: seconds(lambda: p("a red heart", num_inference_steps=25)) for name, pipe in sides.items()
    }
    interleaved(timed, 1)  # warm up
    print_comparison("one picture of the embedded model, 25 steps", "s", interleaved(timed, rounds), "diffusers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["unet", "vae", "picture"], choices=["unet", "vae", "picture"])
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    options, _ = parser.parse_known_args()
    print_machine()
    for name in options.what:
        if name == "picture":
            compare_pictures(options.rounds)
        else:
            compare(name, options.size, options.rounds)


if __name__ == "__main__":
    main()
