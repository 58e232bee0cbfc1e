"""A video that is written frame by frame is whole under its name, or kept under another one, or not there."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from lockstep import media
from lockstep.errors import InputError, WriteError
from media.clips import RECORD, clip

VIDEOS = media.kind_named("video")
SUFFIXES = [".mp4", ".webm", ".mkv", ".gif", ""]


def written_until(path, frames, problem=None):
    """A video whose writing ends with an error."""
    with media.writer(path, fps=12, describe=lambda folder: RECORD) as writer:
        for frame in frames:
            writer.add(frame)
        if problem is not None:
            raise problem


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_frames_as_they_come(tmp_path, suffix):
    path = tmp_path / f"clip{suffix}"
    with media.writer(path, fps=12, describe=lambda folder: RECORD) as writer:
        for frame in clip(9):
            writer.add(torch.from_numpy(np.array(frame)).permute(2, 0, 1))
            assert not path.exists()
    assert len(VIDEOS.load(path)) == writer.num_frames == 9
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("problem", [KeyboardInterrupt, RuntimeError])
def test_what_is_done_is_kept_as_a_valid_video(tmp_path, suffix, problem):
    path = tmp_path / f"clip{suffix}"
    VIDEOS.write(clip(2), path, lambda folder: RECORD, fps=8)
    with pytest.raises(problem) as caught:
        written_until(path, clip(5), problem("stop"))
    kept = tmp_path / f"clip-unfinished{suffix}"
    assert str(kept) in caught.value.__notes__[0]
    assert len(VIDEOS.load(kept)) == 5
    assert media.read_manifest(kept)["unfinished"] is True
    assert len(VIDEOS.load(path)) == 2  # what was there before stays
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted([path.name, kept.name])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_nothing_comes_of_nothing(tmp_path, suffix):
    with pytest.raises(InputError, match="No frame"), media.writer(tmp_path / f"clip{suffix}", fps=12):
        pass
    with pytest.raises(RuntimeError), media.writer(tmp_path / f"clip{suffix}", fps=12):
        raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_frames_of_another_size_are_refused_and_the_others_kept(tmp_path):
    with pytest.raises(InputError, match="64x48, got 32x32") as caught:
        written_until(tmp_path / "a.mkv", [clip(1)[0], clip(1, 32, 32)[0]])
    assert "1 frames" in caught.value.__notes__[0]


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from pathlib import Path
import numpy as np
from PIL import Image
from lockstep import media
from lockstep.errors import WriteError
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
frames = [Image.fromarray(one) for one in np.random.default_rng(0).integers(0, 256, (30, 128, 128, 3), dtype=np.uint8)]
folder = Path(sys.argv[1])
for kind, item, suffix in [("picture", frames[0], s) for s in (".png", ".webp", ".jpg")] + [
    ("video", frames, s) for s in (".mp4", ".webm", ".mkv", ".gif", "")
]:
    options = {"fps": 8} if kind == "video" else {}
    try:
        media.kind_named(kind).write(item, folder / f"a{suffix}", lambda folder: {}, **options)
        print("written", suffix)
    except WriteError as problem:
        print("refused", suffix, problem)
"""


def test_a_disk_that_is_full_is_an_error_of_ours_and_leaves_nothing(tmp_path):
    """The limit on the size of a file stands for a full disk: the same calls fail."""
    told = subprocess.run([sys.executable, "-c", FULL, tmp_path], capture_output=True, text=True, check=True)
    lines = told.stdout.splitlines()
    assert len(lines) == 8
    assert all(line.startswith("refused") and "cannot be written" in line for line in lines), told
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("in the way")
    for path, kind, item, options in (
        (tmp_path / "file" / "a.png", "picture", clip(1)[0], {}),
        (tmp_path / "file" / "a.mp4", "video", clip(2), {"fps": 8}),
    ):
        with pytest.raises(WriteError, match="cannot be written"):
            media.kind_named(kind).write(item, path, **options)
