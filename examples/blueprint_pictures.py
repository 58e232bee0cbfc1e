"""Pictures of a style that the embedded model has never seen, to teach it one: white lines on blue paper.

    python examples/blueprint_pictures.py blueprints            # 24 pictures with captions, about half a minute
    lockstep train lora blueprints blueprint-style              # a few minutes on two cores
    lockstep generate "a strawberry, blueprint style" --lora blueprint-style

The model draws 24 things itself, and a filter turns each into a blueprint; the prompt in the end is none of the 24.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

import lockstep

THINGS = [
    "a dog", "a cat", "a slice of pizza", "a rocket", "a rose", "a banana", "an elephant", "a fire",
    "a christmas tree", "a snowman", "a penguin", "a hamburger", "an octopus", "an airplane", "a tiger", "a guitar",
    "a house", "a car", "a mushroom", "a smiley face", "a skull", "a butterfly", "a camera", "an umbrella",
]  # fmt: skip
PAPER, INK = np.array([24, 62, 140.0]), np.array([235, 243, 255.0])


def blueprint(picture: Image.Image) -> Image.Image:
    """Edges become white lines, dark parts a light hatching, the rest blue paper."""
    grey = picture.convert("L").filter(ImageFilter.GaussianBlur(1))
    values = np.asarray(grey, float) / 255
    down, across = np.gradient(values)
    lines = np.clip(6 * np.hypot(down, across), 0, 1)
    tone = 0.35 * (1 - values)
    ink = np.maximum(lines, tone)[..., None]
    return Image.fromarray((PAPER * (1 - ink) + INK * ink).round().astype(np.uint8))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    pipe = lockstep.DiffusionPipeline.from_pretrained("lockstep/emoji")
    for index, thing in enumerate(THINGS):
        name = f"{index:02d}-{thing.split(' ', 1)[1].replace(' ', '-')}"
        blueprint(pipe(thing, seed=index).images[0]).save(options.folder / f"{name}.png")
        (options.folder / f"{name}.txt").write_text(f"{thing}, blueprint style\n", encoding="utf-8")
    print(f"{len(THINGS)} pictures with captions in {options.folder}")


if __name__ == "__main__":
    main()
