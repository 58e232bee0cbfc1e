"""The compiled library: found, loaded, and tried on small problems before anything uses it."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from ..errors import UnknownNameError
from ..notes import say_once

SWITCH = "LOCKSTEP_KERNELS"  # "off", or the name of one set of instructions
BY_CAPABILITY = {
    "AVX512": ("avx512_bf16", "avx512", "avx2"),
    "AVX2": ("avx2",),
    "DEFAULT": ("neon",),
}  # torch's word -> best first
NAMES = ("avx512_bf16", "avx512", "avx2", "neon")
BF16 = "avx512_bf16"  # needs a processor that multiplies bf16, which torch's word does not say

POINTER, SIZE, NUMBER, FLAG = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_int
PRODUCTS = {  # for floats, and under the same name with _bf16 for bf16
    "pack_linear": [POINTER, POINTER, SIZE, SIZE, FLAG],
    "linear": [*[POINTER] * 5, SIZE, SIZE, SIZE, FLAG, FLAG],
    "geglu": [*[POINTER] * 4, SIZE, SIZE, SIZE, FLAG],
    "pack_convolution": [POINTER, POINTER, SIZE, SIZE, FLAG, FLAG],
    "convolution": [*[POINTER] * 5, *[SIZE] * 6, FLAG, FLAG],
    "normed_convolution": [*[POINTER] * 7, *[SIZE] * 7, NUMBER, FLAG, FLAG],
    "doubled_convolution": [*[POINTER] * 4, *[SIZE] * 5, FLAG, FLAG],
    "patches": [*[POINTER] * 4, *[SIZE] * 8, FLAG],
    "attention": [*[POINTER] * 5, *[SIZE] * 5, POINTER, NUMBER, FLAG],
}
ARGUMENTS = {
    **PRODUCTS,
    "group_norm": [*[POINTER] * 4, *[SIZE] * 5, NUMBER, FLAG, FLAG],
    "row_norm": [*[POINTER] * 4, *[SIZE] * 4, NUMBER, FLAG, FLAG],
    "turn": [*[POINTER] * 4, *[SIZE] * 5, FLAG],
    "join": [*[POINTER] * 3, *[SIZE] * 3, FLAG],
    "same": [POINTER, POINTER, SIZE],
}
ANSWERS = {"same": FLAG}  # of those that say something, instead of writing it


class Library:
    """One compiled library: its functions by name, and how many floats its vectors have."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name.split(".")[0].removeprefix("_")
        self._loaded = ctypes.CDLL(str(path))
        self.lanes: int = self._loaded.lockstep_lanes()
        self.panel = (
            2 * self.lanes
        )  # columns of a product that are computed together; packed weights are filled up to it
        self.bf16 = hasattr(self._loaded, "lockstep_linear_bf16")  # can it multiply in bf16?
        self._functions = {name: self._function(name, arguments) for name, arguments in ARGUMENTS.items()}
        if self.bf16:
            self._functions |= {f"{name}_bf16": self._function(f"{name}_bf16", PRODUCTS[name]) for name in PRODUCTS}

    def _function(self, name: str, arguments: list[Any]) -> Callable[..., Any]:
        function = getattr(self._loaded, f"lockstep_{name}")
        function.argtypes, function.restype = arguments, ANSWERS.get(name)
        return function

    def run(self, name: str, *arguments: Any, bf16: bool = False) -> Any:
        """Call a function; `bf16` is the one that multiplies in bf16."""
        return self._functions[f"{name}_bf16" if bf16 else name](*arguments)

    @functools.cached_property
    def digest(self) -> str:
        """One name for its code: what was prepared for it is for no other."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()[:24]

    def padded(self, columns: int) -> int:
        """Columns filled up to whole panels."""
        return -(-columns // self.panel) * self.panel


_found: tuple[Library | None, str | None] | None = None  # a plain variable: torch.compile looks through it


def _outcome() -> tuple[Library | None, str | None]:
    """The library, or why there is none; looked for once."""
    global _found
    if _found is None:
        _found = _look()
    return _found


def _look() -> tuple[Library | None, str | None]:
    wanted = os.environ.get(SWITCH, "")
    if wanted == "off":
        return None, f"{SWITCH} is off"
    if wanted and wanted not in NAMES:
        raise UnknownNameError(f"set of instructions ({SWITCH})", wanted, ["off", *NAMES])
    capability = torch.backends.cpu.get_cpu_capability()
    names = (wanted,) if wanted else BY_CAPABILITY.get(capability, ())
    if not multiplies_bf16():
        if wanted == BF16:
            return None, "this processor does not multiply bf16"
        names = tuple(name for name in names if name != BF16)
    for path in _built(names):
        from .trial import wrong_results

        try:
            library = Library(path)
        except (AttributeError, OSError):  # built from other sources, or for another machine
            say_once(
                f"The kernels in {path.name} are not those of this Lockstep, so torch's are used. Install it again."
            )
            return None, f"{path.name} was built from other sources: install Lockstep again"
        wrong = wrong_results(library)
        if not wrong:
            return library, None
        say_once(
            f"The kernels in {path.name} compute wrong results on this processor ({', '.join(wrong)}), so torch's are "
            "used. Please report this with the output of `lockstep env`."
        )
        return None, f"{path.name} computes wrong results here: {', '.join(wrong)}"
    if not names:
        return None, f"there are none for this processor ({capability})"
    return None, "they were not compiled: install a C++ compiler (g++ or clang++) and install Lockstep again"


def multiplies_bf16() -> bool:
    """Has the processor instructions that multiply bf16 (AVX512-BF16)?"""
    return bool(getattr(torch.cpu, "_is_avx512_bf16_supported", bool)())


def _built(names: tuple[str, ...]) -> Iterator[Path]:
    folder = Path(__file__).parent
    for name in names:
        yield from sorted(folder.glob(f"_{name}.*so"))


def library() -> Library | None:
    """The kernels of this processor, or None where there are none."""
    return _outcome()[0]


def found() -> Library:
    """The kernels of this processor, for who knows that there are some."""
    own = library()
    assert own is not None, why_not()
    return own


def why_not() -> str | None:
    """Why there are no kernels here; None where there are."""
    return _outcome()[1]


def describe() -> str:
    """One line for bug reports: which kernels are in use, or why none."""
    own = library()
    if own is None:
        return f"none: {why_not()}"
    return f"{own.name}, {own.lanes} floats at once, {'bf16 too' if own.bf16 else 'no bf16'}"
