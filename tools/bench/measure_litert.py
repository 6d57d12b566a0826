"""LiteRT, forward only: measure_litert.py NETWORK BATCH full FILES."""

import sys

from bench import networks
from bench.measuring import Measurement

name, batch, files = sys.argv[1], int(sys.argv[2]), sys.argv[4]
x, _ = networks.random_batch(networks.task_of(name), batch)
shipped = name in networks.SHIPPED
measurement = Measurement()

from ai_edge_litert.interpreter import Interpreter  # noqa: E402

path = f"{files}/{name}.tflite" if shipped else f"{files}/{name}-{batch}.tflite"
model = Interpreter(model_path=path, num_threads=2)
source, result = (d()[0]["index"] for d in (model.get_input_details, model.get_output_details))
if shipped:
    model.resize_tensor_input(source, x.shape)
model.allocate_tensors()


def step() -> float:
    model.set_tensor(source, x)
    model.invoke()
    return float(model.get_tensor(result).flat[0])


measurement.finish(step)
