"""Every format keeps the pixels as far as it says, and the manifest whole."""

import contextlib
import json

import numpy as np
import pytest
import torch
from PIL import Image

from lockstep import media
from lockstep.errors import (
    FileFormatError,
    InputError,
    NonFiniteError,
    NotFoundError,
    UnknownNameError,
    UnsupportedError,
)
from lockstep.media.pixels import PixelHash, difference, pixels_of
from lockstep.media.text import MAX_LENGTH
from media.clips import RECORD, arrays, clip

PICTURES, VIDEOS = media.KINDS
EVERY = [(kind, suffix) for kind in media.KINDS for suffix in kind.suffixes]


def item_of(kind):
    return clip() if kind is VIDEOS else clip()[3]


def write(kind, path, record=RECORD, **options):
    options = {"fps": 24} | options if kind is VIDEOS else options
    return kind.write(item_of(kind), path, lambda folder: record, **options)


@pytest.mark.parametrize(("kind", "suffix"), EVERY)
def test_a_round_trip(tmp_path, kind, suffix):
    path = write(kind, tmp_path / "deep" / f"a{suffix}")
    format = kind.format_for(path)
    apart = difference(kind.frames(item_of(kind)), kind.frames(format.read(path)))
    assert apart.mean <= format.tolerance
    assert (apart.largest == 0) or not format.lossless
    record = media.read_manifest(path)
    assert record | RECORD == record
    assert record["pixels"] == PixelHash(kind.frames(item_of(kind))).text
    assert [one.name for one in (tmp_path / "deep").iterdir()] == [path.name]


@pytest.mark.parametrize(("kind", "suffix"), EVERY)
def test_a_long_manifest_survives_or_is_refused_before_writing(tmp_path, kind, suffix):
    long = {**RECORD, "timesteps": [k / 7 for k in range(30_000)]}
    if suffix in (".jpg", ".jpeg"):
        with pytest.raises(InputError, match=".png or .webp"):
            write(kind, tmp_path / f"a{suffix}", long)
        return
    assert media.read_manifest(write(kind, tmp_path / f"a{suffix}", long))["timesteps"] == long["timesteps"]
    with pytest.raises(InputError, match="at most"):
        write(kind, tmp_path / f"b{suffix}", {**RECORD, "prompt": "x" * MAX_LENGTH})
    assert [one.name for one in tmp_path.iterdir()] == [f"a{suffix}"]


@pytest.mark.parametrize("suffix", VIDEOS.suffixes)
@pytest.mark.parametrize("fps", [24, 16.0, 23.976, 12.5])
def test_rate_and_number_of_frames(tmp_path, suffix, fps):
    path = write(VIDEOS, tmp_path / f"a{suffix}", fps=fps)
    back = VIDEOS.load(path)
    assert len(back) == 6
    assert back.fps == pytest.approx(fps, rel=0.05 if suffix == ".gif" else 5e-3)  # Matroska counts in 1/1000 s
    assert back.filename == path
    assert media.read_manifest(path)["fps"] == pytest.approx(fps, abs=1e-4)
    assert media.read_manifest(path)["frames"] == 6


@pytest.mark.parametrize(("kind", "suffix"), [one for one in EVERY if one[1]])
def test_the_same_pixels_give_the_same_file(tmp_path, kind, suffix):
    """Whatever lay in memory before: a replay compares a lossy file with the same pixels, written again."""
    random = np.random.default_rng(0)
    y, x = np.mgrid[0:48, 0:64]
    soft = [np.asarray(frame) + 30 + 3 * np.sin(x / 9 + y / 7)[..., None] for frame in clip(5)]
    frames = [Image.fromarray(frame.clip(0, 255).round().astype(np.uint8)) for frame in soft]
    item = frames if kind is VIDEOS else frames[0]
    seen, litter = set(), []
    for _ in range(40):
        litter = [*litter[-20:], random.integers(0, 255, int(random.integers(10, 200_000)), dtype=np.uint8)]
        path = kind.write(item, tmp_path / f"a{suffix}", **({"fps": 8} if kind is VIDEOS else {}))
        seen.add(path.read_bytes() if suffix not in (".webm", ".mkv") else arrays(kind.load(path)).tobytes())
    assert len(seen) == 1


def test_an_mp4_starts_at_once_and_plays_at_its_rate(tmp_path):
    import av

    with av.open(str(write(VIDEOS, tmp_path / "a.mp4"))) as container:
        times = [frame.time for frame in container.decode(video=0)]
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
    assert times == pytest.approx([k / 24 for k in range(6)], abs=1e-4)


def test_colours_survive_a_video(tmp_path):
    """Flat colours show a wrong matrix or range at once: each comes back within 3 of 255."""
    for colour in [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0), (200, 120, 40)]:
        for suffix in (".mp4", ".webm"):
            path = VIDEOS.write([Image.new("RGB", (32, 32), colour)] * 3, tmp_path / f"a{suffix}", fps=8)
            assert np.abs(np.asarray(VIDEOS.load(path)[1], int) - colour).max() <= 3, (colour, suffix)


def test_a_gif_of_few_colours_is_exact(tmp_path):
    flat = [Image.new("RGB", (16, 16), (k * 40, 9, 200)) for k in range(5)]
    back = VIDEOS.load(VIDEOS.write(flat, tmp_path / "a.gif", fps=10))
    assert difference(VIDEOS.frames(flat), VIDEOS.frames(back)).largest == 0


def test_frames_may_be_pil_numpy_or_torch(tmp_path):
    frames = clip(2)
    floats = np.asarray(frames[0], np.float32) / 255
    forms = [frames[0], np.asarray(frames[0]), floats, torch.from_numpy(floats).permute(2, 0, 1)]
    assert all(np.array_equal(pixels_of(form), np.asarray(frames[0])) for form in forms)
    assert pixels_of(np.zeros((4, 5), np.uint8)).shape == (4, 5, 3)
    assert pixels_of(Image.new("RGBA", (2, 2))).shape == (2, 2, 4)
    batch = np.stack([np.stack([np.asarray(f, np.float32) / 255 for f in frames])] * 2)
    assert len(VIDEOS.items(batch)) == 2
    assert len(VIDEOS.items(torch.from_numpy(batch).permute(0, 1, 4, 2, 3))) == 2


@pytest.mark.parametrize(
    ("frame", "error", "told"),
    [
        (np.full((4, 4, 3), np.nan, np.float32), NonFiniteError, "NaN"),
        (np.full((4, 4, 3), 2.0, np.float32), InputError, "from 0 to 1"),
        (np.zeros((4, 4, 3), np.int64), InputError, "int64"),
        (np.zeros((4, 4, 7), np.uint8), InputError, "channels"),
        (np.zeros((0, 4, 3), np.uint8), InputError, "channels"),
        ("frame", InputError, "PIL image"),
    ],
)
def test_what_is_no_frame(frame, error, told):
    with pytest.raises(error, match=told):
        pixels_of(frame)


def test_names_and_options_that_no_format_has(tmp_path):
    with pytest.raises(InputError, match=r"\.png, \.webp, \.jpg"):
        write(PICTURES, tmp_path / "a.bmp")
    with pytest.raises(InputError, match=r"\.mp4"):
        write(VIDEOS, tmp_path / "a.avi")
    with pytest.raises(InputError, match="has no meaning for a picture"):
        write(PICTURES, tmp_path / "a.png", fps=3)
    with pytest.raises(UnknownNameError, match="picture, video"):
        media.kind_named("sound")
    for fps in (0, -1, float("nan"), 10**6, True, "24"):
        with pytest.raises(InputError, match="fps"):
            write(VIDEOS, tmp_path / "a.mp4", fps=fps)
    with pytest.raises(InputError, match="50 frames per second"):
        write(VIDEOS, tmp_path / "a.gif", fps=60)
    with pytest.raises(InputError, match="even width"):
        VIDEOS.write(clip(2, 33, 20), tmp_path / "a.mp4", fps=8)
    with pytest.raises(InputError, match="transparency"):
        VIDEOS.write([Image.new("RGBA", (8, 8))], tmp_path / "a.mkv", fps=8)
    with pytest.raises(InputError, match="cannot write mode|JPEG"):
        PICTURES.write(Image.new("RGBA", (8, 8)), tmp_path / "a.jpg")
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="no videos"):
        VIDEOS.items([])


def test_odd_sizes_where_the_format_takes_them(tmp_path):
    for suffix in (".mkv", ".gif", ""):
        assert VIDEOS.load(VIDEOS.write(clip(2, 33, 21), tmp_path / f"a{suffix}", fps=8))[0].size == (33, 21)


def test_without_pyav_the_error_says_what_to_install(tmp_path, monkeypatch):
    import sys

    path = write(VIDEOS, tmp_path / "a.mp4")
    monkeypatch.setitem(sys.modules, "av", None)
    for act in (
        lambda: write(VIDEOS, tmp_path / "b.webm"),
        lambda: VIDEOS.load(path),
        lambda: media.read_manifest(path),
    ):
        with pytest.raises(UnsupportedError, match=r"lockstep-diffusion\[video\]"):
            act()
    assert write(VIDEOS, tmp_path / "frames").is_dir()
    assert write(VIDEOS, tmp_path / "a.gif").is_file()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.gif", "a.mp4", "frames"]


def test_media_needs_no_torch():
    import subprocess
    import sys

    code = "import sys, lockstep.media; assert not {'torch', 'av'} & set(sys.modules), 'heavy'"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_folder_of_frames_replaces_only_its_like(tmp_path):
    path = write(VIDEOS, tmp_path / "clip")
    VIDEOS.write(clip(2), path, fps=8)
    assert sorted(one.name for one in path.iterdir()) == ["frame-00000.png", "frame-00001.png", "manifest.json"]
    (path / "mine.txt").write_text("keep")
    with pytest.raises(InputError, match="other things"):
        write(VIDEOS, path)
    assert (path / "mine.txt").read_text() == "keep"
    (tmp_path / "b.mp4").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        write(VIDEOS, tmp_path / "b.mp4")


# ---- files of others, and hostile ones ----


def with_text(kind, path, text):
    """A file of this format whose manifest is any text."""
    from lockstep.media import pictures, streaming

    if kind is PICTURES:
        clip()[0].save(path, **pictures.EMBED[kind.format_for(path).name](text))
        return path
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "to_text", lambda record: text)
        return write(kind, path)


@pytest.mark.parametrize(("kind", "suffix"), [(PICTURES, ".png"), (PICTURES, ".webp"), (PICTURES, ".jpg")]
                         + [(VIDEOS, suffix) for suffix in (".mp4", ".webm", ".mkv", ".gif")])  # fmt: skip
@pytest.mark.parametrize(
    "text", ["[" * 30_000, '{"a":' * 5000 + "1" + "}" * 5000, "{", "{nope", '{"a": [' + "[" * 70 + "]" * 70 + "]}"]
)
def test_a_hostile_manifest_is_an_error_of_ours(tmp_path, kind, suffix, text):
    path = with_text(kind, tmp_path / f"a{suffix}", text)
    with pytest.raises(FileFormatError, match="damaged|no Lockstep manifest"):
        media.read_manifest(path)


@pytest.mark.parametrize("suffix", [".png", ".webp", ".mp4", ".webm", ".mkv", ".gif"])
def test_a_huge_manifest_is_refused(tmp_path, suffix):
    kind = PICTURES if suffix in PICTURES.suffixes else VIDEOS
    path = with_text(kind, tmp_path / f"a{suffix}", json.dumps({"a": "x" * (2 * MAX_LENGTH)}))
    with pytest.raises(FileFormatError):
        media.read_manifest(path)


def test_a_hundred_thousand_brackets(tmp_path):
    for text in ("[" * 100_000, "[" * 100_000 + "]" * 100_000):
        path = with_text(PICTURES, tmp_path / "a.png", text)
        with pytest.raises(FileFormatError, match="damaged"):
            media.read_manifest(path)
    (tmp_path / "frames").mkdir()
    (tmp_path / "frames" / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(FileFormatError, match="damaged"):
        media.read_manifest(tmp_path / "frames")


@pytest.mark.filterwarnings("ignore::UserWarning")  # PIL's own words on what is damaged
@pytest.mark.parametrize(("kind", "suffix"), [one for one in EVERY if one[1]])
def test_any_damage_is_an_error_of_ours_or_harmless(tmp_path, kind, suffix):
    good = write(kind, tmp_path / f"good{suffix}").read_bytes()
    random = np.random.default_rng(0)
    for _ in range(40):
        data = bytearray(good)
        for place in random.integers(0, len(data), 5):
            data[place] = random.integers(0, 256)
        cut = int(random.integers(0, len(data))) if random.random() < 0.3 else len(data)
        path = tmp_path / f"bad{suffix}"
        path.write_bytes(bytes(data[:cut]))
        for read in (media.read_manifest, kind.format_for(path).read):
            with contextlib.suppress(FileFormatError, InputError):
                read(path)


def test_files_that_are_not_ours(tmp_path):
    clip()[0].save(tmp_path / "plain.png")
    with pytest.raises(FileFormatError, match="no Lockstep manifest"):
        media.read_manifest(tmp_path / "plain.png")
    (tmp_path / "text.json").write_text("{}")
    (tmp_path / "text.mp4").write_text("{}")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileFormatError, match="not a picture or video"):
        media.read_manifest(tmp_path / "text.json")
    with pytest.raises(FileFormatError, match="not a video"):
        media.read_manifest(tmp_path / "text.mp4")
    with pytest.raises(FileFormatError, match="no Lockstep manifest"):
        media.read_manifest(tmp_path / "empty")
    with pytest.raises(FileFormatError, match="no frames"):
        VIDEOS.load(tmp_path / "empty")
    for missing in (media.read_manifest, VIDEOS.load):
        with pytest.raises(NotFoundError, match="nowhere"):
            missing(tmp_path / "nowhere.mp4")


def test_a_sheet_shows_frames_from_the_first_to_the_last():
    frames = [Image.new("RGB", (8, 6), (k, 0, 0)) for k in range(100)]
    sheet = VIDEOS.preview(frames)
    assert sheet.size == (4 * 8 + 3 * 4, 3 * 6 + 2 * 4)
    assert (sheet.getpixel((0, 0)), sheet.getpixel((43, 25))) == ((0, 0, 0), (99, 0, 0))
    assert VIDEOS.preview(frames[:2]).size == (20, 6)
