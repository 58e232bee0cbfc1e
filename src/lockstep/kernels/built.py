"""A library that was just compiled, tried before it is installed: small problems, against the same in plain Python.

`setup.py` runs this file by itself (`python built.py LIBRARY`), where neither torch nor Lockstep is there yet. It ends
with 0 if every kernel is right and with the names of those that are not if one is wrong; a processor that does not have
the instructions ends it by a signal, and then the trial at loading (`trial.py`) has to do.
"""

from __future__ import annotations

import ctypes
import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

LARGEST = 1e-5  # relative L2; a right kernel has some 3e-7
QUERIES, KEYS, WIDTH, SCALE = 19, 21, 8, 0.25  # of an attention
Numbers = list[float]
Result = tuple[str, Sequence[float], Numbers]
POINTER, SIZE, NUMBER, FLAG = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_int


class Tried:
    """A library, and noise to try it by."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        self.lanes: int = self.library.lockstep_lanes()
        self.random = random.Random(0)

    def noise(self, count: int) -> Any:
        return floats([self.random.gauss(0, 1) for _ in range(count)])

    def run(self, name: str, kinds: list[Any], *arguments: Any) -> int:
        function: Callable[..., int] = getattr(self.library, f"lockstep_{name}")
        function.argtypes = kinds  # type: ignore[attr-defined]
        return function(*arguments)  # means something only for those that answer

    def padded(self, columns: int) -> int:
        return -(-columns // (2 * self.lanes)) * 2 * self.lanes


def floats(values: Numbers) -> Any:
    """An array as C has it."""
    return (ctypes.c_float * len(values))(*values)


def results(tried: Tried) -> Iterator[Result]:
    """What each kernel computes, and what it should."""
    yield from _linear(tried)
    yield from _convolution(tried)
    yield from _group_norm(tried)
    yield from _attention(tried)
    yield from _patches(tried)
    yield from _maps(tried)


def _linear(tried: Tried) -> Iterator[Result]:
    rows, columns, depth = 15, 45, 19
    x, weight, bias = tried.noise(rows * depth), tried.noise(columns * depth), tried.noise(columns)
    packed, y = tried.noise(tried.padded(columns) * depth), floats([0.0] * rows * columns)
    tried.run("pack_linear", [POINTER, POINTER, SIZE, SIZE, FLAG], weight, packed, columns, depth, 1)
    kinds = [*[POINTER] * 5, SIZE, SIZE, SIZE, FLAG, FLAG]
    tried.run("linear", kinds, x, packed, bias, None, y, rows, columns, depth, 0, 1)
    exact = [
        bias[c] + sum(x[r * depth + k] * weight[c * depth + k] for k in range(depth))
        for r in range(rows)
        for c in range(columns)
    ]
    yield "linear", y, exact


def _convolution(tried: Tried) -> Iterator[Result]:
    high, wide, into, out = 7, 5, tried.lanes, tried.lanes
    x, weight = tried.noise(high * wide * into), tried.noise(out * into * 9)
    exact = []
    for row in range(high):
        for column in range(wide):
            near = [
                (((row + i) * wide + column + j) * into, 3 * (i + 1) + j + 1)
                for i in (-1, 0, 1)
                for j in (-1, 0, 1)
                if 0 <= row + i < high and 0 <= column + j < wide
            ]
            for o in range(out):
                terms = (x[at + c] * weight[(o * into + c) * 9 + tap] for at, tap in near for c in range(into))
                exact.append(sum(terms))
    for stored in (0, 1):
        packed, y = tried.noise(36 * into * tried.padded(out)), floats([0.0] * high * wide * out)
        tried.run("pack_convolution", [POINTER, POINTER, SIZE, SIZE, FLAG, FLAG], weight, packed, into, out, stored, 1)
        kinds = [*[POINTER] * 5, *[SIZE] * 6, FLAG, FLAG]
        tried.run("convolution", kinds, x, packed, None, None, y, 1, high, wide, into, out, 0, stored, 1)
        yield "convolution", y, exact


def _group_norm(tried: Tried) -> Iterator[Result]:
    pixels, channels, groups = 6, 2 * tried.lanes, 4
    x, weight, bias = tried.noise(pixels * channels), tried.noise(channels), tried.noise(channels)
    y, width, exact = floats([0.0] * pixels * channels), channels // groups, [0.0] * pixels * channels
    kinds = [*[POINTER] * 4, *[SIZE] * 5, NUMBER, FLAG, FLAG]
    tried.run("group_norm", kinds, x, weight, bias, y, 1, pixels, channels, groups, 0, 1e-5, 1, 1)
    for group in range(groups):
        places = [p * channels + group * width + c for p in range(pixels) for c in range(width)]
        mean = sum(x[at] for at in places) / len(places)
        scale = 1 / math.sqrt(sum((x[at] - mean) ** 2 for at in places) / len(places) + 1e-5)
        for at in places:
            value = (x[at] - mean) * scale * weight[at % channels] + bias[at % channels]
            exact[at] = value / (1 + math.exp(-value))
    yield "group_norm", y, exact


def _attention(tried: Tried) -> Iterator[Result]:
    for name, q, k, bias in _scores(tried, 2.0**16):
        yield name, *_attended(tried, q, k, bias)


def extremes(tried: Tried) -> Iterator[Result]:
    """Scores up to 1e33: a kernel that is wrong on smaller ones may not return from them."""
    for name, q, k, bias in _scores(tried, 2.0**100):
        yield name, *_attended(tried, q, k, bias)


def _scores(tried: Tried, large: float) -> Iterator[tuple[str, Any, Any, Any]]:
    """Queries, keys and biases of noise, and such whose scores are `large`: equal, rising, whole numbers, hidden."""
    count, queries = KEYS * WIDTH, tried.noise(QUERIES * WIDTH)
    hidden = floats([-math.inf if key < 5 or key % 4 == 1 else 0.0 for key in range(KEYS)])
    whole = floats([large * tried.random.randint(-3, 3) for _ in range(count)])
    ones = floats([1.0] * QUERIES * WIDTH)
    yield "attention", queries, tried.noise(count), None
    for sign in (1, -1):
        yield "attention", ones, floats([sign * large] * count), None
        yield "attention", ones, floats([sign * (large / 2**16 * 8 * (at // WIDTH)) for at in range(count)]), None
    small = floats([float(tried.random.randint(-3, 3)) for _ in range(QUERIES * WIDTH)])
    yield "attention", small, whole, None
    yield "attention", small, whole, hidden


def _attended(tried: Tried, q: Any, k: Any, bias: Any) -> tuple[Sequence[float], Numbers]:
    v, y, exact = tried.noise(KEYS * WIDTH), floats([0.0] * QUERIES * WIDTH), []
    steps = (SIZE * 8)(WIDTH, WIDTH, WIDTH, WIDTH, 0, 0, 0, 0)
    kinds = [*[POINTER] * 5, *[SIZE] * 5, POINTER, NUMBER, FLAG]
    tried.run("attention", kinds, q, k, v, bias, y, 1, 1, QUERIES, KEYS, WIDTH, steps, SCALE, 1)
    for i in range(QUERIES):
        products = [sum(q[i * WIDTH + d] * k[j * WIDTH + d] for d in range(WIDTH)) for j in range(KEYS)]
        scores = [SCALE * one + (bias[j] if bias else 0.0) for j, one in enumerate(products)]
        weights = [math.exp(score - max(scores)) for score in scores]
        exact += [sum(w * v[j * WIDTH + d] for j, w in enumerate(weights)) / sum(weights) for d in range(WIDTH)]
    return y, exact


def _patches(tried: Tried) -> Iterator[Result]:
    high, wide, into, out = 7, 6, 5, 19
    x, weight, bias = tried.noise(high * wide * into), tried.noise(out * 9 * into), tried.noise(out)
    packed, y = tried.noise(tried.padded(out) * 9 * into), floats([0.0] * 4 * 3 * out)
    tried.run("pack_linear", [POINTER, POINTER, SIZE, SIZE, FLAG], weight, packed, out, 9 * into, 1)
    kinds = [*[POINTER] * 4, *[SIZE] * 8, FLAG]
    tried.run("patches", kinds, x, packed, bias, y, 1, high, wide, into, out, 3, 2, 1, 1)
    exact = []
    for row in range(-1, high - 1, 2):
        for column in range(-1, wide - 1, 2):
            near = [
                (((row + i) * wide + column + j) * into, (3 * i + j) * into)
                for i in range(3)
                for j in range(3)
                if 0 <= row + i < high and 0 <= column + j < wide
            ]
            for o in range(out):
                terms = (x[at + c] * weight[o * 9 * into + tap + c] for at, tap in near for c in range(into))
                exact.append(bias[o] + sum(terms))
    yield "patches", y, exact


def _maps(tried: Tried) -> Iterator[Result]:
    pixels, lefts, rights = 6, 5, 19
    left, right = tried.noise(pixels * lefts), tried.noise(pixels * rights)
    y, exact = floats([0.0] * pixels * (lefts + rights)), []
    tried.run("join", [*[POINTER] * 3, *[SIZE] * 3, FLAG], left, right, y, pixels, lefts, rights, 1)
    for pixel in range(pixels):
        exact += left[pixel * lefts : (pixel + 1) * lefts] + right[pixel * rights : (pixel + 1) * rights]
    yield "join", y, exact

    count = len(right)
    others = [floats([value + (at == place) for at, value in enumerate(right)]) for place in (0, count - 1, count)]
    answers = [float(tried.run("same", [POINTER, POINTER, SIZE], right, other, count)) for other in others]
    yield "same", answers, [0.0, 0.0, 1.0]


def wrong(found: Iterator[Result]) -> list[str]:
    """The kernels whose results are too far off, or no numbers."""
    names = []
    for name, result, exact in found:
        apart = math.sqrt(sum((a - b) ** 2 for a, b in zip(result, exact, strict=True)))
        if not apart <= LARGEST * math.sqrt(sum(b * b for b in exact)):
            names.append(name)
    return sorted(set(names))


if __name__ == "__main__":
    library = Tried(sys.argv[1])
    sys.exit(", ".join(wrong(results(library)) or wrong(extremes(library))) or None)
