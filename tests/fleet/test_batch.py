"""`lockstep batch` as people run it: real workers, kill -9 of a worker and of the driver, the same files in the end."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tarfile
import time

import pytest
from PIL import Image

from lockstep.fleet.driving import locked

SIZE = ("--height", "32", "--width", "32", "--num-inference-steps", "2", "--dtype", "float32", "--threads", "1")


def rows_in(path, count):
    path.write_text("".join(f'{{"prompt": "a thing of kind {k}", "seed": {k}}}\n' for k in range(count)))
    return path


def contents(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.png")}


@pytest.fixture(scope="module")
def alone(folder, tmp_path_factory):
    """A batch of six by one worker: its rows and its files."""
    place = tmp_path_factory.mktemp("alone")
    rows = rows_in(place / "rows.jsonl", 6)
    words = ["-m", "lockstep", "batch", rows, "-o", place / "files", "-m", folder, *SIZE, "-q"]
    assert subprocess.run([sys.executable, *map(str, words)], check=False).returncode == 0
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


def test_kills_in_the_middle_change_nothing(folder, alone, tmp_path, lockstep):
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
    import shutil

    files = shutil.copytree(alone[1], tmp_path / "files")
    names = sorted(contents(files))
    (files / names[0]).unlink()
    (files / "holiday.png").write_bytes(b"x")
    edited = Image.open(files / names[1])
    edited.putpixel((0, 0), (1, 2, 3))
    edited.save(files / names[1], pnginfo=None)
    shutil.copy(files / names[2], files / names[3])
    (files / names[4]).write_bytes((files / names[4]).read_bytes()[:200])
    code, out, _ = lockstep("batch", "verify", files, "--json")
    told = json.loads(out)
    assert (code, told["fine"], told["missing"], told["strange"]) == (15, False, [names[0]], ["holiday.png"])
    assert set(told["wrong"]) == {names[1], names[3], names[4]}


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
        ("prompt,sed\na,1\n", [], 2, "Unknown input 'sed': did you mean 'seed'?"),
        ("prompt,guidance_scale\na,much\n", [], 2, "wants"),
        ("prompt,image\na,nowhere.png\n", [], 3, "nowhere.png"),
        ("prompt\na\n", ["--guidence-scale", "3"], 2, "did you mean '--guidance-scale'"),
        ("prompt\na\n", ["--backend", "kubernetes"], 2, "Unknown backend 'kubernetes'"),
        ("prompt\na\n", ["--format", "bmp"], 2, "is written as"),
        ("prompt\na\n", ["--address", "auto"], 2, "--backend ray"),
        ("prompt,seed\na,1\nb,1\na,1\n", [], 2, "Rows 1 and 3 are the same"),
        ("prompt,steps,num_inference_steps\na,1,2\n", [], 2, "another name of 'num_inference_steps'"),
        ("prompt,num_inference_steps\na,0\n", [], 2, "at least 1"),
        (f"prompt\n{'a' * 20_001}\n", [], 2, "'prompt' has 20001 characters"),
        ("seed\n1\n", [], 2, "(row 1)"),
    ],
)
def test_what_is_wrong_is_told_before_a_worker_starts(lockstep, folder, tmp_path, rows, options, code, told):
    (tmp_path / "rows.csv").write_text(rows)
    got, _, err = lockstep("batch", tmp_path / "rows.csv", "-o", tmp_path / "out", "-m", folder, *options)
    assert (got, told in err) == (code, True), err
    assert not list((tmp_path / "out").glob("plan.jsonl"))


def test_a_prompt_of_a_million_characters(lockstep, folder, tmp_path):
    (tmp_path / "rows.jsonl").write_text(json.dumps({"prompt": "a" * 10**6}))
    code, _, err = lockstep("batch", tmp_path / "rows.jsonl", "-o", tmp_path / "out", "-m", folder)
    assert (code, "'prompt' has 1000000 characters; 20000 are the most" in err, "in row 1" in err) == (2, True, True)


def test_a_folder_that_is_not_the_batch_s_own(lockstep, folder, tmp_path):
    rows = rows_in(tmp_path / "rows.jsonl", 1)
    code, _, err = lockstep("batch", rows, "-o", rows, "-m", folder)
    assert (code, "cannot be written" in err) == (6, True), err
    code, _, err = lockstep("batch", rows, "-o", tmp_path, "-m", folder)
    assert (code, "holds other files (rows.jsonl …) and no plan.jsonl" in err) == (2, True), err
    with locked(tmp_path / "held"):
        code, _, err = lockstep("batch", rows, "-o", tmp_path / "held", "-m", folder)
    assert (code, "Another batch is at work" in err) == (2, True), err


def test_another_plan_in_the_folder_is_refused(alone, folder, lockstep):
    rows, files = alone
    code, _, err = lockstep("batch", rows, "-o", files, "-m", folder, *SIZE, "--guidance-scale", 3)
    assert (code, "was begun with another plan: row 1 had another guidance_scale" in err) == (2, True)


def test_a_row_that_cannot_be_made_is_told_and_the_rest_is_there(folder, tmp_path, lockstep):
    """Equal rows, where one asks for that, are one file."""
    rows = "prompt,width,seed\na cat,32,1\na cat,32,1\na dog,800000000,2\n"
    (tmp_path / "rows.csv").write_text(rows)
    code, out, _ = lockstep("batch", tmp_path / "rows.csv", "-o", tmp_path / "out", "-m", folder, "--height", 32,
                            "--num-inference-steps", 1, "--merge-equal", "--json")  # fmt: skip
    told = json.loads(out)
    assert (code, told["made"], list(told["failed"])) == (19, 1, ["2"])
    assert "memory" in told["failed"]["2"]
