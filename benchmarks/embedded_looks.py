"""How good the embedded model's pictures look beside the true ones, for a judge who does not know which is which.

    python -m benchmarks.embedded_looks --work FOLDER --out FOLDER [--model lockstep/emoji] [--concepts 40]

Writes looks.png, pairs of pictures of one thing: one was drawn by the model with the first seed, the other is a true
picture of the set, in random order; and looks.txt, which side is the model's. The judge says of every pair which one
is better, and which one is broken; the answers are counted afterwards. `--work` is the work folder of the training.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import numpy as np

from .embedded_model import spread
from .embedded_sheets import generate
from .machine import console

GAP = 8  # white pixels between the two


def beside(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Two pictures as one, with a white line between them."""
    return np.concatenate([left, np.full((len(left), GAP, 3), 255, np.uint8), right], axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="lockstep/emoji")
    parser.add_argument("--concepts", type=int, default=40)
    parser.add_argument("--style", default="3d")
    options = parser.parse_args()
    import lockstep
    from lockstep.embedded.training.data import load_items, load_pictures
    from lockstep.training.sheets import save_sheet

    table, (rgba, _) = load_items(options.work), load_pictures(options.work)
    items = table.select(core=True, styles=(options.style,), kinds=("base",), mirrored=False)
    items = spread(items, options.concepts)
    pipe = lockstep.DiffusionPipeline.from_pretrained(options.model)
    pipe.set_progress_bar_config(disable=True)
    drawn = generate(pipe, [table.caption(item) for item in items])
    rng, pairs, answers, names = random.Random(0), [], [], []
    for number, (item, ours) in enumerate(zip(items, drawn, strict=True), start=1):
        true, first = table.render(item, rgba), rng.random() < 0.5
        pairs.append(beside(ours, true) if first else beside(true, ours))
        names.append(f"{number}: {table.concepts[item.concept].name}")
        answers.append(f"{number}: the model's is on the {'left' if first else 'right'}")
    options.out.mkdir(parents=True, exist_ok=True)
    console.print(f"[dim]{save_sheet(options.out / 'looks.png', pairs, names, columns=5)}[/]")
    (options.out / "looks.txt").write_text("\n".join(answers) + "\n")


if __name__ == "__main__":
    main()
