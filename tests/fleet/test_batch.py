"""`lockstep batch` as people run it: real workers, kill -9 of a worker and of the driver, the same files in the end."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time

import pytest
from PIL import Image

from fleet.in_process import InProcess
from lockstep.cli.app import run
from lockstep.fleet.driving import locked

SIZE = ("--height", "32", "--width", "32", "--num-inference-steps", "2", "--dtype", "float32", "--threads", "1")


def rows_in(path, count):
    path.write_text("".join(f'{{"prompt": "a thing of kind {k}", "seed": {k}}}\n' for k in range(count)))
    return path


def contents(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.png")}


@pytest.fixture
def in_process(monkeypatch):
    monkeypatch.setattr("lockstep.fleet.local.LocalWorkers", InProcess)


@pytest.fixture(scope="module")
def alone(folder, tmp_path_factory):
    """A batch of six by one worker in this process: its rows and its files."""
    place = tmp_path_factory.mktemp("alone")
    rows = rows_in(place / "rows.jsonl", 6)
    words = [str(word) for word in ("batch", rows, "-o", place / "files", "-m", folder, *SIZE, "-q")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lockstep.fleet.local.LocalWorkers", InProcess)
        with pytest.raises(SystemExit) as leave:
            run(words)
    assert leave.value.code == 0
    return rows, place / "files"


def start(rows, files, folder, *options):
    words = ["-m", "lockstep", "batch", rows, "-o", files, "-m", folder, *SIZE, "-q", *options]
    return subprocess.Popen([sys.executable, *map(str, words)], start_new_session=True)


def wait_for(files, count, seconds=120):
    end = time.monotonic() + seconds
    while len(list(files.glob("*.png"))) < count:
        assert time.monotonic() < end, "the batch makes no files"
        time.sleep(0.02)


def workers_of(process):
    told = subprocess.run(["pgrep", "-P", str(process.pid), "-f", "spawn_main"], capture_output=True, text=True)
    return [int(word) for word in told.stdout.split()]


def test_kills_in_the_middle_change_nothing(in_process, folder, alone, tmp_path, lockstep):
    rows, wanted = alone
    files = tmp_path / "files"
    driver = start(rows, files, folder, "--workers", "2")
    wait_for(files, 1)
    os.kill(workers_of(driver)[0], signal.SIGKILL)
    wait_for(files, 3)
    driver.kill()
    driver.wait()
    for worker in workers_of(driver):
        os.kill(worker, signal.SIGKILL)
    (files / ".half.png.0000.part").write_bytes(b"half a picture")
    code, out, _ = lockstep("batch", rows, "-o", files, "-m", folder, *SIZE, "--json")
    told = json.loads(out)
    assert (code, told["rows"], told["failed"]) == (0, 6, {})
    assert told["there"] >= 3
    assert contents(files) == contents(wanted)
    assert not list(files.glob(".*.part"))
    code, out, _ = lockstep(
        "batch", "verify", files, "-m", folder, "--dtype", "float32", "--replays", 2, "--threads", 1
    )
    assert (code, "6 files, 0 missing, 0 besides, 0 wrong, 2 made again" in out) == (0, True)


def test_verify_finds_what_is_not_as_planned(alone, tmp_path, lockstep):
    files = shutil.copytree(alone[1], tmp_path / "files")
    names = sorted(contents(files))
    (files / names[0]).unlink()
    (files / "holiday.png").write_bytes(b"x")
    edited = Image.open(files / names[1])
    edited.putpixel((0, 0), (1, 2, 3))
    edited.save(files / names[1], pnginfo=None)
    shutil.copy(files / names[2], files / names[3])
    (files / names[4]).write_bytes((files / names[4]).read_bytes()[:200])
    (files / names[5]).write_bytes((files / names[5]).read_bytes() + b"more")
    code, out, _ = lockstep("batch", "verify", files, "--json")
    told = json.loads(out)
    assert (code, told["fine"], told["missing"], told["strange"]) == (15, False, [names[0]], ["holiday.png"])
    assert set(told["wrong"]) == {names[1], names[3], names[4], names[5]}
    assert "its bytes are not those" in told["wrong"][names[5]]


def test_shards_hold_every_row(alone, tmp_path, lockstep):
    for name in ("one", "two"):
        assert lockstep("batch", "pack", alone[1], tmp_path / name)[0] == 0
    (shard,) = (tmp_path / "one").iterdir()
    assert shard.read_bytes() == (tmp_path / "two" / shard.name).read_bytes()
    with tarfile.open(shard) as tar:
        assert len(tar.getnames()) == 18
        first = json.loads(tar.extractfile(tar.getnames()[1]).read())
    assert first == {
        "prompt": "a thing of kind 0",
        "seed": 0,
        "height": "32",
        "width": "32",
        "num_inference_steps": "2",
    }
    assert lockstep("batch", "pack", alone[1], tmp_path / "one")[0] == 2


@pytest.mark.parametrize(
    ("rows", "options", "code", "told"),
    [
        ("prompt,sed\na,1\n", [], 2, "row 1: Unknown input 'sed': did you mean 'seed'?"),
        ("prompt,guidance_scale\na,1\na,much\n", [], 2, "row 2: 'guidance_scale' wants float"),
        ("prompt,guidance_scale\na,nan\n", [], 2, "row 1: 'guidance_scale'"),
        ("prompt,image\na,nowhere.png\n", [], 3, "row 1: 'image': "),
        ("prompt,image\na,rows.csv\n", [], 3, "row 1: 'image': "),
        ("prompt\na\n", ["--guidence-scale", "3"], 2, "did you mean '--guidance-scale'"),
        ("prompt\na\n", ["--backend", "kubernetes"], 2, "Unknown backend 'kubernetes'"),
        ("prompt\na\n", ["--format", "bmp"], 2, "is written as"),
        ("prompt\na\n", ["--address", "auto"], 2, "--backend ray"),
        ("prompt\na\n", ["--scheduler", "eulerr"], 2, "did you mean"),
        ("prompt,seed\na,1\nb,1\na,1\n", [], 2, "Rows 1 and 3 are the same"),
        ("prompt,steps,num_inference_steps\na,1,2\n", [], 2, "row 1: 'num_inference_steps' is another name of"),
        ("prompt,num_inference_steps\na,0\n", [], 2, "at least 1"),
        (f"prompt\n{'a' * 20_001}\n", [], 2, "row 1: 'prompt' has 20001 characters"),
        ("seed\n1\n", [], 2, "row 1: Give a 'prompt'"),
        ("prompt,seed\na,x\n", [], 2, "row 1: 'seed': A seed has to be a whole number from 0 to 2**63 - 1, got 'x'"),
        ("prompt,seed\na,-1\n", [], 2, "row 1: 'seed'"),
        ("prompt,seed\na,9223372036854775807\n", ["-n", "2"], 2, "row 1: 'seed'"),
        ("prompt,height\na,33\n", [], 2, "row 1: 'height' has to be a multiple of"),
        ("prompt,num_images_per_prompt\na,2\n", [], 2, "row 1: It asks for 2 results, and a row is one file"),
        ("prompt,strength\na,0.5\n", [], 2, "row 1: 'strength' was given, but nothing"),
    ],
)
def test_what_is_wrong_is_told_before_a_worker_starts(
    lockstep, folder, tmp_path, monkeypatch, rows, options, code, told
):
    monkeypatch.setattr("lockstep.fleet.local.LocalWorkers.start", None)
    (tmp_path / "rows.csv").write_text(rows)
    got, _, err = lockstep("batch", tmp_path / "rows.csv", "-o", tmp_path / "out", "-m", folder, *options)
    assert (got, told in err) == (code, True), err
    assert not list((tmp_path / "out").glob("plan.jsonl"))


def test_all_rows_that_are_wrong_are_told_at_once(lockstep, folder, tmp_path):
    odd = [{"prompt": "a", "height": 33 + 2 * k} for k in range(20)]
    rows = [{"prompt": "a"}, {"prompt": "a", "seed": 0.5}, {"prompt": "a \ud800 cat"}, *odd]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    code, _, err = lockstep("batch", tmp_path / "rows.jsonl", "-o", tmp_path / "out", "-m", folder)
    assert (code, "22 of 23 rows cannot be made; nothing was started." in err) == (2, True), err
    assert "row 3: 'prompt' has half of a surrogate pair" in err
    assert all(f"row {number}: 'height'" in err for number in range(4, 22))
    assert "… and 2 more: rows 22, 23" in err


def test_a_prompt_of_a_million_characters(lockstep, folder, tmp_path):
    (tmp_path / "rows.jsonl").write_text(json.dumps({"prompt": "a" * 10**6}))
    code, _, err = lockstep("batch", tmp_path / "rows.jsonl", "-o", tmp_path / "out", "-m", folder)
    assert (code, "row 1: 'prompt' has 1000000 characters; 20000 are the most" in err, "aaaa" in err) == (
        2,
        True,
        False,
    )


def test_a_folder_that_is_not_the_batch_s_own(lockstep, folder, tmp_path):
    rows = rows_in(tmp_path / "rows.jsonl", 1)
    code, _, err = lockstep("batch", rows, "-o", rows, "-m", folder)
    assert (code, "cannot be written" in err) == (6, True), err
    code, _, err = lockstep("batch", rows, "-o", tmp_path, "-m", folder)
    assert (code, "holds other files (rows.jsonl …) and no plan.jsonl" in err) == (2, True), err
    with locked(tmp_path / "held"):
        code, _, err = lockstep("batch", rows, "-o", tmp_path / "held", "-m", folder)
    assert (code, "Another batch is at work" in err) == (2, True), err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--guidance-scale", 3], 'row 1: guidance_scale was not given, now "3"'),
        (["--scheduler", "euler"], 'settings.scheduler.class was "DDIMScheduler", now "EulerDiscreteScheduler" (--sch'),
        (["--guider", "ClassifierFreeGuidance:guidance_scale=3"], "settings.guider.guidance_scale was "),
        (["--format", "webp"], "its files end in .png, now .webp (--format)"),
    ],
)
def test_another_plan_in_the_folder_is_refused_before_a_worker_starts(
    alone, folder, lockstep, monkeypatch, options, told
):
    monkeypatch.setattr("lockstep.fleet.local.LocalWorkers.start", None)
    rows, files = alone
    code, _, err = lockstep("batch", rows, "-o", files, "-m", folder, *SIZE, *options)
    assert (code, f"was begun with another plan: {told}" in err) == (2, True), err
    assert "Give the rows and options that it was begun with, or another folder." in err


def test_a_file_that_was_cut_off_is_made_again_and_told(in_process, alone, folder, tmp_path, lockstep):
    """Resumed with another number of threads, which is said."""
    rows, wanted = alone
    files = shutil.copytree(wanted, tmp_path / "files")
    (name, *_) = sorted(contents(files))
    (files / name).write_bytes((files / name).read_bytes()[:100])
    code, out, err = lockstep("batch", rows, "-o", files, "-m", folder, *SIZE, "--threads", "2")
    assert (code, f"made again {name}: it had another size than was written" in out) == (0, True), err
    assert "5 were there, 1 made in" in out
    assert "(loaded in " in out
    assert "threads was 1, now 2 (--threads): new files may differ in the last bits" in err
    assert lockstep("batch", "verify", files)[0] == 0


def test_a_row_that_cannot_be_made_is_told_and_the_rest_is_there(in_process, folder, tmp_path, lockstep):
    """Equal rows, where one asks for that, are one file."""
    rows = "prompt,width,seed\na cat,32,1\na cat,32,1\na dog,800000000,2\n"
    (tmp_path / "rows.csv").write_text(rows)
    code, out, _ = lockstep("batch", tmp_path / "rows.csv", "-o", tmp_path / "out", "-m", folder, "--height", 32,
                            "--num-inference-steps", 1, "--merge-equal", "--json")  # fmt: skip
    told = json.loads(out)
    assert (code, told["made"], list(told["failed"])) == (19, 1, ["2"])
    assert "memory" in told["failed"]["2"]
