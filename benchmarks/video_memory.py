"""Does memory grow with the length of a video? Each line is two lengths, each in a process of its own.

    python -m benchmarks.video_memory [--side 64] [--width 16] [--lines decode wan helios]

`decode` is the streaming decode of Wan's autoencoder, `wan` and `helios` are whole pipelines that make chunk after
chunk with `keep_frames=False` and write the frames into an MP4 file as they are ready. Beside them what keeps all.

`tensors` is the largest sum of what tensors hold at a time, without the weights: it is the same in every run.
`resident` is what the process has at most beyond what it had before the first frame, with an allocator that gives back
what is freed (Linux).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.table import Table

from .machine import console

DECODED = (81, 161)
CHUNK, OVERLAP = 17, 5
LENGTHS = {"decode": DECODED, "decode, kept": DECODED, "wan": (65, 129), "wan, kept": (65, 129), "helios": (66, 132)}
# one arena, and every block of a tensor's size is mapped and unmapped by itself
ALLOCATOR = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}
MIB = 2**20


def counted(work: Callable[[], Any]) -> int:
    """The most bytes that tensors made by `work` hold at a time."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Held(TorchDispatchMode):
        now = most = 0
        known: dict[int, Any] = {}

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            for tensor in result if isinstance(result, (tuple, list)) else (result,):
                if isinstance(tensor, torch.Tensor):
                    self.note(tensor.untyped_storage())
            return result

        def note(self, storage: Any) -> None:
            place, size = storage.data_ptr(), storage.nbytes()
            if size and place not in self.known:
                self.now += size
                self.most = max(self.most, self.now)
                self.known[place] = weakref.finalize(storage, self.freed, place, size)

        def freed(self, place: int, size: int) -> None:
            self.now -= size
            del self.known[place]

    with Held() as held:
        work()
    return held.most


def resident(name: str) -> int:
    """A size of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024


def autoencoder(width: int) -> Any:
    import torch

    from lockstep import AutoencoderKLWan

    torch.manual_seed(0)
    return AutoencoderKLWan(base_dim=width, num_res_blocks=1).eval()


def decoding(frames: int, side: int, width: int, kept: bool) -> Callable[[], None]:
    import torch

    model = autoencoder(width)
    latents = torch.randn(1, 16, (frames - 1) // 4 + 1, side // 8, side // 8)

    def work() -> None:
        made = 0
        with torch.no_grad():
            for part in [model.decode(latents).sample] if kept else model.decode_stream(latents):
                made += part.shape[2]
        assert made == frames

    return work


def text_parts(width: int) -> dict[str, Any]:
    """A tokenizer of a few words and an encoder for it."""
    from lockstep import T5Tokenizer, UMT5EncoderModel

    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", -2.0), *((f"▁{word}", -3.0) for word in ("a", "cat"))]
    tokenizer = T5Tokenizer.from_vocabulary(pieces, model_max_length=512)
    encoder = UMT5EncoderModel(
        vocab_size=len(tokenizer), d_model=width, d_kv=8, d_ff=2 * width, num_layers=1, num_heads=2
    )
    return {"tokenizer": tokenizer, "text_encoder": encoder.eval()}


def generating(family: str, frames: int, side: int, width: int, kept: bool) -> Callable[[], None]:
    """A tiny random pipeline of a family that makes so many frames and streams them into a file."""
    import lockstep
    from lockstep import media

    sizes = {
        "num_attention_heads": 2, "attention_head_dim": 12, "in_channels": 16, "out_channels": 16, "text_dim": 16,
        "freq_dim": 16, "ffn_dim": 32, "num_layers": 1,
    }  # fmt: skip
    given: dict[str, Any] = {"prompt": "a cat", "height": side, "width": side, "num_frames": frames, "seed": 1}
    given |= {"num_inference_steps": 1, "max_sequence_length": 8, "keep_frames": kept, "output_type": "pil"}
    parts = {**text_parts(16), "vae": autoencoder(width)}
    if family == "wan":
        pipe = lockstep.WanLongVideoBlocks().init_pipeline()
        parts["transformer"] = lockstep.WanTransformer3DModel(**sizes).eval()
        parts["scheduler"] = lockstep.FlowMatchEulerDiscreteScheduler(shift=3.0)
        pipe.update_components(**parts)
        given |= {"frames_per_chunk": CHUNK, "overlap_frames": OVERLAP}
    else:
        parts["transformer"] = lockstep.HeliosTransformer3DModel(**sizes, rope_dim=(4, 4, 4)).eval()
        scheduler = lockstep.HeliosScheduler(stages=1, stage_range=[0, 1], use_dynamic_shifting=True)
        pipe = lockstep.HeliosPipeline(**parts, scheduler=scheduler)
    pipe.set_progress_bar_config(disable=True)

    def work() -> None:
        with tempfile.TemporaryDirectory() as folder, media.writer(Path(folder, "long.mp4"), fps=24) as file:
            for event in pipe.stream(**given):
                for frame in event.value[0] if event.kind == "frames" else ():
                    file.add(frame)

    return work


def prepared(line: str, frames: int, side: int, width: int) -> Callable[[], None]:
    family, _, kept = line.partition(", ")
    if family == "decode":
        return decoding(frames, side, width, bool(kept))
    return generating(family, frames, side, width, bool(kept))


def measure(line: str, frames: int, side: int, width: int, exact: bool) -> None:
    """One process: prints how many bytes it needed."""
    prepared(line, CHUNK, side, width)()
    work = prepared(line, frames, side, width)  # after the first calls of kernels and encoders have taken their share
    if exact:
        print(counted(work))
        return
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    before = resident("VmRSS")
    work()
    print(resident("VmHWM") - before)


def measured(line: str, frames: int, options: argparse.Namespace, exact: bool) -> float:
    """The same from outside, in MiB."""
    words = f"{line!r}, {frames}, {options.side}, {options.width}, {exact}"
    code = f"from benchmarks.video_memory import measure; measure({words})"
    environment = {**os.environ, **ALLOCATOR}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr)
    return int(done.stdout) / MIB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=64, help="pixels of a side")
    parser.add_argument("--width", type=int, default=16, help="channels of the autoencoder's first layer")
    parser.add_argument("--lines", nargs="+", default=list(LENGTHS), choices=list(LENGTHS))
    options = parser.parse_args()
    table = Table("what", "frames", "tensors, MiB", "ratio", "resident, MiB", "ratio")
    for line in options.lines:
        numbers: list[str] = []
        for exact in (True, False):
            short, long = (measured(line, frames, options, exact) for frames in LENGTHS[line])
            numbers += [f"{short:.1f} / {long:.1f}", f"{long / short:.2f}"]
        table.add_row(line, "{} / {}".format(*LENGTHS[line]), *numbers)
    console.print(table)


if __name__ == "__main__":
    main()
