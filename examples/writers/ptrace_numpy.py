"""Writes a trace (`ptrace/1`) with numpy alone: copy this file beside your port.

trace = Trace()
trace.parameters("unet", weights)       # what the port computes with, in its own layout
trace.put("unet.conv_in", "out", x)     # after every layer
trace.save("port.safetensors")
"""

import json
import struct

import numpy as np

NAMES = {"float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
         "uint8": "U8", "bool": "BOOL"}  # fmt: skip


class Trace:
    """Values in the order in which they were computed; `step` is "-" or, inside a loop, `denoise:07`."""

    def __init__(self):
        self.tensors, self.step = [], "-"

    def put(self, path, slot, values):
        name = f"{len(self.tensors):06d}|{self.step}|{path}|{slot}"
        self.tensors.append((name, np.array(values, order="C")))

    def parameters(self, root, weights):
        for name, values in weights.items():
            self.put(f"{root}.{name}", "param", values)

    def save(self, file):
        header, position = {}, 0
        for name, x in self.tensors:
            end = position + x.nbytes
            header[name] = {"dtype": NAMES[x.dtype.name], "shape": x.shape, "data_offsets": [position, end]}
            position = end
        blob = json.dumps(header).encode()
        blob += b" " * (-len(blob) % 8)
        with open(file, "wb") as out:
            out.write(struct.pack("<Q", len(blob)) + blob + b"".join(x.tobytes() for _, x in self.tensors))
