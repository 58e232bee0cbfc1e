"""Every writer of examples/writers on its own framework: the port proves equal, and what is broken in it is found."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.cli.app import run
from lockstep.cli.exit_codes import ExitCode

EXAMPLES = Path(__file__).parents[2] / "examples" / "writers"
EPS, GELU, SCALE, RESIDUAL = "eps", "gelu", "scale", "residual"
# port: fault -> (text of the port, what stands there instead, where it shows first)
FAULTS = {
    "numpy": {
        EPS: ("shape, eps=1e-5", "shape, eps=1e-3", "unet.mid.norm"),
        GELU: ("gelu(hidden)", "hidden / (1 + np.exp(-1.702 * hidden))", "unet.mid.ff.fc2"),
        SCALE: ("np.float32(0.25)", "np.float32(0.5)", "unet.mid.to_out"),
    },
    "jax": {
        EPS: ("GroupNorm(4, epsilon=1e-5", "GroupNorm(4, epsilon=1e-3", "unet.mid.norm"),
        GELU: ("approximate=False", "approximate=True", "unet.mid.ff.fc2"),
        SCALE: ("* 0.25", "* 0.5", "unet.mid.to_out"),
    },
    "mlx": {
        EPS: ("width, eps=1e-5, pytorch", "width, eps=1e-3, pytorch", "unet.mid.norm"),
        GELU: ("nn.gelu(", "nn.gelu_approx(", "unet.mid.ff.fc2"),
        SCALE: ("* 0.25", "* 0.5", "unet.mid.to_out"),
    },
    "tinygrad": {EPS: ("GroupNorm(4, width, eps=1e-5", "GroupNorm(4, width, eps=1e-3", "unet.mid.norm")},
    "onnx": {
        EPS: ("nn.GroupNorm(4, width, eps=1e-5", "nn.GroupNorm(4, width, eps=1e-3", "unet.mid.norm"),
        GELU: ("F.gelu(", "F.silu(", "unet.mid.ff.fc2"),
        SCALE: ("* 0.25", "* 0.5", "unet.mid.to_out"),
    },
    "openvino": {
        EPS: ("nn.GroupNorm(4, width, eps=1e-5", "nn.GroupNorm(4, width, eps=1e-3", "unet.mid.norm"),
        GELU: ("F.gelu(", "F.silu(", "unet.mid.ff.fc2"),
        SCALE: ("* 0.25", "* 0.5", "unet.mid.to_out"),
    },
    "cpp": {
        EPS: ("1e-5f", "1e-3f", "block.norm"),
        GELU: ("v * 0.5f * (1 + std::erf(v * 0.70710678f))", "v / (1 + std::exp(-v))", "block.fc2"),
        RESIDUAL: ("y.data[i] += x.data[i]", "y.data[i] += 0", "block"),
    },
    "rust": {
        EPS: ("rows, 1e-5", "rows, 1e-3", "block.norm"),
        GELU: (".map(gelu)", ".map(|v| v / (1.0 + (-v).exp()))", "block.fc2"),
        RESIDUAL: (".map(|(a, b)| a + b)", ".map(|(a, _)| *a)", "block"),
    },
}
NEEDS = {"jax": ["jax", "flax"], "mlx": ["mlx"], "tinygrad": ["tinygrad"], "onnx": ["onnx", "onnxruntime"],
         "openvino": ["onnx", "openvino"]}  # fmt: skip
COMPILERS = {"cpp": ["g++"], "rust": ["rustc"], "tinygrad": ["clang", "gcc"]}
# what the search may call the cause
NAMED = {
    EPS: ("norm_eps", "eps"),
    GELU: ("gelu_variant", "activation"),
    SCALE: ("attention_scale", "scale", "constant"),
    RESIDUAL: ("the residual is missing",),
}


def check_installed(port):
    for package in NEEDS.get(port, []):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"the framework {package} is not installed")
    compilers = COMPILERS.get(port, [])
    if compilers and not any(map(shutil.which, compilers)):
        pytest.skip(f"the compiler {compilers[0]} is not installed")


def written(port, folder, fault=None):
    """The trace that the port writes, with one line of it changed."""
    there = folder / "port"
    shutil.copytree(EXAMPLES, there, ignore=shutil.ignore_patterns("__pycache__"))
    if fault is not None:
        old, new, _ = FAULTS[port][fault]
        names = {"cpp": "port.cpp", "rust": "port.rs", "onnx": "reference.py", "openvino": "reference.py"}
        file = there / names.get(port, f"port_{port}.py")
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1, (port, old)
        file.write_text(text.replace(old, new), encoding="utf-8")

    def do(*words):
        environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
        if shutil.which("clang") is None:
            environment["CC"] = str(there / "gcc_for_tinygrad.sh")
        done = subprocess.run([*map(str, words)], cwd=there, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    weights, out = folder / "tiny.safetensors", folder / f"{port}.safetensors"
    do(sys.executable, EXAMPLES / "reference.py", folder)
    if port == "cpp":
        do("g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "port.cpp", "-o", "program")
        do(there / "program", weights, out)
    elif port == "rust":
        do(
            "rustc",
            "--edition",
            "2021",
            *(["-D", "warnings"] if fault is None else []),
            "-O",
            "port.rs",
            "-o",
            "program",
        )
        do(there / "program", weights, out)
    elif port in ("onnx", "openvino"):
        do(sys.executable, "port_onnx.py", folder / "tiny.onnx")
        if port == "openvino":
            do(sys.executable, "port_openvino.py", weights, out)
        else:
            out = folder / "onnx.trace"
            do(
                sys.executable,
                "-m",
                "lockstep",
                "parity",
                "record",
                folder / "tiny.onnx",
                "--inputs",
                weights,
                "-o",
                out,
            )
    else:
        do(sys.executable, f"port_{port}.py", weights, out)
    return out


def prove(capsys, port, trace, folder):
    function = "build_block" if port in ("cpp", "rust") else "build"
    with pytest.raises(SystemExit) as leave:
        run(["parity", "prove", f"{EXAMPLES}/reference.py:{function}", str(trace), "-o", str(folder / "out"), "--json"])
    return leave.value.code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("port", FAULTS)
def test_a_port_in_another_framework_proves_equal(port, tmp_path, capsys):
    check_installed(port)
    code, told = prove(capsys, port, written(port, tmp_path), tmp_path)
    assert code == ExitCode.DONE, told["sentence"]
    assert told["verdict"] in ("PASS", "NOISE")
    assert not [w for w in told["weights"] if w["kind"] == "different"]
    assert told["coverage"]["fraction"] > 0.6


def one_of_each(faults):
    """Every fault in some port and some fault in nearly every port; the other pairs run with RUN_SLOW=1."""
    for number, (port, named) in enumerate(faults.items()):
        for place, fault in enumerate(named):
            chosen = place == number % len(named) and port != "tinygrad"  # which compiles a hundred kernels
            rest = [] if chosen else [pytest.mark.slow]
            yield pytest.param(port, fault, marks=rest)


@pytest.mark.parametrize(("port", "fault"), list(one_of_each(FAULTS)))
def test_what_is_broken_in_a_port_is_found_and_named(port, fault, tmp_path, capsys):
    check_installed(port)
    code, told = prove(capsys, port, written(port, tmp_path, fault), tmp_path)
    assert (code, told["verdict"]) == (ExitCode.BUG, "BUG"), told["sentence"]
    assert told["first"]["key"].split("|")[1] == FAULTS[port][fault][2]
    cause = told["causes"][0]
    assert cause["name"].startswith(NAMED[fault]) or any(word in cause["why"] for word in NAMED[fault])


PAGE = Path(__file__).parents[2] / "docs" / "porting-frameworks.md"


def test_the_page_needs_at_most_fifteen_lines_of_ones_own():
    every = re.findall(r"```(?:python|cpp|rust)\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(every) == 7
    for block in every:
        assert len([line for line in block.splitlines() if line and not line.startswith("# ")]) <= 15
