"""Writes the ONNX model of docs/tutorials/onnx-file.md, as PyTorch exports such a network.

Usage: PYTHONPATH=tests python -m support.onnx_tutorial MODEL.onnx
"""

import sys
from pathlib import Path

import numpy as np

from support.onnx_files import OnnxFile, value


def network(seed: int = 1) -> OnnxFile:
    """Images (N, 1, 28, 28) to logits of 10 classes, with random weights as in He et al."""
    draw = np.random.default_rng(seed).standard_normal
    file = OnnxFile()
    file.inputs.append(value("image", ("batch", 1, 28, 28)))
    file.outputs.append(value("logits", ("batch", 10)))
    shapes = {"conv1": (8, 1, 3, 3), "conv2": (16, 8, 3, 3), "fc": (10, 16 * 7 * 7)}
    for name, shape in shapes.items():
        deviation = np.sqrt(2 / np.prod(shape[1:]))
        weights = (deviation * draw(shape)).astype(np.float32)
        file.constants({f"{name}.weight": weights, f"{name}.bias": np.zeros(shape[0], np.float32)})
    x = "image"
    for name in ("conv1", "conv2"):
        parameters = f"{name}.weight", f"{name}.bias"
        file.add("Conv", x, *parameters, outputs=[f"{name}.sum"], pads=(1, 1, 1, 1), name=name)
        file.add("Relu", f"{name}.sum", outputs=[f"{name}.relu"])
        file.add(
            "MaxPool", f"{name}.relu", outputs=[f"{name}.pool"], kernel_shape=(2, 2), strides=(2, 2)
        )
        x = f"{name}.pool"
    file.add("Flatten", x, outputs=["features"])
    file.add("Gemm", "features", "fc.weight", "fc.bias", outputs=["logits"], transB=1, name="fc")
    return file


if __name__ == "__main__":
    network().write(Path(sys.argv[1]))
