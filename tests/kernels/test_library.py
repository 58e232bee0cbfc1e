"""Kernels that were built from other sources are told, and torch's are used."""

import _ctypes
import importlib
from pathlib import Path

import pytest

library = importlib.import_module("lockstep.kernels.library")  # the package has a function of that name


@pytest.mark.parametrize("kind", ["another library", "no library"])
def test_kernels_of_other_sources_are_left_alone(monkeypatch, tmp_path, kind):
    path = Path(_ctypes.__file__) if kind == "another library" else tmp_path / "_avx2.so"
    if kind == "no library":
        path.write_bytes(b"half of a file")
    monkeypatch.delenv(library.SWITCH, raising=False)
    monkeypatch.setattr(library, "_built", lambda names: iter([path]))
    found, reason = library._look()
    assert found is None
    assert "install Lockstep again" in reason
