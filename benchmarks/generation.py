"""Making pictures: the same folder, prompt, steps and seed in Lockstep and in diffusers.

python -m benchmarks.generation [--model FOLDER] [--steps 25] [--rounds 5]
"""

from __future__ import annotations

import argparse
from typing import Any

from .machine import interleaved, print_comparison, print_machine, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="lockstep/emoji")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--rounds", type=int, default=5)
    options, _ = parser.parse_known_args()
    import diffusers

    import lockstep
    from lockstep.files import resolve_folder

    print_machine()
    folder = resolve_folder(options.model)
    ours = lockstep.DiffusionPipeline.from_pretrained(folder)
    theirs = diffusers.DiffusionPipeline.from_pretrained(str(folder))
    for side in (ours, theirs):
        side.set_progress_bar_config(disable=True)

    def run(pipe: Any, **seed: Any) -> float:
        return seconds(lambda: pipe("a red heart", num_inference_steps=options.steps, **seed))

    sides = {"lockstep": lambda: run(ours, seed=0), "diffusers": lambda: run(theirs)}
    interleaved(sides, 1)  # warm up
    print_comparison(
        f"one picture, {options.steps} steps with guidance", "s", interleaved(sides, options.rounds), "diffusers"
    )


if __name__ == "__main__":
    main()
