"""The kernels in C++, built where there is a compiler; everything else about the package is in pyproject.toml.

A kernel library is plain C behind the name of an extension module: one for each set of instructions, of which the
package loads the best one that the processor has. Without a compiler the package installs without them, and so it does
without a library whose kernels compute wrong results here (src/lockstep/kernels/built.py).
"""

import glob
import os
import platform
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

NATIVE = "src/lockstep/kernels/native"
AVX512 = ["-march=x86-64-v4", "-mprefer-vector-width=512"]
INSTRUCTIONS = {  # as in lockstep/kernels/library.py
    "x86_64": {"avx2": ["-mavx2", "-mfma"], "avx512": AVX512, "avx512_bf16": [*AVX512, "-mavx512bf16"]},
    "aarch64": {"neon": []},
    "arm64": {"neon": []},
}
LONGEST = 120  # seconds of a trial, which takes one


def extensions() -> list[Extension]:
    if platform.system() == "Windows":  # the sources use vectors as GCC and Clang have them
        return []
    return [
        Extension(
            f"lockstep.kernels._{name}",
            [f"{NATIVE}/kernels.cpp"],
            depends=glob.glob(f"{NATIVE}/*.h"),
            language="c++",
            extra_compile_args=["-std=c++20", "-O3", "-g0", *flags],
            extra_link_args=["-pthread", "-s"],
            optional=True,
        )
        for name, flags in INSTRUCTIONS.get(platform.machine(), {}).items()
    ]


class BuildAndTry(build_ext):
    """Each library is tried once it is there; one that is wrong is taken away, as if it had not compiled."""

    def build_extension(self, ext: Extension) -> None:
        super().build_extension(ext)
        path = self.get_ext_fullpath(ext.name)
        tried = [sys.executable, "src/lockstep/kernels/built.py", os.path.abspath(path)]
        try:
            ended = subprocess.run(tried, capture_output=True, text=True, check=False, timeout=LONGEST)
        except subprocess.TimeoutExpired:
            os.remove(path)
            raise CompileError(f"{ext.name} does not return from its trial and is not installed") from None
        if ended.returncode < 0:
            print(f"{ext.name} cannot be tried on this processor (signal {-ended.returncode}); it is when it is loaded")
        elif ended.returncode > 0:
            os.remove(path)
            raise CompileError(f"{ext.name} computes wrong results and is not installed: {ended.stderr.strip()}")


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildAndTry})
