"""What a timing depends on, printed above every benchmark; and the way to measure fairly on a noisy machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from rich.console import Console
from rich.table import Table

console = Console()


def print_machine() -> None:
    """Processor, its instructions, whether it computes bf16 natively, threads and versions."""
    from lockstep.cli.env import describe_machine

    facts = describe_machine()
    names = (
        "processor",
        "cores",
        "threads",
        "instructions",
        "kernels",
        "native bf16",
        "torch",
        "diffusers",
        "transformers",
        "lockstep",
    )
    console.print("  ".join(f"[dim]{name}[/] {facts[name]}" for name in names), highlight=False)


def interleaved(sides: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Each side once a round, in turn, so that a slow moment of the machine hits all of them."""
    results: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, measure in sides.items():
            results[name].append(measure())
    return results


def seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def print_comparison(title: str, unit: str, results: Mapping[str, list[float]], reference: str) -> None:
    """Best of each side, and its ratio to the reference."""
    best = {name: min(values) for name, values in results.items()}
    table = Table("side", f"best ({unit})", "all", "ratio", title=title, title_justify="left")
    for name, values in results.items():
        table.add_row(
            name,
            f"{best[name]:.3f}",
            " ".join(f"{value:.2f}" for value in values),
            f"{best[name] / best[reference]:.2f}",
        )
    console.print(table)
