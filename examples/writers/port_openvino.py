"""The tiny UNet by OpenVINO, from the graph that port_onnx.py writes. `python port_openvino.py tiny.safetensors OUT`"""

import sys
from pathlib import Path

from ptrace_openvino import Trace
from safetensors.numpy import load_file

if __name__ == "__main__":
    given, trace = load_file(sys.argv[1]), Trace()
    graph = Path(sys.argv[1]).with_suffix(".onnx")
    trace.run("ov", graph, {"sample": given["sample"], "timestep": given["timestep"]})
    trace.save(sys.argv[2])
