"""The tiny UNet as an ONNX graph; `lockstep parity record tiny.onnx --inputs tiny.safetensors` records it.

`python port_onnx.py tiny.onnx`
"""

import sys

import torch
from reference import inputs, model

if __name__ == "__main__":
    given = inputs()
    torch.onnx.export(
        model(), (given["sample"], given["timestep"]), sys.argv[1], input_names=["sample", "timestep"], dynamo=False
    )
