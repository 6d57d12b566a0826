"""LiteRT, forward only: measure_litert.py NETWORK BATCH full FILES."""

import sys

import networks
from measuring import Measurement

name, batch, files = sys.argv[1], int(sys.argv[2]), sys.argv[4]
x, _, _ = networks.random_batch(*networks.SAMPLES[name], batch)
measurement = Measurement()

from ai_edge_litert.interpreter import Interpreter  # noqa: E402

model = Interpreter(model_path=f"{files}/{name}.tflite", num_threads=2)
source, result = (d()[0]["index"] for d in (model.get_input_details, model.get_output_details))
model.resize_tensor_input(source, x.shape)
model.allocate_tensors()


def step() -> float:
    model.set_tensor(source, x)
    model.invoke()
    return float(model.get_tensor(result).flat[0])


measurement.finish(step)
