"""Writes a trace of a model that OpenVINO runs: every value between is made a result. Copy ptrace_numpy.py beside it.

trace = Trace()
trace.run("unet", "model.onnx", {"sample": x, "timestep": t})     # or model.xml
trace.save("port.safetensors")
"""

import openvino
import ptrace_numpy

PRECISE = {"INFERENCE_PRECISION_HINT": "f32", "EXECUTION_MODE_HINT": "ACCURACY"}


def scope(op):
    """`mid.norm` for `/mid/norm/Add`."""
    return ".".join(op.get_friendly_name().split("/")[1:-1])


def leaves_its_scope(op):
    """True for the value that a module hands out."""
    takers = [scope(taker.get_node()) for output in op.outputs() for taker in output.get_target_inputs()]
    return any(taker != scope(op) and not taker.startswith(f"{scope(op)}.") for taker in takers)


class Trace(ptrace_numpy.Trace):
    def run(self, root, file, inputs):
        core = openvino.Core()
        model = core.read_model(file)
        moving, last = set(), {}  # what depends on the inputs; the rest are weights
        for op in model.get_ordered_ops():
            kind, name = op.get_type_name(), op.get_friendly_name()
            sources = {value.get_source_output().get_node().get_friendly_name() for value in op.inputs()}
            if kind == "Constant" and "." in name:
                self.put(f"{root}.{name}", "param", op.data)
            if kind == "Parameter" or sources & moving:
                moving.add(name)
                if kind not in ("Parameter", "Result") and scope(op) and leaves_its_scope(op):
                    last[scope(op)] = op
        for name, values in inputs.items():
            self.put(root, f"in.{name}", values)
        between = [op for op in last.values() if op.output(0).element_type.is_real()]
        model.add_outputs([op.output(0) for op in between])
        results = list(core.compile_model(model, "CPU", PRECISE)(inputs).values())
        for op, values in zip(between, results[-len(between) :], strict=True):
            self.put(f"{root}.{scope(op)}", "out", values)
        self.put(root, "out", results[0])
