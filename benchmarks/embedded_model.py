"""The embedded model in numbers: is it the right thing, in the right style, in the right colour, and how fast?

    python -m benchmarks.embedded_model --work FOLDER [--model lockstep/emoji] [--concepts 341] [--all] [--out FOLDER]

Retrieval: every everyday concept is asked for in each style ("a dog, 3d style"); among the true pictures of all those
concepts in that style, is the nearest one (mean squared distance at 32 x 32, mirror images allowed) the concept asked
for?
Counts: "three apples" in numbers and things: how many separate patches are in the picture? Pairs: "a dog and a cat":
is the left half
nearest to the one and the right half to the other, among the small pictures of all countable things?
Edges: the strongest gradients of what was drawn, as a share of those of the true pictures.
Colour: pairs of concept and colour that no training picture shows ("a purple banana"); does the colour word that
fits the picture best equal the one asked for? Beside it stands what the same measure says of the true recoloured
pictures.
`--work` is the work folder of the training (its `pictures`, `concepts` and `items` stages). First seeds, nothing
chosen.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table

from .embedded_scenes import measure_counts, measure_pairs
from .embedded_sheets import generate
from .machine import console, print_machine

SIDE = 32


class Gallery:
    """True pictures of one style, small, each with its mirror image."""

    def __init__(self, pictures: Sequence[np.ndarray], concepts: Sequence[str]) -> None:
        small = np.stack([shrink(picture) for picture in pictures])
        self.vectors = torch.from_numpy(np.concatenate([small, small[:, :, ::-1]]).reshape(2 * len(small), -1))
        self.concepts = [*concepts, *concepts]

    def ranks(self, pictures: Sequence[np.ndarray], wanted: Sequence[str]) -> list[int]:
        from lockstep.embedded.training.evaluation import retrieval_ranks

        samples = torch.from_numpy(np.stack([shrink(picture) for picture in pictures]).reshape(len(pictures), -1))
        return retrieval_ranks(samples, wanted, self.vectors, self.concepts)


def shrink(picture: np.ndarray) -> np.ndarray:
    """uint8 [H, W, 3] to float [32, 32, 3] by averaging."""
    factor = picture.shape[0] // SIDE
    return picture.reshape(SIDE, factor, SIDE, factor, 3).astype(np.float32).mean((1, 3)) / 255


def settings(options: argparse.Namespace) -> dict[str, Any]:
    given = {"num_inference_steps": options.steps, "guidance_scale": options.guidance, "seed": options.seed}
    return {name: value for name, value in given.items() if value is not None}


def spread(values: Sequence[Any], count: int) -> list[Any]:
    """`count` values, evenly spaced."""
    count = min(count, len(values))
    return [values[index * len(values) // count] for index in range(count)]


def measure_retrieval(pipe: Any, table: Any, rgba: np.ndarray, options: argparse.Namespace) -> dict[str, Any]:
    """Top-1 and top-5 per style over the everyday concepts, or all of them, and which were missed."""
    results: dict[str, Any] = {}
    for style in options.styles:
        items = table.select(core=None if options.all else True, styles=(style,), kinds=("base",), mirrored=False)
        gallery = Gallery([table.render(item, rgba) for item in items], [item.concept for item in items])
        asked = spread(items, options.concepts)
        prompts = [table.caption(item) for item in asked]
        pictures = generate(pipe, prompts, batch=options.batch, **settings(options))
        ranks = gallery.ranks(pictures, [item.concept for item in asked])
        results[style] = {
            "concepts": len(asked),
            "top1": share(rank == 0 for rank in ranks),
            "top5": share(rank < 5 for rank in ranks),
            "missed": [prompt for prompt, rank in zip(prompts, ranks, strict=True) if rank >= 5],
        }
        true = [table.render(item, rgba) for item in asked]
        results[style]["edges"] = float((strengths(pictures) / strengths(true)).mean())
        save(
            options.out / f"retrieval-{style}.png",
            pictures,
            [f"{r + 1}: {p}" for r, p in zip(ranks, prompts, strict=True)],
            columns=16,
        )
        console.print(
            f"{style}: top-1 {results[style]['top1']:.1%}, top-5 {results[style]['top5']:.1%} of {len(asked)}"
        )
    return results


def measure_scenes(pipe: Any, table: Any, rgba: np.ndarray, options: argparse.Namespace) -> dict[str, Any]:
    """Counts and pairs of everyday things."""

    def draw(prompts: Sequence[str], name: str) -> list[np.ndarray]:
        pictures = generate(pipe, prompts, batch=options.batch, **settings(options))
        save(options.out / f"{name}.png", pictures, prompts, columns=16)
        return pictures

    return {**measure_counts(draw, table, rgba, options.scenes), **measure_pairs(draw, table, rgba, options.scenes)}


def measure_colours(pipe: Any, table: Any, rgba: np.ndarray, options: argparse.Namespace) -> dict[str, Any]:
    """Colour words of pictures whose concept and colour were never shown together in training."""
    from lockstep.embedded.training.data import name_colour

    items = spread([item for item in table.held_out if item.kind == "colour" and item.core], options.colours)
    prompts = [table.prompt(item) for item in items]
    pictures = generate(pipe, prompts, batch=options.batch, **settings(options))
    named = [name_colour(picture) for picture in pictures]
    true = [name_colour(table.render(item, rgba)) for item in items]
    labels = [f"{prompt}: {name}" for prompt, name in zip(prompts, named, strict=True)]
    save(options.out / "colours.png", pictures, labels, columns=16)
    return {
        "prompts": len(items),
        "accuracy": share(name == item.colour for name, item in zip(named, items, strict=True)),
        "accuracy_of_true_pictures": share(name == item.colour for name, item in zip(true, items, strict=True)),
        "wrong": [label for label, name, item in zip(labels, named, items, strict=True) if name != item.colour],
    }


def strengths(pictures: Sequence[np.ndarray]) -> torch.Tensor:
    """How sharp the contours of each picture are."""
    from lockstep.embedded.training.edges import edge_strength

    return edge_strength(torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).float())


def measure_speed(pipe: Any, options: argparse.Namespace) -> dict[str, float]:
    """Seconds for one picture in the model's own steps and in four, the best of five."""

    def best(**more: Any) -> float:
        times = []
        for _ in range(5):
            started = time.perf_counter()
            pipe("a red heart", **{**settings(options), **more})
            times.append(time.perf_counter() - started)
        return min(times)

    return {"own": best(), "four": best(num_inference_steps=4)}


def share(values: Iterable[bool]) -> float:
    found = list(values)
    return sum(found) / max(1, len(found))


def save(path: Path, pictures: Sequence[np.ndarray], labels: Sequence[str], columns: int = 8) -> None:
    from lockstep.training.sheets import save_sheet

    console.print(f"[dim]{save_sheet(path, pictures, labels, columns)}[/]")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--model", default="lockstep/emoji")
    parser.add_argument("--out", type=Path, default=Path("embedded-model"))
    parser.add_argument("--styles", nargs="+", default=["3d", "noto", "flat"])
    parser.add_argument("--concepts", type=int, default=10_000, help="per style; fewer are evenly spaced over all")
    parser.add_argument("--colours", type=int, default=128)
    parser.add_argument("--scenes", type=int, default=64, help="prompts of counts, and as many of pairs at most")
    parser.add_argument("--scheduler", help="the model's own unless given")
    parser.add_argument("--all", action="store_true", help="retrieval among all concepts, not the everyday ones alone")
    parser.add_argument("--steps", type=int, help="the model's own unless given")
    parser.add_argument("--guidance", type=float, help="the model's own unless given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=16)
    return parser.parse_args()


def main() -> None:
    options = parse()
    import lockstep
    from lockstep.embedded.training.data import load_items, load_pictures

    print_machine()
    pipe = lockstep.DiffusionPipeline.from_pretrained(options.model)
    pipe.set_progress_bar_config(disable=True)
    if options.scheduler:
        pipe.scheduler = getattr(lockstep, options.scheduler).from_config(pipe.scheduler.config)
    table, (rgba, _) = load_items(options.work), load_pictures(options.work)
    options.out.mkdir(parents=True, exist_ok=True)
    results = {
        "model": str(options.model),
        "settings": settings(options),
        "seconds_per_picture": measure_speed(pipe, options),
        "colours": measure_colours(pipe, table, rgba, options),
        "retrieval": measure_retrieval(pipe, table, rgba, options),
        "scenes": measure_scenes(pipe, table, rgba, options),
    }
    (options.out / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    report = Table("measure", "result", "wanted", title=f"{options.model}", title_justify="left")
    for style, found in results["retrieval"].items():
        report.add_row(
            f"top-1 / top-5, {style} ({found['concepts']})", f"{found['top1']:.1%} / {found['top5']:.1%}", "85 % / 95 %"
        )
        report.add_row(f"edges, {style}", f"{found['edges']:.2f} of the true pictures'", "0.8 to 1.2")
    colours = results["colours"]
    report.add_row(
        "colour (true pictures)", f"{colours['accuracy']:.1%} ({colours['accuracy_of_true_pictures']:.1%})", "90 %"
    )
    scenes = results["scenes"]
    report.add_row(
        "counts (true scenes)", f"{scenes['counts_right']:.1%} ({scenes['counts_of_true_scenes']:.1%})", "60 %"
    )
    report.add_row("pairs, both halves in the top 5", f"{scenes['pairs_both_in_top5']:.1%}", "60 %")
    seconds = results["seconds_per_picture"]
    report.add_row(
        "a picture as it comes; in 4 steps", f"{seconds['own']:.2f} s; {seconds['four']:.2f} s", "1.2; 0.35 s"
    )
    console.print(report)


if __name__ == "__main__":
    main()
