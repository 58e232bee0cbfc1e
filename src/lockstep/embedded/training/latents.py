"""Latents of the composed pictures, encoded once by a fixed teacher autoencoder and kept on disk.

`latents.npy` has one row per item (float16, as the teacher gives them), `done.npy` says which rows are filled, and
`normal.json` has the mean and deviation per channel that every later stage uses, so that the diffusion model and our
own
autoencoder see latents of mean 0 and deviation 1.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.lib.format import open_memmap
from torch import Tensor, nn

from ... import files
from ...errors import NotFoundError
from ...loaders.taesd import load_taesd
from ...models.autoencoders.autoencoder_tiny import AutoencoderTiny
from ...training.pixels import to_pixels
from ...training.precision import autocast
from ...training.progress import Reporter
from .data import Item, ItemTable, load_items, load_pictures

SHAPE = (4, 16, 16)


@dataclass(frozen=True)
class Normal:
    """Mean and deviation of the teacher's latents, per channel."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def normalise(self, raw: Tensor) -> Tensor:
        return (raw - self._column(self.mean, raw)) / self._column(self.deviation, raw)

    def restore(self, normalised: Tensor) -> Tensor:
        return normalised * self._column(self.deviation, normalised) + self._column(self.mean, normalised)

    @staticmethod
    def _column(values: tuple[float, ...], like: Tensor) -> Tensor:
        return torch.tensor(values, dtype=like.dtype)[:, None, None]


class LatentStore:
    """The latents on disk, for the items of a table (`part` "items") or for its held-out ones ("held_out")."""

    def __init__(self, work: Path, part: str, keys: Sequence[str]) -> None:
        self.folder = work / "latents" / part
        self.normal_path = work / "latents" / "normal.json"
        if not (self.folder / "keys.json").is_file():
            make_arrays(self.folder, keys)
        elif (known := files.read_json(self.folder / "keys.json")["keys"]) != list(keys):
            rearrange(self.folder, known, keys)
        self.latents = np.load(self.folder / "latents.npy", mmap_mode="r+")
        self.done = np.load(self.folder / "done.npy", mmap_mode="r+")

    def write(self, rows: Sequence[int], latents: Tensor) -> None:
        """Fill rows; a row counts as done only after its values are on disk."""
        self.latents[rows] = latents.to(torch.float16).numpy()
        self.latents.flush()
        self.done[rows] = True
        self.done.flush()

    def normal(self) -> Normal:
        """The statistics; measured on what is there the first time, and never changed afterwards."""
        if not self.normal_path.is_file():
            filled = self.latents[np.flatnonzero(self.done)].astype(np.float64)
            if not len(filled):
                raise NotFoundError(f"No latents in {self.folder}. Run the `latents` stage first.")
            values = {"mean": filled.mean((0, 2, 3)).tolist(), "deviation": filled.std((0, 2, 3)).tolist()}
            files.write_text(self.normal_path, json.dumps({**values, "pictures": len(filled)}, indent=2) + "\n")
        return load_normal(self.normal_path.parent.parent)

    def read(self, rows: Sequence[int]) -> Tensor:
        """Normalised latents of the given rows, float32."""
        wanted = np.asarray(rows)
        missing = wanted[~self.done[wanted]]
        if len(missing):
            raise NotFoundError(
                f"{len(missing)} of {len(rows)} latents are not encoded, first row {missing[0]}. Run the `latents` "
                "stage."
            )
        return self.normal().normalise(torch.from_numpy(self.latents[wanted].astype(np.float32)))


def load_normal(work: Path) -> Normal:
    """The statistics that the `latents` stage left."""
    values = files.read_json(work / "latents" / "normal.json")
    return Normal(tuple(values["mean"]), tuple(values["deviation"]))


def load_teacher(folder: str | Path) -> AutoencoderTiny:
    """The published TAESD from its two standalone files."""
    folder = Path(folder)
    teacher = load_taesd(
        folder / "taesd_encoder.safetensors", folder / "taesd_decoder.safetensors", dtype=torch.float32
    )
    return teacher.requires_grad_(False).to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def open_store(work: Path, table: ItemTable, part: str = "items") -> LatentStore:
    """The store of a part of the table, ready to read and write."""
    drawn_from = files.read_json(work / "pictures" / "table.json")["inputs"]
    return LatentStore(work, part, [key_of(item, drawn_from) for item in getattr(table, part)])


def key_of(item: Item, drawn_from: Mapping[str, str]) -> str:
    """What decides an item's picture: with these equal, its latents need not be computed again."""
    source = drawn_from[item.style][:12]
    return (
        f"{source} {item.concept} {item.style} {item.colour} {item.background} {'mirrored' if item.mirror else 'plain'}"
    )


def make_arrays(folder: Path, keys: Sequence[str]) -> tuple[np.memmap, np.memmap]:
    """Empty arrays with one row per key; the keys come last and stand for the whole."""
    folder.mkdir(parents=True, exist_ok=True)
    latents = open_memmap(folder / "latents.npy", mode="w+", dtype=np.float16, shape=(len(keys), *SHAPE))
    done = open_memmap(folder / "done.npy", mode="w+", dtype=bool, shape=(len(keys),))
    files.write_text(folder / "keys.json", json.dumps({"keys": list(keys)}))
    return latents, done


def rearrange(folder: Path, known: Sequence[str], keys: Sequence[str]) -> None:
    """The items changed: keep the latents of those that are the same, in the new order."""
    old_latents, old_done = (np.load(folder / name, mmap_mode="r") for name in ("latents.npy", "done.npy"))
    row_of = {key: row for row, key in enumerate(known) if old_done[row]}
    beside = folder.with_name(f"{folder.name}.rearranged")
    latents, done = make_arrays(beside, keys)
    for row, key in enumerate(keys):
        if key in row_of:
            latents[row], done[row] = old_latents[row_of[key]], True
    latents.flush()
    done.flush()
    replaced = folder.with_name(f"{folder.name}.replaced")
    shutil.rmtree(replaced, ignore_errors=True)
    folder.rename(replaced)
    beside.rename(folder)
    shutil.rmtree(replaced)


def encode_pixels(teacher: nn.Module, pixels: Tensor) -> Tensor:
    """The teacher's latents; native bf16 takes half the time and moves them by 1 %, far less than the noise of a
    training step."""
    with autocast():
        return teacher.encode(pixels, return_dict=False)[0].float()  # type: ignore[operator]


@torch.inference_mode()
def encode_latents(
    work: Path, teacher_folder: Path, items: Sequence[Item] | None = None, part: str = "items", batch_size: int = 32
) -> int:
    """Encode the items that are not encoded yet; how many that were. Can be stopped and started at any time."""
    table = load_items(work)
    store = open_store(work, table, part)
    rgba, _ = load_pictures(work)
    todo = [item for item in (getattr(table, part) if items is None else items) if not store.done[item.index]]
    teacher = load_teacher(teacher_folder)
    with Reporter(f"latents of {part}", len(todo)) as reporter:
        for start in range(0, len(todo), batch_size):
            batch = todo[start : start + batch_size]
            pixels = to_pixels(np.stack([table.render(item, rgba) for item in batch]))
            store.write([item.index for item in batch], encode_pixels(teacher, pixels))
            reporter.advance(start + len(batch))
    if part == "items":
        store.normal()
    return len(todo)


@torch.inference_mode()
def adopt_normal(work: Path, released: Path, most: int = 256, batch_size: int = 32) -> Path:
    """The statistics that a released model was trained with, found again from its own encoder.

    The encoder was taught `(latents - mean) / deviation`: a straight line through its outputs and the teacher's
    latents of
    the same pictures has the deviation as its slope and the mean as its offset.
    """
    table = load_items(work)
    store = open_store(work, table)
    rgba, _ = load_pictures(work)
    rows = np.flatnonzero(store.done)
    rows = rows[:: max(1, len(rows) // most)]
    encoder = AutoencoderTiny.from_pretrained(released / "vae", dtype=torch.float32).encoder
    outputs = [
        encoder(to_pixels(np.stack([table.render(table.items[row], rgba) for row in part])))
        for part in np.split(rows, range(batch_size, len(rows), batch_size))
    ]
    given = torch.cat(outputs).double().transpose(0, 1).flatten(1)
    wanted = torch.from_numpy(store.latents[rows].astype(np.float64)).transpose(0, 1).flatten(1)
    centred = given - given.mean(1, keepdim=True)
    slope = (centred * wanted).sum(1) / centred.square().sum(1)
    offset = wanted.mean(1) - slope * given.mean(1)
    values = {"mean": offset.tolist(), "deviation": slope.tolist(), "pictures": len(rows)}
    files.write_text(store.normal_path, json.dumps(values, indent=2) + "\n")
    return store.normal_path
