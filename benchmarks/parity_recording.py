"""What recording costs: a Stable Diffusion 1.5 size UNet, bare and recorded, side by side in one process.

    python benchmarks/parity_recording.py                 # 860 M parameters, 64x64 latents
    python benchmarks/parity_recording.py --channels 64,128,256,256 --rounds 5

Prints the time of each forward, the CPU time (which other work on the machine disturbs less), and the peak memory.
The limits are 1.25 times the bare forward and 300 MB.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from lockstep.parity import Trace, record
from lockstep.parity.recording.effective import FINGERPRINTS


def peak_memory() -> float:
    """Largest resident size since the last reset, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return float("nan")


def measured(run: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, float, float, float]:
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    wall, cpu = time.perf_counter(), time.process_time()
    result = run()
    return result, time.perf_counter() - wall, time.process_time() - cpu, peak_memory()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--channels", default="320,640,1280,1280")
    parser.add_argument("--size", type=int, default=64, help="latent height and width")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--level", default="module+ops", choices=["module", "module+ops"])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    from diffusers import UNet2DConditionModel

    torch.manual_seed(0)
    channels = tuple(int(c) for c in options.channels.split(","))
    unet = UNet2DConditionModel(block_out_channels=channels, cross_attention_dim=768, attention_head_dim=8).eval()
    sample, context = torch.randn(1, 4, options.size, options.size), torch.randn(1, 77, 768)
    print(
        f"{sum(p.numel() for p in unet.parameters()) / 1e6:.1f} M parameters, {options.level}, {options.threads} "
        f"threads"
    )

    def bare() -> torch.Tensor:
        return unet(sample, 981, context).sample

    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = Path(folder, "run.trace")

        def recorded() -> torch.Tensor:
            FINGERPRINTS.clear()  # the weights are fingerprinted in every round, as in a first recording
            with record(unet, path, level=options.level):
                return bare()

        bare()
        rows = []
        for _ in range(options.rounds):
            plain, traced = measured(bare), measured(recorded)
            assert torch.equal(plain[0], traced[0]), "recording changed the result"
            rows.append((plain[1:], traced[1:]))
            print(
                f"bare {plain[1]:7.2f} s (cpu {plain[2]:7.2f})   recorded {traced[1]:7.2f} s (cpu {traced[2]:7.2f})   "
                f"memory +{traced[3] - plain[3]:.0f} MB"
            )
        best = [min(row[side][column] for row in rows) for column in (0, 1) for side in (0, 1)]
        memory = max(row[1][2] for row in rows) - max(row[0][2] for row in rows)
        size = sum(file.stat().st_size for file in path.iterdir()) / 1e6
        print(f"recorded / bare: {best[1] / best[0]:.3f} (cpu {best[3] / best[2]:.3f}), memory +{memory:.0f} MB")
        print(f"{len(Trace.open(path).entries)} values, {size:.1f} MB on disk; results equal to the last bit")


if __name__ == "__main__":
    main()
