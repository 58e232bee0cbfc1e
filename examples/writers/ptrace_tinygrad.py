"""Writes a trace of a tinygrad model by watching its objects: copy this file and ptrace_numpy.py beside your port.

trace = Trace()
trace.watch("unet", model)     # weights, and from now on every call of an object with weights
model(x)
trace.save("port.safetensors")
"""

import ptrace_numpy
from tinygrad import Tensor
from tinygrad.nn.state import get_state_dict


class Trace(ptrace_numpy.Trace):
    def put(self, path, slot, values):
        super().put(path, slot, values.numpy())

    def watch(self, root, model):
        self.parameters(root, get_state_dict(model))
        self._watch(root, model)

    def _watch(self, path, thing):
        parts = enumerate(thing) if isinstance(thing, (list, tuple)) else getattr(thing, "__dict__", {}).items()
        for name, part in list(parts):
            if not isinstance(part, Tensor) and (isinstance(part, (list, tuple)) or get_state_dict(part)):
                self._watch(f"{path}.{name}", part)
        kind = type(thing)
        if callable(thing) and hasattr(thing, "__dict__"):
            thing.__class__ = type(kind.__name__, (kind,), {"__call__": self._around(path, kind.__call__)})

    def _around(self, path, call):
        def watched(thing, *args, **kwargs):
            for index, value in enumerate(args):
                if isinstance(value, Tensor):
                    self.put(path, f"in.{index}", value)
            result = call(thing, *args, **kwargs)
            for index, value in enumerate(result if isinstance(result, (tuple, list)) else [result]):
                self.put(path, f"out.{index}" if isinstance(result, (tuple, list)) else "out", value)
            return result

        return watched
