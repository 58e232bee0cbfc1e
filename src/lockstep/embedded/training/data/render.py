"""Drawings to pictures: RGBA 128 px, cropped to what is drawn, centred, the longer side 92 % of the canvas."""

from __future__ import annotations

import io
import multiprocessing
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from rich.progress import Progress

from .... import files
from ....errors import BackendError, NotFoundError, UnknownNameError
from .art import STYLES, Drawing
from .colours import natural_colour
from .concepts import build_concepts, save_concepts
from .sources import read_sources
from .storage import hash_of, read_json, write_json

SIZE = 128
FILL = 0.92
OVERSAMPLE = 3  # vectors are drawn larger, because many fill only a part of their view box
NAMING_VERSION = 2  # the same for the naming of colours
RENDER_VERSION = 1  # raise it when the rendering itself changes, so that old pictures are not taken for new ones


@dataclass(frozen=True)
class Picture:
    """One row of `rgba.npy`. `natural` is the colour word that fits the picture as drawn, if one does."""

    index: int
    concept: str
    style: str
    licence: str
    source: str
    natural: str | None


def render_pictures(work: Path, *, styles: tuple[str, ...] = tuple(STYLES), workers: int = 2) -> Path:
    """Render every concept in every style into `pictures/`; a style that is there with the same inputs is kept."""
    for style in styles:
        if style not in STYLES:
            raise UnknownNameError("style", style, STYLES)
    require_rasteriser()
    sources = read_sources(work)
    concepts = build_concepts(work / "unpacked")
    save_concepts(work, concepts)
    plan = {style: list(STYLES[style].find(work / "unpacked", style, concepts)) for style in styles}
    inputs = {style: hash_of(RENDER_VERSION, SIZE, FILL, [describe(d) for d in plan[style]]) for style in styles}
    inputs["colour words"] = str(NAMING_VERSION)
    table_path = work / "pictures/table.json"
    if table_path.is_file() and read_json(table_path, made_by="render")["inputs"] == inputs:
        return table_path
    with Progress() as progress, make_pool(workers) as pool:
        for style, drawings in plan.items():
            render_style(work / "pictures/parts", style, drawings, inputs[style], pool, progress)
        join_styles(work / "pictures", inputs, sources, pool, progress)
    return table_path


def require_rasteriser() -> None:
    try:
        import resvg_py  # noqa: F401
    except ImportError as problem:
        raise BackendError(
            "Wanted resvg-py to draw SVG pictures, and it is not installed. Install `lockstep-diffusion[training]`."
        ) from problem


def make_pool(workers: int) -> ProcessPoolExecutor:
    # Spawned, not forked: the caller may hold torch threads, which do not survive a fork.
    return ProcessPoolExecutor(max_workers=workers, mp_context=multiprocessing.get_context("spawn"))


def describe(drawing: Drawing) -> list[str]:
    """What decides a picture. Bitmaps go by name, since their archive is pinned by its hash."""
    return [drawing.concept, drawing.svg or (drawing.bitmap.name if drawing.bitmap else "")]


def render_style(
    folder: Path, style: str, drawings: list[Drawing], inputs: str, pool: ProcessPoolExecutor, progress: Progress
) -> None:
    """Render one style into its own part: a stopped run, or a change in one style, costs only what is missing."""
    record = folder / f"{style}.json"
    if record.is_file() and read_json(record, made_by="render")["inputs"] == inputs:
        return
    task = progress.add_task(f"render {style}", total=len(drawings))
    pictures, codes = [], []
    for drawing, picture in zip(drawings, pool.map(render_drawing, drawings, chunksize=8), strict=True):
        progress.advance(task)
        if picture is not None:
            pictures.append(picture)
            codes.append(drawing.concept)
    with files.atomic(folder / f"{style}.npy") as path, path.open("wb") as file:
        np.save(file, np.stack(pictures))
    write_json(record, {"inputs": inputs, "concepts": codes})


def render_drawing(drawing: Drawing) -> np.ndarray | None:
    """One drawing to RGBA; nothing for a drawing that turns out empty."""
    import resvg_py

    if drawing.svg is not None:
        side = SIZE * OVERSAMPLE
        png = resvg_py.svg_to_bytes(svg_string=drawing.svg, width=side, height=side, skip_system_fonts=True)
        image = Image.open(io.BytesIO(bytes(png)))
    else:
        assert drawing.bitmap is not None, f"a drawing of {drawing.concept} with neither SVG nor bitmap"
        image = Image.open(drawing.bitmap)
    return fit(image.convert("RGBA"))


def fit(image: Image.Image) -> np.ndarray | None:
    """Crop to what is visible, scale, centre on an empty canvas. Pillow resizes RGBA premultiplied: no dark seams."""
    visible = np.asarray(image)[..., 3] > 8
    if visible.sum() < 40:
        return None
    rows, columns = np.flatnonzero(visible.any(1)), np.flatnonzero(visible.any(0))
    image = image.crop((columns[0], rows[0], columns[-1] + 1, rows[-1] + 1))
    scale = FILL * SIZE / max(image.size)
    width, height = (max(1, round(side * scale)) for side in image.size)
    small = np.asarray(image.resize((width, height), Image.Resampling.LANCZOS))
    canvas = np.full((SIZE, SIZE, 4), (255, 255, 255, 0), np.uint8)
    top, left = (SIZE - height) // 2, (SIZE - width) // 2
    canvas[top : top + height, left : left + width] = small
    # What cannot be seen is set to one value, so that equal pictures are equal bytes.
    canvas[canvas[..., 3] == 0, :3] = 255
    return canvas


def join_styles(
    folder: Path,
    inputs: dict[str, str],
    sources: dict[str, dict[str, str]],
    pool: ProcessPoolExecutor,
    progress: Progress,
) -> None:
    """All parts as one array and one table; the table is written last and stands for the whole."""
    styles = [style for style in inputs if style in STYLES]
    parts = {style: np.load(folder / f"parts/{style}.npy", mmap_mode="r") for style in styles}
    total = sum(map(len, parts.values()))
    rows = list(describe_rows(folder, parts, sources, pool, progress, total))
    table = folder / "table.json"
    with files.atomic(folder / "rgba.npy") as path:
        array = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(total, SIZE, SIZE, 4))
        np.concatenate(list(parts.values()), out=array)
        array.flush()
        # Gone only for the moment in which it would be wrong: readers open the old pair, then the new one.
        table.unlink(missing_ok=True)
    counts = {"styles": Counter(row.style for row in rows), "licences": Counter(row.licence for row in rows)}
    write_json(table, {"inputs": inputs, **counts, "pictures": [asdict(row) for row in rows]})


def describe_rows(
    folder: Path,
    parts: dict[str, np.ndarray],
    sources: dict[str, dict[str, str]],
    pool: ProcessPoolExecutor,
    progress: Progress,
    total: int,
) -> Iterator[Picture]:
    """The table's record of every picture, its colour word included."""
    task = progress.add_task("name colours", total=total)
    index = 0
    for style, part in parts.items():
        codes = read_json(folder / f"parts/{style}.json", made_by="render")["concepts"]
        source = sources[STYLES[style].package]
        package = f"{source['name']}@{source['version']}"
        for code, natural in zip(codes, pool.map(natural_colour, part, chunksize=32), strict=True):
            yield Picture(index, code, style, source["licence"], package, natural)
            index += 1
            progress.advance(task)


def load_pictures(work: Path) -> tuple[np.ndarray, list[Picture]]:
    """The pictures as a read-only memory map uint8 [P, 128, 128, 4] (straight alpha), and one record for each."""
    table = read_json(Path(work) / "pictures/table.json", made_by="render")
    path = Path(work) / "pictures/rgba.npy"
    if not path.is_file():
        raise NotFoundError(f"Wanted the pictures in {path}, and they are not there. Run the stage `render` first.")
    return np.load(path, mmap_mode="r"), [Picture(**record) for record in table["pictures"]]
