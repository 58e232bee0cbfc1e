"""Cold start: from process start to a Stable Diffusion 1.5 pipeline ready to run, full size, random weights on disk.

    python -m benchmarks.cold_start [--rounds 3] [--folder DIR]

Prints seconds, resident memory and peak memory of Lockstep and diffusers, interleaved, each in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .machine import console, interleaved, print_comparison, print_machine

UNET = {
    "sample_size": 64, "cross_attention_dim": 768, "attention_head_dim": 8,
    "block_out_channels": [320, 640, 1280, 1280],
    "down_block_types": ["CrossAttnDownBlock2D"] * 3 + ["DownBlock2D"],
    "up_block_types": ["UpBlock2D"] + ["CrossAttnUpBlock2D"] * 3,
}  # fmt: skip
VAE = {
    "block_out_channels": [128, 256, 512, 512], "layers_per_block": 2, "sample_size": 512,
    "down_block_types": ["DownEncoderBlock2D"] * 4, "up_block_types": ["UpDecoderBlock2D"] * 4,
}  # fmt: skip
TEXT = {
    "vocab_size": 49408, "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "max_position_embeddings": 77, "hidden_act": "quick_gelu", "projection_dim": 768,
}  # fmt: skip
MEASURE = """
import sys, time
started = time.perf_counter()
{load}
took = time.perf_counter() - started
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(took, int(status["VmRSS"].split()[0]) / 1024, int(status["VmHWM"].split()[0]) / 1024)
"""
LOADS = {
    "lockstep": "from lockstep import StableDiffusionPipeline as P\npipe = P.from_pretrained({folder!r}, {ours})",
    "diffusers": "from diffusers import StableDiffusionPipeline as P\npipe = P.from_pretrained({folder!r}, {theirs})",
}


def save_full_size(folder: Path) -> Path:
    """A folder of Stable Diffusion 1.5's sizes in fp32 and as fp16 variant; made once."""
    if (folder / "model_index.json").is_file():
        return folder
    import torch

    import lockstep

    console.print(f"writing full-size random weights to {folder} (6.5 GB)")
    torch.manual_seed(0)
    tokenizer = lockstep.CLIPTokenizer.train(["a photo of a cat"] * 2, vocab_size=600)
    parts = {
        "unet": lockstep.UNet2DConditionModel(**UNET),
        "vae": lockstep.AutoencoderKL(**VAE),
        "text_encoder": lockstep.CLIPTextModel(**TEXT),
    }
    index = {
        "_class_name": "StableDiffusionPipeline",
        "safety_checker": [None, None],
        "feature_extractor": [None, None],
    }
    index |= {"image_encoder": [None, None], "requires_safety_checker": False}
    for name, part in parts.items():
        part.save_pretrained(folder / name)
        part.half().save_pretrained(folder / name, variant="fp16")
        index[name] = ["transformers" if name == "text_encoder" else "diffusers", type(part).__name__]
    tokenizer.save_pretrained(folder / "tokenizer")
    lockstep.PNDMScheduler(beta_schedule="scaled_linear", skip_prk_steps=True, steps_offset=1).save_pretrained(
        folder / "scheduler"
    )
    index |= {"tokenizer": ["transformers", "CLIPTokenizer"], "scheduler": ["diffusers", "PNDMScheduler"]}
    (folder / "model_index.json").write_text(json.dumps(index, indent=2))
    return folder


def measure(side: str, folder: Path, ours: str, theirs: str) -> tuple[float, float, float]:
    """Wall seconds of the whole process, resident and peak MiB."""
    code = MEASURE.format(load=LOADS[side].format(folder=str(folder), ours=ours, theirs=theirs))
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    wall = time.perf_counter() - started
    _, resident, peak = map(float, done.stdout.split()[-3:])
    return wall, resident, peak


def compare(title: str, folder: Path, rounds: int, ours: str, theirs: str) -> None:
    memory: dict[str, list[tuple[float, float]]] = {side: [] for side in LOADS}

    def run(side: str) -> float:
        wall, resident, peak = measure(side, folder, ours, theirs)
        memory[side].append((resident, peak))
        return wall

    results = interleaved({side: lambda side=side: run(side) for side in LOADS}, rounds)  # type: ignore[misc]
    print_comparison(title, "s", results, "diffusers")
    for side, values in memory.items():
        console.print(
            f"  {side}: resident {min(r for r, _ in values):.0f} MiB, peak {min(p for _, p in values):.0f} MiB"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the weights are kept; a temporary folder if not given")
    options, _ = parser.parse_known_args()
    print_machine()
    with tempfile.TemporaryDirectory() as temporary:
        folder = save_full_size(options.folder or Path(temporary))
        compare("fp32 files, kept as they are", folder, options.rounds, "", "")
        compare("fp16 files cast to fp32", folder, options.rounds, "variant='fp16'", "variant='fp16'")
        half = "variant='fp16', torch_dtype=__import__('torch').bfloat16"
        compare("fp16 files cast to bf16", folder, options.rounds, half, half)


if __name__ == "__main__":
    main()
