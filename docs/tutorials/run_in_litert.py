"""Runs a model in LiteRT on test data and prints its accuracy.

For one-hot targets, accuracy is the fraction of samples with the right class; for other targets,
the mean absolute error is printed. Needs LiteRT: pip install ai-edge-litert.

Usage: python docs/tutorials/run_in_litert.py MODEL.tflite INPUTS EXPECTED

INPUTS and EXPECTED are .npy files, or raw files of `odt gen-datafile` with their JSON files.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from numpy.typing import NDArray


def read(file: str) -> NDArray[Any]:
    """The samples of a file; the JSON file next to a raw file states shape and dtype."""
    if file.endswith(".npy"):
        samples: NDArray[Any] = np.load(file)
        return samples
    tensor = json.loads(Path(f"{file}.json").read_text(encoding="utf-8"))["tensors"][0]
    return np.fromfile(file, tensor["dtype"]).reshape(-1, *tensor["shape"])


def main(model: str, inputs: str, expected: str) -> None:
    """Runs `model` on all samples and prints how its outputs compare with the expected ones."""
    interpreter = Interpreter(model_path=model)
    interpreter.allocate_tensors()
    source, target = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    outputs = []
    for x in read(inputs):
        interpreter.set_tensor(source["index"], x.astype(source["dtype"]).reshape(source["shape"]))
        interpreter.reset_all_variables()  # else an LSTM keeps its state
        interpreter.invoke()
        outputs.append(interpreter.get_tensor(target["index"])[0])
    y, t = np.array(outputs), read(expected)
    if t.shape[-1] > 1 and np.isin(t, (0, 1)).all():
        print(f"LiteRT: {len(y)} samples, accuracy {(y.argmax(1) == t.argmax(1)).mean():.4f}")
    else:
        print(f"LiteRT: {len(y)} samples, mean absolute error {np.abs(y - t).mean():.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
