"""What the media tests write: a small clip with soft and hard edges, and a pipeline that makes one."""

from typing import Any

import numpy as np
import torch
from PIL import Image

from lockstep.blocks import InputParam, ModularPipelineBlocks, SequentialPipelineBlocks, randn_tensor

RECORD = {"inputs": {"prompt": "ein Gefäß, 猫"}, "components": {}, "model": None, "seed": [3], "workflow": None}


def clip(count: int = 6, width: int = 64, height: int = 48) -> list[Image.Image]:
    y, x = np.mgrid[0:height, 0:width]
    frames = [np.stack([x * 3 + 4 * k, y * 5, 60 + 120 * (x > 8 * k)], -1).clip(0, 255) for k in range(count)]
    return [Image.fromarray(frame.astype(np.uint8)) for frame in frames]


def arrays(frames: list[Image.Image]) -> np.ndarray:
    return np.stack([np.asarray(frame.convert("RGB"), int) for frame in frames])


class Brighten(ModularPipelineBlocks):
    """Adds light and a little noise to a video, or to grey where there is none."""

    inputs = [
        "prompt", "video", "generator", "num_videos_per_prompt", "num_frames",
        InputParam("light", float, default=8.0, description="How much brighter."),
    ]  # fmt: skip
    outputs = ["frames"]

    def __call__(self, components: Any, state: Any) -> None:
        given = state.video if state.video is not None else clip(state.num_frames or 4, 32, 32)
        base = torch.from_numpy(arrays(given)).float()
        noise = randn_tensor((state.num_videos_per_prompt, 1, 4, 4), state.generator)
        rows = []
        for one in noise:
            soft = torch.nn.functional.interpolate(one[None], size=base.shape[1:3], mode="bilinear")[0, 0, :, :, None]
            rows.append((base + state.light + 10 * soft).clamp(0, 255).round().to(torch.uint8).numpy())
        state.frames = [[Image.fromarray(frame) for frame in row] for row in rows]


class BrightenBlocks(SequentialPipelineBlocks):
    """A video in, a brighter one out."""

    block_classes = [Brighten]
    block_names = ["brighten"]
    outputs = ["frames"]


def pipeline() -> Any:
    pipe = BrightenBlocks().init_pipeline()
    pipe.set_progress_bar_config(disable=True)
    return pipe
