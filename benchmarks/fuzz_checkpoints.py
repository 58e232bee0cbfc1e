"""Coverage-guided fuzzing of all that reads a checkpoint file before its weights (package atheris, no dependency).

`python -m benchmarks.fuzz_checkpoints -runs=100000`: an input is a file; reading it has to end in a description or in
an error of Lockstep's own. Anything else stops the run and leaves the input behind as `crash-…`.
"""

from __future__ import annotations

import contextlib
import json
import struct
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["lockstep"]):
    from lockstep.errors import LockstepError
    from lockstep.loaders.describe import describe
    from lockstep.loaders.folder_files import FOLDER_KEY


def safetensors(header: dict[str, object], data: bytes) -> bytes:
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + data


def seeds() -> list[bytes]:
    """Small whole files of the kinds that are read."""
    weight = {"dtype": "F32", "shape": [1, 4, 1, 1], "data_offsets": [0, 16]}
    unet = {
        "model.diffusion_model.input_blocks.0.0.weight": weight,
        "__metadata__": {FOLDER_KEY: '{"unet/config.json": "{}"}'},
    }
    lora = {"x.lora_up.weight": weight, "x.alpha": {"dtype": "F32", "shape": [], "data_offsets": [16, 20]}}
    name, key = b"a.weight", b"general.architecture"
    gguf = (
        b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, 3) + b"sd1"
    )
    gguf += struct.pack("<Q", len(name)) + name + struct.pack("<IQIQ", 1, 4, 0, 0)
    gguf += bytes(-len(gguf) % 32 + 16)
    return [safetensors(unet, bytes(16)), safetensors(lora, bytes(20)), gguf, b"PK\x03\x04", b"<html>", b"\x80\x04."]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        corpus, path = Path(folder) / "corpus", Path(folder) / "file.bin"
        corpus.mkdir()
        for number, seed in enumerate(seeds()):
            (corpus / str(number)).write_bytes(seed)

        def one(data: bytes) -> None:
            path.write_bytes(data)
            with contextlib.suppress(LockstepError):
                describe(path)

        atheris.Setup([*sys.argv, str(corpus)], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
