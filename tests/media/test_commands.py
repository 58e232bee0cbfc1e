"""Videos on the command line, replays that tell an edit from a computation, and names that are never overwritten."""

import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from lockstep import media
from lockstep.blocks.manifest import read_manifest
from lockstep.errors import FileFormatError
from media.clips import arrays, clip, pipeline

QUICK = ["--height", "16", "--width", "16", "--num-inference-steps", "2"]
VIDEOS = media.kind_named("video")


@pytest.fixture
def brighten(lockstep, monkeypatch):
    """The command, with a video pipeline in the place of every model's."""
    from lockstep.pipelines.pipeline import DiffusionPipeline

    monkeypatch.setattr(DiffusionPipeline, "from_pretrained", lambda *_, **__: pipeline())
    return lockstep


def told_json(result):
    code, out, err = result
    return code, json.loads(out), err


@pytest.mark.parametrize("suffix", VIDEOS.suffixes)
def test_a_video_in_a_video_out_and_the_replay(brighten, tmp_path, suffix):
    VIDEOS.write(clip(5), tmp_path / "in.mkv", fps=8)
    target = f"out{suffix}"
    words = ["generate", "sun", "--video", "in.mkv", "--light", "30", "--seed", 4, "-o", target, "--fps", 8, "--json"]
    code, told, err = told_json(brighten(*words))
    assert code == 0, err
    assert told["videos"] == [{"path": target, "prompt": "sun", "seed": 4}]
    made = VIDEOS.load(tmp_path / target)
    assert (len(made), made.fps) == (5, pytest.approx(8, rel=0.05))
    assert 20 < (arrays(made) - arrays(clip(5))).mean() < 36
    record = read_manifest(tmp_path / target)
    assert record["inputs"]["video"]["file"] == "./in.mkv"
    code, told, err = told_json(brighten("replay", target, "-m", "any", "--json"))
    assert code == 0, err
    assert (told["identical"], told["edited"], told["largest_difference"]) == (True, False, 0)
    code, out, _ = brighten("replay", target, "-m", "any", "-o", f"again{suffix}")
    assert (code, "identical" in out) == (0, True)
    assert np.array_equal(arrays(VIDEOS.load(tmp_path / f"again{suffix}")), arrays(made))


def test_the_option_for_a_video_appears_by_itself(brighten, tmp_path):
    code, out, _ = brighten("generate", "-m", "any", "--help")
    assert code == 0
    assert any("--video" in line and "video file" in line for line in out.splitlines())
    code, out, _ = brighten("schema", "any", "--json")
    entries = {entry["name"]: entry for entry in json.loads(out)["inputs"]}
    assert (entries["video"]["media"], "media" in entries["prompt"]) == ("video", False)
    assert json.loads(out)["outputs"][0]["media"] == "video"
    code, _, err = brighten("generate", "sun", "--video", "nowhere.mp4")
    assert (code, "nowhere.mp4" in err) == (3, True)
    (tmp_path / "text.mp4").write_text("no video")
    code, _, err = brighten("generate", "sun", "--video", "text.mp4")
    assert (code, "not a video" in err, "Traceback" in err) == (3, True, False)


def test_several_videos_and_their_default_names(brighten, tmp_path):
    assert brighten("generate", "sun", "-n", 2, "--seed", 1, "--num-frames", 3)[0] == 0
    assert brighten("generate", "sun", "--seed", 1)[0] == 0
    assert sorted(one.name for one in tmp_path.glob("*")) == ["video-0.mp4", "video-1.mp4", "video.mp4"]
    assert read_manifest(tmp_path / "video-1.mp4")["video"] == 1
    code, told, _ = told_json(brighten("replay", "video-1.mp4", "-m", "any", "--json"))
    assert (code, told["identical"]) == (0, True)
    (tmp_path / "there").mkdir()
    assert brighten("generate", "sun", "-o", "there")[0] == 0
    assert [one.name for one in (tmp_path / "there").iterdir()] == ["video-0.mp4"]


def test_a_contact_sheet_beside_a_video(brighten, tmp_path):
    VIDEOS.write(clip(5), tmp_path / "in.mkv", fps=8)
    words = ["generate", "sun", "--video", "in.mkv", "-n", 2, "-o", "out.mkv", "--sheet", "look.png", "--json"]
    code, told, err = told_json(brighten(*words))
    assert code == 0, err
    assert [entry["sheet"] for entry in told["videos"]] == ["look-0.png", "look-1.png"]
    made = VIDEOS.load(tmp_path / told["videos"][0]["path"])
    assert np.array_equal(Image.open(tmp_path / "look-0.png"), VIDEOS.preview(made))
    code, _, err = brighten("generate", "sun", "-o", "out.png")
    assert code == 2
    assert ".gif, a folder" in err
    assert brighten("generate", "sun", "--sheet", "look.mp4")[0] == 2


@pytest.mark.parametrize("rate", ["0", "-3", "nan", "1e9"])
def test_a_rate_that_no_video_has_is_told_before_it_is_made(brighten, tmp_path, monkeypatch, rate):
    VIDEOS.write(clip(5), tmp_path / "in.mkv", fps=8)
    monkeypatch.setattr("lockstep.cli.generate.loaded", lambda *_, **__: pytest.fail("the model was loaded"))
    code, _, err = brighten("generate", "sun", "--video", "in.mkv", "-o", "out.mkv", "--fps", rate)
    assert (code, "fps (frames per second) has to be above 0" in err) == (2, True)


def test_a_picture_has_no_frames_per_second(lockstep, folder):
    code, _, err = lockstep("generate", "a cat", "-m", folder, "--fps", 8, *QUICK)
    assert (code, "'fps' has no meaning for a picture" in err) == (2, True)
    code, _, err = lockstep("generate", "cat", "-m", folder, "--sheet", "look.png")
    assert (code, "--sheet is for videos" in err) == (2, True)


def test_without_pyav_it_is_said_before_anything_runs(brighten, monkeypatch):
    import sys

    from media import clips

    monkeypatch.setitem(sys.modules, "av", None)
    monkeypatch.setattr(clips.Brighten, "__call__", lambda *_: pytest.fail("a block ran"))
    code, _, err = brighten("generate", "sun", "-o", "sun.mp4")
    assert (code, "lockstep-diffusion[video]" in err) == (6, True)


@pytest.mark.parametrize("suffix", [".png", ".webp", ".jpg"])
def test_pictures_in_every_format_are_replayed(lockstep, folder, suffix):
    assert lockstep("generate", "a cat", "-m", folder, "--seed", 3, "-o", f"cat{suffix}", *QUICK)[0] == 0
    code, told, _ = told_json(lockstep("replay", f"cat{suffix}", "--json"))
    assert (code, told["identical"], told["computation_identical"]) == (0, True, True)


@pytest.mark.parametrize("suffix", [".png", ".webp", ".jpg"])
def test_pictures_that_were_saved_by_their_own_method_are_replayed(lockstep, folder, tmp_path, suffix):
    from lockstep import DiffusionPipeline

    pipe = DiffusionPipeline.from_pretrained(folder)
    pipe("a cat", height=32, width=32, num_inference_steps=2, seed=3).images[0].save(tmp_path / f"cat{suffix}")
    code, told, _ = told_json(lockstep("replay", f"cat{suffix}", "--json"))
    assert (code, told["identical"], told["computation_identical"]) == (0, True, True)


def test_a_picture_is_judged_by_what_it_is_not_by_its_name(lockstep, folder, tmp_path):
    assert lockstep("generate", "a cat", "-m", folder, "--seed", 3, "-o", "cat.png", *QUICK)[0] == 0
    (tmp_path / "cat.png").rename(tmp_path / "cat.jpg")
    code, told, _ = told_json(lockstep("replay", "cat.jpg", "--json"))
    assert (code, told["identical"], told["tolerance"]) == (0, True, 0)


@pytest.mark.parametrize("suffix", [".png", ".webp"])
def test_an_edited_picture_is_told_from_another_computation(lockstep, folder, tmp_path, monkeypatch, suffix):
    name = f"cat{suffix}"
    assert lockstep("generate", "a cat", "-m", folder, "--seed", 3, "-o", name, *QUICK)[0] == 0
    edit(tmp_path / name)
    code, _, err = lockstep("replay", name)
    assert (code, "was edited after it was made" in err, "the computation differs" in err) == (5, True, False)
    shutil.copytree(folder, tmp_path / "other")
    from pipelines import tiny

    tiny.unet(seed=99).save_pretrained(tmp_path / "other" / "unet")
    code, _, err = lockstep("replay", name, "-m", "other")
    assert (code, "the computation differs" in err, "also edited" in err) == (5, True, True)


def edit(path):
    """One pixel, with the manifest kept."""
    from lockstep.media.pictures import EMBED
    from lockstep.media.text import to_text

    with Image.open(path) as file:
        picture = file.convert("RGB")
    value = picture.getpixel((2, 2))
    picture.putpixel((2, 2), tuple((v + 100) % 256 for v in value))
    record = media.read_manifest(path)
    format = media.KINDS[0].format_for(path)
    path.write_bytes(format.encoded(picture, **EMBED[format.name](to_text(record))))


def test_a_lossy_file_is_never_called_equal_when_it_is_not(brighten, tmp_path):
    """A clip that was brightened by much is edited; one that was encoded anew is within tolerance, not identical."""
    assert brighten("generate", "sun", "--seed", 1, "-o", "a.mp4")[0] == 0
    record, frames = media.read_manifest(tmp_path / "a.mp4"), VIDEOS.load(tmp_path / "a.mp4")

    def rewritten(frames):
        path = tmp_path / "b.mp4"
        VIDEOS.write(frames, path, fps=16)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("lockstep.media.streaming.to_text", lambda _: json.dumps(record))
            VIDEOS.write(frames, path, fps=16)

    rewritten(frames)
    code, out, _ = brighten("replay", "b.mp4", "-m", "any")
    assert (code, "within tolerance" in out, "identical" in out, "3 on average allowed" in out) == (
        0,
        True,
        False,
        True,
    )
    rewritten([Image.eval(frame, lambda v: min(v + 20, 255)) for frame in frames])
    code, _, err = brighten("replay", "b.mp4", "-m", "any")
    assert (code, "was edited after it was made" in err, "3 allowed for MP4" in err) == (5, True, True)
    record["pixels"] = "0" * 64
    rewritten(frames)
    code, out, _ = brighten("replay", "b.mp4", "-m", "any")
    assert (code, "within tolerance" in out, "compressed them differ" in out) == (0, True, True)


def test_another_number_of_threads_is_named(lockstep, folder, tmp_path):
    """A picture that is 1 of 255 off, from a run with other threads, as a machine with more cores would leave it."""
    from lockstep.media.pictures import EMBED, PNG
    from lockstep.media.pixels import PixelHash, pixels_of
    from lockstep.media.text import to_text

    assert lockstep("generate", "a cat", "-m", folder, "--seed", 3, *QUICK)[0] == 0
    record = media.read_manifest(tmp_path / "picture.png")
    assert record["threads"] == torch.get_num_threads()
    with Image.open(tmp_path / "picture.png") as file:
        pixels = np.array(file)
    pixels[0, 0, 0] += 1 if pixels[0, 0, 0] < 255 else -1
    other = Image.fromarray(pixels)
    record |= {"threads": 64, "pixels": PixelHash([pixels_of(other)]).text}
    (tmp_path / "picture.png").write_bytes(PNG.encoded(other, **EMBED["PNG"](to_text(record))))
    code, _, err = lockstep("replay", "picture.png")
    assert code == 5
    assert "the computation differs" in err
    assert f"threads was 64, is {torch.get_num_threads()}" in err
    assert "OMP_NUM_THREADS=64" in err


# ---- names ----


def test_a_picture_is_never_overwritten_unless_asked(lockstep, folder, tmp_path):
    def generate(*more):
        code, told, err = told_json(lockstep("generate", "a cat", "-m", folder, "--json", *QUICK, *more))
        assert code == 0, err
        return [entry["path"] for entry in told["pictures"]]

    assert generate() == ["picture.png"]
    first = (tmp_path / "picture.png").read_bytes()
    assert generate() == ["picture-1.png"]
    assert generate() == ["picture-2.png"]
    assert (tmp_path / "picture.png").read_bytes() == first
    assert generate("--overwrite") == ["picture.png"]
    assert (tmp_path / "picture.png").read_bytes() != first
    assert generate("-n", 2, "-o", "cat.png") == ["cat-0.png", "cat-1.png"]
    assert generate("-n", 2, "-o", "cat.png") == ["cat-2.png", "cat-3.png"]
    assert generate("-n", 2, "-o", "cat.png", "--overwrite") == ["cat-0.png", "cat-1.png"]
    assert generate("-o", "sheet/") == ["sheet/picture-0.png"]
    assert generate("-o", "sheet/") == ["sheet/picture-1.png"]
    before = {path: path.read_bytes() for path in tmp_path.glob("*.png")}
    assert lockstep("replay", "picture.png", "-o", "picture-1.png")[0] == 0
    assert before.items() <= {path: path.read_bytes() for path in tmp_path.glob("*.png")}.items()
    assert (tmp_path / "picture-1-1.png").is_file()


# ---- places ----


def test_no_absolute_path_of_the_machine_is_in_a_manifest(lockstep, folder, tmp_path):
    from safetensors.torch import save_file

    from lockstep import ControlNetModel, UNet2DConditionModel

    layer = "unet.down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_out.0"
    (tmp_path / "work").mkdir()
    save_file(
        {f"{layer}.lora_A.weight": torch.ones(4, 32), f"{layer}.lora_B.weight": torch.ones(32, 4)},
        tmp_path / "style.safetensors",
    )
    shutil.copytree(folder, tmp_path / "model")
    unet = UNet2DConditionModel.from_pretrained(folder, subfolder="unet")
    ControlNetModel.from_unet(unet, conditioning_embedding_out_channels=(8, 16)).save_pretrained(tmp_path / "net")
    Image.new("RGB", (16, 16), "red").save(tmp_path / "edges.png")
    words = ["--controlnet", tmp_path / "net", "--control-image", tmp_path / "edges.png", "--num-inference-steps", 2]
    words += ["--lora", tmp_path / "style.safetensors", "-o", tmp_path / "work" / "a.png"]
    code, _, err = lockstep("generate", "a cat", "-m", tmp_path / "model", *words)
    assert code == 0, err
    text = json.dumps(media.read_manifest(tmp_path / "work" / "a.png"))
    assert str(tmp_path) not in text
    record = json.loads(text)
    assert record["model"] == "../model"
    assert record["inputs"]["control_image"]["file"] == "../edges.png"
    assert record["given"]["controlnet"][0]["folder"] == "../net"
    assert record["adapters"][0]["file"] == "../style.safetensors"
    assert lockstep("replay", "work/a.png")[0] == 0
    shutil.move(tmp_path / "work" / "a.png", tmp_path / "a.png")  # everything beside it by name
    assert lockstep("replay", "a.png")[0] == 0
    for name in ("net", "edges.png", "style.safetensors", "model"):
        (tmp_path / name).rename(tmp_path / f"moved-{name}")
    moved = ["-m", "moved-model", "--input", "controlnet=moved-net", "--input", "control_image=moved-edges.png"]
    code, _, err = lockstep("replay", "a.png", *moved)
    assert (code, "--input style.safetensors=FILE" in err) == (5, True)
    code, _, err = lockstep("replay", "a.png", *moved, "--input", "style.safetensors=moved-style.safetensors")
    assert code == 0, err
    code, _, err = lockstep("replay", "a.png", "--input", "controlnett=x")
    assert (code, "did you mean 'controlnet'" in err) == (2, True)
    code, _, err = lockstep("replay", "a.png", *moved[2:], "--input", "style.safetensors=moved-style.safetensors")
    assert (code, "--model" in err) == (5, True)


def test_a_picture_made_here_is_replayed_from_elsewhere(lockstep, folder, tmp_path, monkeypatch):
    shutil.copytree(folder, tmp_path / "models" / "tiny")
    assert lockstep("generate", "a cat", "-m", "models/tiny", "--seed", 3, "-o", "out/a.png", *QUICK)[0] == 0
    assert media.read_manifest(tmp_path / "out" / "a.png")["model"] == "../models/tiny"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert lockstep("replay", "../out/a.png")[0] == 0


def test_a_manifest_of_before_is_replayed(lockstep, folder, tmp_path):
    """Absolute paths, no threads, no hash of the pixels: as the first release wrote it."""
    from lockstep.media.pictures import EMBED, PNG

    Image.new("RGB", (16, 16), "red").save(tmp_path / "in.png")
    words = ["--image", tmp_path / "in.png", "--seed", 3, "--num-inference-steps", 4]
    assert lockstep("generate", "a cat", "-m", folder, *words)[0] == 0
    record = media.read_manifest(tmp_path / "picture.png")
    for new in ("threads", "pixels"):
        del record[new]
    record["model"], record["inputs"]["image"]["file"] = str(folder), str(tmp_path / "in.png")
    with Image.open(tmp_path / "picture.png") as file:
        picture = file.convert("RGB")
    (tmp_path / "old.png").write_bytes(PNG.encoded(picture, **EMBED["PNG"](json.dumps(record, indent=2))))
    code, out, err = lockstep("replay", "old.png")
    assert (code, "identical" in out) == (0, True), err
    picture.putpixel((0, 0), (1, 2, 3))
    (tmp_path / "old.png").write_bytes(PNG.encoded(picture, **EMBED["PNG"](json.dumps(record, indent=2))))
    code, _, err = lockstep("replay", "old.png")
    assert (code, "came out differently" in err, "edited" in err) == (5, True, False)


# ---- hostile manifests ----

GOOD = {"inputs": {}, "components": {}, "model": "./model", "seed": [3], "workflow": None}


@pytest.mark.parametrize(
    "wrong",
    [
        {"inputs": []}, {"components": {"unet": 3}}, {"model": ["x"]}, {"seed": "x"}, {"workflow": 3},
        {"adapters": {}}, {"adapters": [3]}, {"adapters": [{"file": 3}]}, {"given": {"unet": 3}},
        {"given": {"unet": [{"folder": 3, "class": "x"}]}}, {"weights": {"unet": 3}}, {"image": "x"},
        {"components": {"unet": {"class": 3}}}, {"changed_by": [3]}, {"threads": "x"}, {"pixels": 3},
    ],
)  # fmt: skip
def test_a_manifest_with_wrong_types_is_damaged(lockstep, tmp_path, wrong):
    media.KINDS[0].write(Image.new("RGB", (8, 8)), tmp_path / "a.png", lambda _: GOOD)
    assert read_manifest(tmp_path / "a.png")["seed"] == [3]
    from lockstep.media.pictures import EMBED, PNG

    data = PNG.encoded(Image.new("RGB", (8, 8)), **EMBED["PNG"](json.dumps(GOOD | wrong)))
    (tmp_path / "a.png").write_bytes(data)
    with pytest.raises(FileFormatError, match="damaged"):
        read_manifest(tmp_path / "a.png")
    code, _, err = lockstep("replay", "a.png")
    assert (code, "Traceback" in err) == (3, False)


@pytest.mark.parametrize(
    "odd",
    [
        {"inputs": {"image": {"picture": "RGB", "sha256": 3, "file": 7}}},
        {"inputs": {"image": {"picture": "RGB", "sha256": "x", "file": "../../../../etc/passwd"}}},
        {"inputs": {"image": [[[{"sha256": "x"}]]]}},
        {"image": 10**9},
        {"image": -1},
        {"components": {"scheduler": {"class": "os.system", "values": {}}}},
        {"components": {"scheduler": {"class": "DDIMScheduler", "values": 3}}},
        {"inputs": {"nonsense": 1}},
    ],
)
def test_an_odd_manifest_is_refused_in_words(lockstep, folder, tmp_path, odd):
    record = GOOD | {"inputs": {"prompt": "a cat", "num_inference_steps": 2, "height": 16, "width": 16}} | odd
    media.KINDS[0].write(Image.new("RGB", (16, 16)), tmp_path / "a.png", lambda _: record)
    code, _, err = lockstep("replay", "a.png", "-m", folder)
    assert code in (2, 3, 5), err
    assert "Traceback" not in err


def test_a_read_only_or_full_target_is_an_error_of_ours(lockstep, folder, tmp_path, monkeypatch):
    import errno
    import os

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.replace", full)
    code, _, err = lockstep("generate", "a cat", "-m", folder, *QUICK)
    assert (code, "cannot be written: No space left" in err, "Traceback" in err) == (6, True, False)
    assert not list(tmp_path.iterdir())
