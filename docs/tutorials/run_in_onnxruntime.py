"""Runs a model in ONNX Runtime on test data and prints its accuracy.

Needs ONNX Runtime: pip install onnxruntime.

Usage: python docs/tutorials/run_in_onnxruntime.py MODEL.onnx INPUTS.npy EXPECTED.npy

EXPECTED holds one-hot classes.
"""

import sys

import numpy as np
import onnxruntime


def main(model: str, inputs: str, expected: str) -> None:
    """Runs `model` on all samples and prints how many have the right class."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (source,) = session.get_inputs()
    x, t = np.load(inputs), np.load(expected)
    (y,) = session.run(None, {source.name: x})
    accuracy = (y.argmax(axis=1) == t.argmax(axis=1)).mean()
    print(f"ONNX Runtime: {len(y)} samples, accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
