"""The page that specifies the format: its writers are short, its definition of the sketch is the one in the code."""

import ast
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from lockstep.parity import Trace, Verdict, compare
from lockstep.parity.trace.sketch import FOLD_FROM, TILE, TILE_ROWS, WIDTH, sketch

PAGE = Path(__file__).parents[3] / "docs" / "trace-format.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
WRITERS = [code for language, code in BLOCKS if language in ("rust", "python")]


def test_every_writer_is_under_thirty_lines():
    assert len(WRITERS) == 4
    for code in WRITERS:
        assert len(code.splitlines()) < 30


def test_python_writers_are_python():
    for language, code in BLOCKS:
        if language == "python":
            ast.parse(code)


def test_the_numpy_writer_writes_a_trace_that_compares(tmp_path):
    namespace = {}
    exec(next(code for code in WRITERS if "struct.pack" in code), namespace)
    rng = np.random.default_rng(0)
    values = [rng.standard_normal((3, 5)).astype(np.float32) for _ in range(3)]

    def write(name, scale):
        trace = namespace["Trace"]()
        trace.put("unet", "in.sample", values[0])
        trace.step = "denoise:00"
        trace.put("@timestep", "out", np.array([981], np.int64))
        trace.put("unet", "out", values[1] * np.float32(scale))
        trace.save(tmp_path / name)
        return tmp_path / name

    same, scaled = write("a.safetensors", 1), write("b.safetensors", 1.01)
    assert [e.key.path for e in Trace.open(same).entries] == ["unet", "@timestep", "unet"]
    assert compare(same, write("c.safetensors", 1)).verdict is Verdict.PASS
    result = compare(same, scaled)
    assert result.verdict is Verdict.BUG
    assert result.first.path == "unet"


@pytest.mark.parametrize("framework", ["numpy", "mlx", "jax"])
def test_the_short_writers_write_weights_by_their_names(framework, tmp_path):
    if framework != "numpy" and importlib.util.find_spec(framework) is None:
        pytest.skip(f"the framework {framework} is not installed")
    sign = {"numpy": "struct.pack", "mlx": "mx.eval", "jax": "effects_barrier"}[framework]
    namespace = {}
    exec(next(code for code in WRITERS if sign in code), namespace)
    trace, weight = namespace["Trace"](), np.arange(6, dtype=np.float32).reshape(2, 3)
    if framework == "mlx":
        import mlx.core as mx
        import mlx.nn as nn

        model = nn.Linear(3, 2, bias=False)
        model.weight = mx.array(weight)
        trace.parameters("unet.conv_in", model)
        trace.put("unet.conv_in", "out", mx.array(weight))
    else:
        trace.parameters("unet", {"conv_in": {"weight": weight}} if framework == "jax" else {"conv_in.weight": weight})
        trace.put("unet.conv_in", "out", weight)
    trace.save(str(tmp_path / "t.safetensors"))
    written = Trace.open(tmp_path / "t.safetensors")
    assert list(written.params) == ["unet.conv_in.weight"]
    assert [entry.key.path for entry in written.entries] == ["unet.conv_in"]


@pytest.mark.parametrize("size", [5, FOLD_FROM - 1, FOLD_FROM, FOLD_FROM + 4097])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_definition_in_words_is_what_the_code_computes(size, dtype):
    """Written from the page alone, one element at a time."""
    mask = (1 << 64) - 1

    def h(k):
        z = (k + 1) * 0x9E3779B97F4A7C15 & mask
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        return z ^ z >> 31

    x = np.random.default_rng(size).standard_normal(size).astype(dtype)
    y = {}
    if size < 65536:
        y = dict(enumerate(x))
    else:
        t = np.array([1 - 2 * (h(k) >> 32 & 1) for k in range(4096)], x.dtype).reshape(16, 256)
        padded = np.concatenate([x, np.zeros(-size % 4096, x.dtype)])
        for g in range(padded.size // 4096):
            a = padded[4096 * g : 4096 * (g + 1)].reshape(16, 256)
            for half in (8, 4, 2, 1):
                a = a[:half] + t[half : 2 * half] * a[half : 2 * half]
            y |= {256 * g + c: float(value) for c, value in enumerate(a[0])}
    total = np.zeros(256)
    for k, value in y.items():
        hashed = h(k)
        total[hashed >> 56] += (1 - 2 * (hashed & 1)) * value
    np.testing.assert_allclose(sketch(x), total, atol=1e-9)
    assert (WIDTH, TILE_ROWS, TILE) == (256, 16, 4096)
