"""Trains a circle+ in onert, and returns its losses, training info and files."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from odt.kernels.rows.opdef import Array
from support.no_wheels import MISSING

HAVE_ONERT = "onert" not in MISSING and importlib.util.find_spec("onert") is not None

# The Python package cannot export a circle+; the library can. onert crashes on what it does not
# know, so it gets a process; paths have 15 bytes at most.
_SCRIPT = """
import ctypes as c, json, sys
from pathlib import Path
import numpy as np
import onert

lib = c.CDLL(str(Path(onert.__file__).parent / "native" / "libonert.so"))

class Info(c.Structure):
    _fields_ = [("learning_rate", c.c_float), ("batch_size", c.c_uint32), ("loss", c.c_int),
                ("reduction", c.c_int), ("opt", c.c_int), ("num_of_trainable_ops", c.c_int32)]

def call(name, *args):
    status = getattr(lib, name)(s, *args)
    assert status == 0, f"{name}: status {status}"

order = json.loads(sys.argv[1])
s = c.c_void_p()
assert lib.nnfw_create_session(c.byref(s)) == 0
call("nnfw_load_model_from_file", order["model"].encode())
call("nnfw_set_available_backends", b"train")
info = Info()
call("nnfw_train_get_traininfo", c.byref(info))
call("nnfw_train_prepare")
if "import" in order:
    call("nnfw_train_import_checkpoint", order["import"].encode())
losses = []
for step in range(order["steps"]):
    arrays = []
    for k in range(order["inputs"]):
        arrays.append(np.load(f"x{k}.npy")[step])
        call("nnfw_train_set_input", k, arrays[-1].ctypes.data_as(c.c_void_p), None)
    arrays.append(np.load("t.npy")[step])
    call("nnfw_train_set_expected", 0, arrays[-1].ctypes.data_as(c.c_void_p), None)
    call("nnfw_train", c.c_bool(order["update"]))
    loss = c.c_float()
    call("nnfw_train_get_loss", 0, c.byref(loss))
    losses.append(loss.value)
if "circle" in order:
    call("nnfw_train_export_circle", order["circle"].encode())
if "circleplus" in order:
    call("_Z28nnfw_train_export_circleplusP12nnfw_sessionPKc", order["circleplus"].encode())
if "checkpoint" in order:
    call("nnfw_train_export_checkpoint", order["checkpoint"].encode())
print(json.dumps([losses, {n: getattr(info, n) for n, _ in Info._fields_}]))
"""


def onert_trains(
    folder: Path,
    model: str,
    inputs: Sequence[Array],
    targets: Array,
    *,
    update: bool = True,
    **files: str,
) -> tuple[list[float], dict[str, Any]]:
    """Returns the losses of onert's steps, and the training info that onert reads from the model.

    Args:
        folder: working folder; files are names in it.
        model: a circle+.
        inputs: of each model input, steps × batch × …
        targets: the same of the output.
        update: False only evaluates.
        files: to `import` first; `circle`, `circleplus` and `checkpoint` to export at the end.
    """
    for k, a in enumerate(inputs):
        np.save(folder / f"x{k}.npy", np.ascontiguousarray(a, np.float32))
    np.save(folder / "t.npy", np.ascontiguousarray(targets, np.float32))
    order = {"model": model, "steps": len(targets), "inputs": len(inputs), "update": update}
    command = [sys.executable, "-c", _SCRIPT, json.dumps(order | files)]
    env = {**os.environ, "CPU_MEMORY_PLANNER": "Bump"}  # onert's others reuse live memory
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    losses, info = json.loads(done.stdout.splitlines()[-1])
    return losses, info
