"""Every intermediate value of an ONNX graph, run by onnxruntime: what `lockstep parity record model.onnx` writes."""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import RecordError
from ..trace.container import Array, SafetensorsFile
from ..trace.writer import TraceWriter
from .values import clean

ROOT = "model"


def record_onnx(model: Path, inputs: dict[str, Array], trace: Path, root: str = ROOT) -> None:
    """Run the graph once and write its inputs, weights, every value between, and its results.

    Names of the exporter with a scope, such as `/mid/norm/Add`, become `root.mid.norm/add.0`; the last value of a scope
    is what the module of that name gave.
    """
    onnx, runtime = _needed("onnx"), _needed("onnxruntime")
    if not model.is_file():
        raise RecordError(f"there is no file {model}")
    graph = onnx.load(str(model))
    wanted = [value.name for value in graph.graph.input if value.name not in _initial(graph)]
    if missing := [name for name in wanted if name not in inputs]:
        raise RecordError(f"{model.name} needs the inputs {', '.join(wanted)}; the file lacks {', '.join(missing)}")
    results = [value.name for value in graph.graph.output]
    known = set(results)
    between = [name for node in graph.graph.node for name in node.output if name and not known & {name}]
    for name in between:
        graph.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL  # what is fused is not seen
    session = runtime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])
    values = dict(
        zip([*between, *results], session.run([*between, *results], {n: inputs[n] for n in wanted}), strict=True)
    )
    with TraceWriter(trace, {"framework": f"onnxruntime {runtime.__version__}", "level": "module+ops"}) as writer:
        _write(writer, onnx, graph, {name: inputs[name] for name in wanted}, values, results, root)


def _needed(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as problem:
        raise RecordError(f"a graph of ONNX needs the package {package}: pip install onnx onnxruntime") from problem


def _initial(graph: Any) -> set[str]:
    return {tensor.name for tensor in graph.graph.initializer}


def _write(
    writer: TraceWriter, onnx: Any, graph: Any, inputs: dict[str, Array], values: dict[str, Array], results: list[str],
    root: str,
) -> None:  # fmt: skip
    owners = _owners(graph)
    for tensor in graph.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        if array.size and array.dtype.kind == "f":
            writer.put("-", f"{root}.{owners.get(tensor.name, tensor.name)}", "param", array)
    for name, array in inputs.items():
        writer.put("-", root, f"in.{clean(name)}", array)
    last = {scope: name for name, scope in _scopes(graph)}
    counts: Counter[str] = Counter()
    for node in graph.graph.node:
        scope, kind = scope_of(node.name), node.op_type.lower()
        path = f"{root}.{scope}" if scope else root
        number = counts[f"{path}/{kind}"]
        counts[f"{path}/{kind}"] += 1
        for name in node.output:
            if name not in values or values[name] is None:
                continue
            writer.put("-", f"{path}/{kind}.{number}", "out", np.asarray(values[name]), op=kind)
            for module in [m for m in _containing(scope) if last.get(m) == name]:
                writer.put("-", f"{root}.{module}", "out", np.asarray(values[name]))
    for index, name in enumerate(results):
        writer.put("-", root, "out" if len(results) == 1 else f"out.{index}", np.asarray(values[name]))


def scope_of(name: str) -> str:
    """`mid.norm` for `/mid/norm/Add`; "" for a name without a scope."""
    return ".".join(part for part in name.split("/")[1:-1] if part)


def _containing(scope: str) -> list[str]:
    """A scope and those around it, innermost first."""
    parts = scope.split(".") if scope else []
    return [".".join(parts[:end]) for end in range(len(parts), 0, -1)]


def _scopes(graph: Any) -> list[tuple[str, str]]:
    """(value, scope) in the order of computation, for the scope itself and those around it."""
    return [
        (node.output[0], scope)
        for node in graph.graph.node
        if node.output
        for scope in _containing(scope_of(node.name))
    ]


def _owners(graph: Any) -> dict[str, str]:
    """Weights that an exporter renamed (`onnx::MatMul_12`) belong to the node that takes them."""
    found: dict[str, str] = {}
    for node in graph.graph.node:
        for index, name in enumerate(node.input):
            if name.startswith("onnx::") and scope_of(node.name):
                found[name] = f"{scope_of(node.name)}.{'bias' if node.op_type == 'Add' else 'weight'}" + (
                    str(index) if f"{scope_of(node.name)}.weight" in found.values() else ""
                )
    return found


def read_arrays(file: Path) -> dict[str, Array]:
    """Arrays by name, of a .safetensors or .npz file."""
    if not file.is_file():
        raise RecordError(f"there is no file {file} with inputs")
    if file.suffix == ".npz":
        with np.load(file) as arrays:
            return dict(arrays)
    container = SafetensorsFile(file)
    return {name: np.array(container.array(name)) for name in container.slices}
