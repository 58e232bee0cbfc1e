"""Writes a trace of an MLX model by watching its modules: copy this file and ptrace_numpy.py beside your port.

trace = Trace()
trace.watch("unet", model)     # weights, and from now on every call
model(x)
trace.save("port.safetensors")
"""

import mlx.core as mx
import numpy as np
import ptrace_numpy
from mlx.utils import tree_flatten


def as_numpy(x):
    """bfloat16 has no numpy type: it is written as float32, which holds it exactly."""
    return np.array(x.astype(mx.float32) if x.dtype == mx.bfloat16 else x)


class Trace(ptrace_numpy.Trace):
    def put(self, path, slot, values):
        super().put(path, slot, as_numpy(values))

    def watch(self, root, model):
        self.parameters(root, dict(tree_flatten(model.parameters())))
        for name, module in model.named_modules():
            kind = type(module)
            around = self._around(f"{root}.{name}" if name else root, kind.__call__)
            module.__class__ = type(kind.__name__, (kind,), {"__call__": around})

    def _around(self, path, call):
        def watched(module, *args, **kwargs):
            for index, value in enumerate(args):
                if isinstance(value, mx.array):
                    self.put(path, f"in.{index}", value)
            result = call(module, *args, **kwargs)
            several = isinstance(result, (tuple, list))
            for index, value in enumerate(result if several else [result]):
                if isinstance(value, mx.array):
                    self.put(path, f"out.{index}" if several else "out", value)
            return result

        return watched
