"""A full-size Stable Diffusion 1.5 as folder, single file and folder again: bit-equal, and with how much memory."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .machine import console

UNET = {"sample_size": 64, "cross_attention_dim": 768}
VAE = {
    "block_out_channels": (128, 256, 512, 512),
    "layers_per_block": 2,
    "sample_size": 512,
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
}
TEXT = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "projection_dim": 768,
    "bos_token_id": 0,
    "eos_token_id": 2,
}


def make_folder(folder: Path, dtype: str) -> None:
    """Stable Diffusion 1.5 with random weights."""
    import torch

    import lockstep

    torch.manual_seed(0)
    parts = {
        "unet": lockstep.UNet2DConditionModel(**UNET),
        "vae": lockstep.AutoencoderKL(**VAE),
        "text_encoder": lockstep.CLIPTextModel(**TEXT),
        "tokenizer": lockstep.CLIPTokenizer.published(),
        "scheduler": lockstep.PNDMScheduler(
            beta_start=0.00085,
            beta_end=0.012,
            beta_schedule="scaled_linear",
            steps_offset=1,
            skip_prk_steps=True,
            set_alpha_to_one=False,
        ),
    }
    index = {"_class_name": "StableDiffusionPipeline", "_diffusers_version": "0.42.1"}
    for name, part in parts.items():
        (part.to(getattr(torch, dtype)) if isinstance(part, torch.nn.Module) else part).save_pretrained(folder / name)
        index[name] = ["transformers" if name.startswith("t") else "diffusers", type(part).__name__]
    index |= {"safety_checker": [None, None], "feature_extractor": [None, None], "requires_safety_checker": False}
    index |= {"image_encoder": [None, None]}
    (folder / "model_index.json").write_text(json.dumps(index, indent=2))


def measured(code: str) -> dict[str, float]:
    """Run code in a process of its own: seconds, and the peak of its memory above the imports, in MB."""
    script = (
        "import json, time, torch, lockstep\nfrom lockstep.loaders.convert import convert\nfrom pathlib import Path\n"
        # the peak since this program began: getrusage would begin with the size of the process that started it
        "peak = lambda: int(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0]) * 1.024e-3\n"
        "before, start = peak(), time.perf_counter()\n"
        f"{code}\n"
        "print(json.dumps({'seconds': time.perf_counter() - start, 'imports': before, 'peak': peak()}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def same_weights(one: Path, other: Path) -> int:
    """How many tensors of two folders are equal to the bit; raises at the first that is not."""
    import torch
    from safetensors import safe_open

    count = 0
    for path in sorted(one.rglob("*.safetensors")):
        with safe_open(path, "pt") as a, safe_open(other / path.relative_to(one), "pt") as b:
            assert set(a.keys()) == set(b.keys()), path
            for name in a.keys():  # noqa: SIM118
                x, y = a.get_tensor(name), b.get_tensor(name)
                assert x.dtype == y.dtype, f"{path}: {name}"
                assert torch.equal(x, y), f"{path}: {name}"
                count += 1
    return count


def same_latents(folder: Path, file: Path, side: int) -> float:
    """The single file in diffusers and in Lockstep: relative L2 of the latents after two steps."""
    import diffusers
    import torch

    import lockstep

    latents = torch.randn(1, 4, side // 8, side // 8)
    call = {
        "prompt": "a photo of a cat",
        "num_inference_steps": 2,
        "output_type": "latent",
        "height": side,
        "width": side,
    }
    theirs = diffusers.StableDiffusionPipeline.from_single_file(
        str(file), config=str(folder), local_files_only=True, torch_dtype=torch.float32
    )
    theirs.set_progress_bar_config(disable=True)
    wanted = theirs(**call, latents=latents.clone()).images
    del theirs
    ours = lockstep.DiffusionPipeline.from_single_file(file)
    ours.set_progress_bar_config(disable=True)
    got = ours(**call, latents=latents.clone()).images
    return float((got - wanted).double().norm() / wanted.double().norm())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16"])
    parser.add_argument("--folder", type=Path, help="where the files go (about three times the model); deleted after")
    parser.add_argument(
        "--side", type=int, default=128, help="of the pictures that are compared with diffusers (0: none)"
    )
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        folder, file, again = root / "folder", root / "model.safetensors", root / "again"
        make_folder(folder, options.dtype)
        largest = max(path.stat().st_size for path in folder.rglob("*.safetensors")) / 1e6
        for name, source, target in (("folder to file", folder, file), ("file to folder", file, again)):
            spent = measured(f"convert(Path({str(source)!r}), Path({str(target)!r}))")
            limit = 1.3 * largest + 300
            console.print(
                f"{name}: {spent['seconds']:.1f} s, peak {spent['peak']:.0f} MB (imports {spent['imports']:.0f}), "
                f"allowed {limit:.0f} MB (largest shard {largest:.0f} MB)"
            )
            assert spent["peak"] <= limit, "the conversion took more memory than it may"
        console.print(f"folder to folder over the file: {same_weights(folder, again)} tensors bit-equal")
        start = time.perf_counter()
        said = subprocess.run(
            [sys.executable, "-m", "lockstep", "inspect", str(file), "--json"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        found = json.loads(said)
        width = next(part for part in found["parts"] if part["component"] == "unet")["implied_config"][
            "cross_attention_dim"
        ]
        console.print(
            f"inspect of {file.stat().st_size / 1e9:.2f} GB: {time.perf_counter() - start:.2f} s: {found['title']}, "
            f"cross_attention_dim {width}"
        )
        if options.side:
            console.print(
                f"latents of diffusers and Lockstep: relative L2 {same_latents(folder, file, options.side):.2g}"
            )
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
