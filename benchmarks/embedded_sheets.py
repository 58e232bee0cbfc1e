"""The sheets of the embedded model's card: prompts, compositions never seen together, and edited pictures.

    python -m benchmarks.embedded_sheets [--model lockstep/emoji] [--out FOLDER] [--blind FOLDER] [--prompts FILE]

Every picture is the first one: seed 0, nothing chosen. Writes prompts.jpg, compositions.jpg, free-form.jpg and
editing.jpg into docs/emoji unless told otherwise. `--blind` writes the pictures of the prompts once more, shuffled,
with numbers instead of words, and the answers beside them: a person who has not seen the prompts names what is there,
then the answers are counted.
`--prompts` draws the lines of a file instead, as own.jpg.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw
from rich.progress import track

from .machine import console

SEEN = [
    "a red heart", "a dog", "a cat", "a slice of pizza", "a rocket, 3d style", "the sun", "a rose", "a banana",
    "an elephant", "a fire", "a christmas tree", "a snowman", "a penguin", "a rainbow", "a hamburger", "an octopus",
    "an airplane, flat style", "a tiger, noto style", "a guitar", "a house", "a car, flat style",
    "a mushroom, noto style",
    "a smiley face", "a skull", "a strawberry", "a butterfly, 3d style", "a bicycle, flat style", "a camera",
    "a cactus, noto style",
    "an umbrella", "a birthday cake", "a soccer ball",
]  # fmt: skip
# Held out by the data stage: the training pictures show each thing, colour and background, never together.
UNSEEN_TOGETHER = [
    "a purple banana", "a green elephant on a yellow background", "a blue rose", "a turquoise cat", "a red penguin",
    "a purple slice of pizza", "a green rocket", "a brown heart", "a blue dog on a yellow background",
    "a purple house on a pink background",
    "a pink car on an orange background", "a turquoise mushroom on a brown background", "a gray christmas tree",
    "a purple guitar",
    "a red butterfly on an orange background", "a red avocado",
]  # fmt: skip
# Written as people write, before the model was asked any of it: 48 of one thing, 16 of several.
FREE_FORM = [
    "a puppy", "Draw me a red car, please.", "a big yellow sun", "sunflower!!", "a spaceship", "purple octopus",
    "a green frog",
    "I would like a cup of coffee", "an ice cream", "a smiling face", "crying emoji", "a scary ghost",
    "a pumpkin for halloween",
    "christmas tree", "snowman", "golden crown", "a blue butterfly", "black cat", "a pink flower",
    "a cactus in flat style",
    "a cartoon shark", "the moon", "rainbow", "a fire-breathing dragon", "unicorn", "an old telephone",
    "a laptop computer",
    "an orange guitar", "a pizza", "a cheeseburger", "french fries", "a glass of beer", "a soccer ball",
    "a bicycle, noto style",
    "helicopter", "an airplane on a blue background", "a yellow taxi", "a castle", "a shiny diamond", "a key",
    "a light bulb",
    "a money bag", "a robot", "an owl", "🦊", "🚀", "ein Elefant", "una manzana",
    "two dogs", "three apples", "four balloons", "five stars", "two cups of coffee", "3 bananas",
    "a couple of penguins",
    "three red hearts", "a dog and a cat", "a cat next to a tree", "a car and a house", "a cat wearing a crown",
    "a robot with sunglasses", "an apple and a banana", "a red car next to a blue bus", "a bird on top of a house",
]  # fmt: skip
EDITS = [("a dog", "a tiger"), ("a red heart", "a strawberry"), ("a house", "a castle"), ("a banana", "a blue banana")]
STRENGTHS = (0.5, 0.7, 0.9)
PAINTED = [("a house", "a tree"), ("a cat", "the sun"), ("a car, flat style", "a red heart, flat style")]


def generate(pipe: Any, prompts: Sequence[str], *, batch: int = 16, **options: Any) -> list[np.ndarray]:
    """Pictures for prompts, every one with the first seed."""
    made: list[np.ndarray] = []
    for part in track(list(chunks(prompts, batch)), description="pictures", console=console, transient=True):
        made += [np.asarray(image) for image in pipe(part, **{"seed": 0, **options}).images]
    return made


def chunks(values: Sequence[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(values), size):
        yield list(values[start : start + size])


def editing_rows(pipe: Any) -> tuple[list[Any], list[str]]:
    """Image to image at three strengths, and inpainting: the picture, the mask, the result."""
    pictures: list[Any] = []
    labels: list[str] = []
    for before, after in EDITS:
        start = pipe(before, seed=0).images[0]
        pictures.append(start)
        labels.append(before)
        for strength in STRENGTHS:
            pictures += pipe(after, image=start, strength=strength, seed=0).images
            labels.append(f"{after}, strength {strength}")
    for before, after in PAINTED:
        start = pipe(before, seed=0).images[0]
        mask = Image.new("L", start.size, 0)
        ImageDraw.Draw(mask).rectangle((0, 0, start.width // 2, start.height), fill=255)
        shown = Image.composite(Image.new("RGB", start.size, "magenta"), start, mask)
        painted = [pipe(after, image=start, mask_image=mask, strength=s, seed=0).images[0] for s in (0.8, 1.0)]
        pictures += [start, shown, *painted]
        labels += [before, "the mask", f"{after}, strength 0.8", f"{after}, strength 1"]
    return [np.asarray(picture) for picture in pictures], labels


def write_blind(stem: Path, prompts: Sequence[str], pictures: Sequence[np.ndarray]) -> None:
    """A sheet that does not say what it shows, and the answers in a file of their own."""
    from lockstep.training.sheets import save_sheet

    order = random.Random(0).sample(range(len(prompts)), len(prompts))
    numbers = [str(place + 1) for place in range(len(order))]
    save_sheet(stem.with_suffix(".png"), [pictures[index] for index in order], numbers, columns=8)
    answers = [f"{number}: {prompts[index]}" for number, index in zip(numbers, order, strict=True)]
    stem.with_suffix(".txt").write_text("\n".join(answers) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="lockstep/emoji")
    parser.add_argument("--out", type=Path, default=Path("docs/emoji"))
    parser.add_argument("--blind", type=Path)
    parser.add_argument("--prompts", type=Path)
    options, _ = parser.parse_known_args()
    import lockstep
    from lockstep.training.sheets import save_sheet

    pipe = lockstep.DiffusionPipeline.from_pretrained(options.model)
    pipe.set_progress_bar_config(disable=True)
    options.out.mkdir(parents=True, exist_ok=True)
    sheets = {"prompts": SEEN, "compositions": UNSEEN_TOGETHER, "free-form": FREE_FORM}
    if options.prompts:
        sheets = {"own": options.prompts.read_text(encoding="utf-8").splitlines()}
    for name, prompts in sheets.items():
        pictures = generate(pipe, prompts)
        console.print(f"[dim]{save_sheet(options.out / f'{name}.jpg', pictures, prompts, columns=8)}[/]")
        if options.blind:
            write_blind(options.blind / name, prompts, pictures)
    if options.prompts:
        return
    pictures, labels = editing_rows(pipe)
    console.print(f"[dim]{save_sheet(options.out / 'editing.jpg', pictures, labels, columns=4)}[/]")


if __name__ == "__main__":
    main()
