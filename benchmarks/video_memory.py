"""Does memory grow with the length of a video? What a process needs to decode 81 frames, and one to decode 161.

    python -m benchmarks.video_memory [--side 64] [--width 16]

The streaming decode of Wan's autoencoder hands frames over and keeps none; beside it the whole video at once. Measured
is the peak of the resident memory over what the process had before the first frame (Linux).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from rich.table import Table

from .machine import console

LENGTHS = (81, 161)


def decode(frames: int, side: int, width: int, whole: bool) -> None:
    """One process: random latents through a random autoencoder; prints how much its memory has grown, in MiB."""
    import torch

    from lockstep import AutoencoderKLWan

    torch.manual_seed(0)
    model = AutoencoderKLWan(base_dim=width, num_res_blocks=1).eval()
    latents = torch.randn(1, 16, (frames - 1) // 4 + 1, side // 8, side // 8)
    made = 0
    with torch.no_grad():
        model.decode(latents[:, :, :2])  # what the first calls of the kernels leave behind
        Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
        before = resident("VmRSS")
        if whole:
            made = model.decode(latents).sample.shape[2]
        else:
            for part in model.decode_stream(latents):
                made += part.shape[2]
    assert made == frames
    print(resident("VmHWM") - before)


def resident(name: str) -> float:
    """A size of this process in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


def measured(frames: int, side: int, width: int, whole: bool) -> float:
    words = [str(frames), str(side), str(width), str(int(whole))]
    code = f"from benchmarks.video_memory import decode; decode({', '.join(words[:3])}, bool({words[3]}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=64, help="pixels of a side")
    parser.add_argument("--width", type=int, default=16, help="channels of the autoencoder's first layer")
    options = parser.parse_args()
    table = Table("decode", *(f"{frames} frames" for frames in LENGTHS), "ratio", title="peak memory, MiB")
    for name, whole in (("streaming", False), ("whole", True)):
        short, long = (measured(frames, options.side, options.width, whole) for frames in LENGTHS)
        table.add_row(name, f"{short:.0f}", f"{long:.0f}", f"{long / short:.2f}")
    console.print(table)


if __name__ == "__main__":
    main()
