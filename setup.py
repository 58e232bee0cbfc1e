"""The kernels in C++, built where there is a compiler; everything else about the package is in pyproject.toml.

A kernel library is plain C behind the name of an extension module: one for each set of instructions, of which the
package loads the best one that the processor has. Without a compiler the package installs without them.
"""

import glob
import platform

from setuptools import Extension, setup

NATIVE = "src/lockstep/kernels/native"
AVX512 = ["-march=x86-64-v4", "-mprefer-vector-width=512"]
INSTRUCTIONS = {  # as in lockstep/kernels/library.py
    "x86_64": {"avx2": ["-mavx2", "-mfma"], "avx512": AVX512, "avx512_bf16": [*AVX512, "-mavx512bf16"]},
    "aarch64": {"neon": []},
    "arm64": {"neon": []},
}


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


setup(ext_modules=extensions())
