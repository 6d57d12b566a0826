"""onert: measure_onert.py NETWORK BATCH full|last FILES."""

import contextlib
import io
import sys

import numpy as np

from bench import networks
from bench.measuring import Measurement

name, batch, mode, files = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
task = networks.task_of(name)
x, y = networks.random_batch(task, batch)
measurement = Measurement()

from onert.experimental import train  # noqa: E402

LOSSES = {"cce": "categorical_crossentropy", "mse": "mean_squared_error"}
model = train.session(f"{files}/{name}.{'tflite' if name in networks.SHIPPED else 'circle'}")
adam = train.optimizer.Adam(1e-5)
if mode == "last":
    adam.nums_trainable_ops = 2  # with the SOFTMAX
with contextlib.redirect_stdout(io.StringIO()):
    model.compile(optimizer=adam, loss=LOSSES[task.loss], batch_size=batch)
native, out = model.session, np.zeros_like(y)


def step() -> float:
    native.train_set_input(0, x)
    native.train_set_expected(0, y)
    native.train_set_output(0, out)
    native.train(update_weights=True)
    return float(native.train_get_loss(0))


measurement.finish(step)
