"""Writes a trace of a Flax model by intercepting its module calls: copy this file and ptrace_numpy.py beside your port.

    trace = Trace()
    trace.parameters("unet", variables["params"])
    with trace.watch("unet"):
        model.apply(variables, x)
    trace.save("port.safetensors")

Without Flax, put `trace.put("unet.conv_in", "out", x)` where you want to look; inside of `jit` it is a callback.
"""

from contextlib import contextmanager
from functools import partial

import jax
import numpy as np
import ptrace_numpy


class Trace(ptrace_numpy.Trace):
    def put(self, path, slot, values):
        keep = partial(super().put, path, slot)
        if isinstance(values, jax.core.Tracer):
            jax.debug.callback(lambda x: keep(np.asarray(x)), values, ordered=True)
        else:
            keep(np.asarray(values))

    def parameters(self, root, weights):
        for path, values in jax.tree_util.tree_leaves_with_path(weights):
            self.put(".".join([root, *(part.key for part in path)]), "param", values)

    @contextmanager
    def watch(self, root):
        """Every call of a module: what goes in and what comes out."""
        from flax import linen

        def around(call, args, kwargs, context):
            if context.method_name != "__call__":
                return call(*args, **kwargs)
            path = ".".join([root, *context.module.path])
            for index, value in enumerate(args):
                if hasattr(value, "shape"):
                    self.put(path, f"in.{index}", value)
            result = call(*args, **kwargs)
            for index, value in enumerate(jax.tree_util.tree_leaves(result)):
                self.put(path, f"out.{index}" if isinstance(result, (tuple, list, dict)) else "out", value)
            return result

        with linen.intercept_methods(around):
            yield self

    def save(self, file):
        jax.effects_barrier()
        super().save(file)
