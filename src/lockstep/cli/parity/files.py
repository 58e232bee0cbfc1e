"""`lockstep parity weights | frames`: what files alone can tell, without running anything."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ...errors import InputError, NotFoundError
from ..console import out, print_json
from ..exit_codes import ExitCode
from .options import Json, examples

PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
LISTED = 20


def weights(
    reference: Annotated[Path, typer.Argument(help="A trace, a .safetensors file, or a model's folder.")],
    candidate: Annotated[Path, typer.Argument(help="The same of the other side.")],
    every: Annotated[bool, typer.Option("--all", help="List equal ones under other names too.")] = False,
    json: Json = False,
) -> None:
    """Match parameters by their values: same, permuted, transposed, fused, split or different."""
    from ...parity.comparison.weights import match_weights

    a, b = parameters(reference), parameters(candidate)
    matches = match_weights(a, b)
    counts = Counter(match.kind for match in matches)
    missing = sorted(set(a.params) - {path for m in matches for path in m.a})
    extra = sorted(set(b.params) - {path for m in matches for path in m.b})
    listed = [m for m in matches if m.kind != "same" or (every and m.a != m.b)]
    if json:
        told = [{"kind": m.kind, "reference": list(m.a), "candidate": list(m.b)} for m in listed]
        print_json({"counts": dict(counts), "matches": told, "only_reference": missing, "only_candidate": extra})
    else:
        out.print(
            ", ".join(f"{count} {kind}" for kind, count in counts.most_common()) or "no parameter in common",
            highlight=False,
        )
        table = Table(box=None, padding=(0, 2, 0, 0))
        for column in ("relation", "reference", "candidate"):
            table.add_column(column, overflow="fold")
        rows = [(m.kind, ", ".join(m.a), ", ".join(m.b)) for m in listed]
        rows += [("only there", path, "") for path in missing] + [("only there", "", path) for path in extra]
        for row in rows[:LISTED]:
            table.add_row(*map(Text, row))
        if rows:
            out.print(table)
        if len(rows) > LISTED:
            out.print(f"… and {len(rows) - LISTED} more; --json lists all", style="dim")
    if counts["different"] or any(_says_something(a.params[path]) for path in missing):
        raise typer.Exit(ExitCode.DIFFERENT)


def _says_something(entry: Any) -> bool:
    """Integer buffers are no weights, and a constant (a norm at its start value) has no partner by value."""
    return entry.is_float and (entry.stats is None or entry.stats.min != entry.stats.max)


class Parameters:
    """Fingerprints of a file's tensors, in the shape in which a trace has them."""

    def __init__(self, files: list[Path]) -> None:
        from ...parity.trace.container import SafetensorsFile
        from ...parity.trace.names import Key, Name
        from ...parity.trace.reader import Entry
        from ...parity.trace.sketch import sketch_and_stats

        self.params: dict[str, Entry] = {}
        self._sketches: dict[str, Any] = {}
        for file in files:
            shard = SafetensorsFile(file)
            for name, part in shard.slices.items():
                sketch, stats = sketch_and_stats(shard.array(name))
                self._sketches[name] = sketch
                key = Key("-", name, "param")
                self.params[name] = Entry(
                    Name(len(self.params), *(key.step, key.path, key.slot)), key, part.dtype, part.shape, stats
                )

    def sketch(self, entry: Any) -> Any:
        return self._sketches[entry.key.path]


def parameters(path: Path) -> Any:
    """A trace's fingerprints, or those of safetensors files; a pipeline's folder is read whole, parts as prefixes."""
    from ...parity import Trace

    if (path / "events.jsonl").is_file():
        trace = Trace.open(path)
        if not trace.params:
            raise InputError(f"{path} was recorded without weights; record it again.")
        return trace
    files = [path] if path.is_file() else sorted(path.glob("*.safetensors"))
    if files:
        return Parameters(files)
    raise NotFoundError(
        f"{path} is no trace, no .safetensors file, and no folder that holds one (for a pipeline name its part: "
        f"{path}/unet)."
    )


def frames(
    reference: Annotated[
        Path, typer.Argument(help="A picture, an animation, a video, a .npy array, or a folder of pictures.")
    ],
    candidate: Annotated[Path, typer.Argument(help="The same of the other side.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the sheets.")] = Path("out/frames"),
    at: Annotated[
        str | None, typer.Option("--at", help="Frame numbers, such as 0,60,120; eight of them if left out.")
    ] = None,
    json: Json = False,
) -> None:
    """Pictures and videos side by side, the amplified difference as heat, and a strip that flips between the two."""
    import numpy as np

    from ...parity.report.pictures import amplification, heat

    a, b = read_frames(reference), read_frames(candidate)
    if a.shape != b.shape:
        raise InputError(
            f"{reference} has (frames, height, width) {a.shape[:3]}, {candidate} has {b.shape[:3]}: nothing to lay "
            "side by side."
        )
    chosen = _chosen(at, len(a))
    d = np.abs(b - a)
    factor = amplification(float(d.max(initial=0.0)))
    warm = np.stack([heat(one.max(axis=-1) * factor) for one in d[chosen]])
    rows = [_row(d[i], i) for i in range(len(a))]
    written = {
        "side_by_side": _sheet(
            [np.concatenate([a[i], b[i], w], axis=1) for i, w in zip(chosen, warm, strict=True)],
            output / "side-by-side.png",
        ),
        "heat": _sheet([np.concatenate(list(warm), axis=1)], output / "heat.png"),
        "strip": _sheet([np.concatenate(list(x[chosen]), axis=1) for x in (a, b)], output / "strip.png"),
        "flip": _flip([np.concatenate(list(x[chosen]), axis=1) for x in (a, b)], output / "flip.gif"),
    }
    if json:
        print_json({"files": written, "amplification": factor, "frames": rows})
    else:
        _print_frames([rows[i] for i in chosen], factor, written)
    if any(row["largest"] for row in rows):
        raise typer.Exit(ExitCode.DIFFERENT)


def _row(d: Any, index: int) -> dict[str, Any]:
    mean = float((d**2).mean())
    return {
        "frame": index,
        "psnr": round(10 * math.log10(1 / mean), 2) if mean else None,
        "largest": float(d.max()),
        "mean": float(d.mean()),
    }


def _print_frames(rows: list[dict[str, Any]], factor: float, written: dict[str, str]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("frame", "PSNR", "largest (of 255)", "mean (of 255)"):
        table.add_column(column, justify="right")
    for row in rows:
        psnr = "equal" if row["psnr"] is None else f"{row['psnr']:.1f} dB"
        table.add_row(str(row["frame"]), psnr, f"{255 * row['largest']:.3g}", f"{255 * row['mean']:.3g}")
    out.print(table)
    for name, path in written.items():
        note = f" (difference × {factor:g})" if name in ("heat", "side_by_side") else ""
        out.print(f"[bold green]{path}[/]{note}", highlight=False)


def _chosen(at: str | None, count: int) -> list[int]:
    import numpy as np

    if at is None:
        return [int(i) for i in np.unique(np.linspace(0, count - 1, min(count, 8)).round())]
    try:
        numbers = [int(word) for word in at.split(",")]
    except ValueError as problem:
        raise InputError(f"--at wants frame numbers such as 0,60,120; got {at!r}.") from problem
    outside = [i for i in numbers if not 0 <= i < count]
    if outside:
        raise InputError(f"There are {count} frames, 0 to {count - 1}; --at asks for {outside[0]}.")
    return numbers


def read_frames(path: Path) -> Any:
    """Frames x height x width x 3 in 0..1."""
    import numpy as np

    from ...parity.report.pictures import as_frames

    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix.lower() in PICTURES)
        if not files:
            raise NotFoundError(f"{path} holds no pictures.")
        return np.concatenate([read_frames(file) for file in files])
    if not path.is_file():
        raise NotFoundError(f"There is no picture or video at {path}.")
    if path.suffix == ".npy":
        videos = as_frames(np.load(path, allow_pickle=False))
        if not videos:
            raise InputError(f"{path} is no picture or video: expected three to five axes with 1 or 3 channels.")
        return np.concatenate(videos)
    return _animation(path) if path.suffix.lower() in PICTURES else _video(path)


def _animation(path: Path) -> Any:
    import numpy as np
    from PIL import Image, ImageSequence, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            return np.stack(
                [np.asarray(frame.convert("RGB"), np.float64) / 255 for frame in ImageSequence.Iterator(image)]
            )
    except (UnidentifiedImageError, OSError) as problem:
        raise InputError(f"{path} is no picture that can be read: {problem}") from problem


def _video(path: Path) -> Any:
    import importlib

    import numpy as np

    try:
        av = importlib.import_module("av")
    except ImportError as problem:
        raise InputError(
            f"Reading {path.suffix or path.name} needs the package av (pip install av); or give pictures, a .gif or "
            "a .npy."
        ) from problem
    with av.open(str(path)) as container:
        return np.stack([frame.to_ndarray(format="rgb24") / 255 for frame in container.decode(video=0)])


def _sheet(rows: list[Any], path: Path) -> str:
    """Rows below each other, with a little air between them."""
    import numpy as np

    from ...files import atomic
    from ...parity.report.pictures import png

    gap = np.ones((4, rows[0].shape[1], 3))
    stacked = np.concatenate([part for row in rows for part in (row, gap)][:-1])
    with atomic(path) as temporary:
        Path(temporary).write_bytes(png(stacked))
    return str(path)


def _flip(pair: list[Any], path: Path) -> str:
    """The two strips in turn: what moves is what differs."""
    from PIL import Image

    from ...files import atomic

    images = [Image.fromarray((one * 255 + 0.5).astype("uint8")) for one in pair]
    with atomic(path) as temporary:
        images[0].save(temporary, format="GIF", save_all=True, append_images=images[1:], duration=600, loop=0)
    return str(path)


COMMANDS = [
    (
        weights,
        examples(
            "weights ref.trace cand.trace",
            "weights published.safetensors converted.safetensors --json",
            "weights ./sd15/unet ./port/unet",
        ),
    ),
    (
        frames,
        examples(
            "frames ref.png cand.png",
            "frames ref.mp4 cand.mp4 --at 0,60,120 -o out/frames",
            "frames ref.npy cand.npy --json",
        ),
    ),
]
