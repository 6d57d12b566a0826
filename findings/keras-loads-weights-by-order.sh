#!/bin/sh
# Keras 3 loads weights into layers of other names, without a word, although both models name their layers.
#
# A file NAME.weights.h5 stores a folder for each layer. One would expect the folders to have the names of
# the layers, as in the files of Keras 2, or load_weights to compare the names. They are called dense,
# dense_1 and so on, by class and position in model.layers, whatever the layers are called. The position
# depends on the order of the inputs: a model whose code lists its inputs the other way round gets the
# weights of each branch in the other one if the shapes fit. Names of layers do not protect a file from
# changes of the code; a comparison of get_layer(name) before and after does.
#
# keras 3.15.1 with jax 0.10.2, h5py 3.16.0, Python 3.11; output:
#   folders: dense, dense_1
#   written: left 1, right 2
#   read by a model with inputs left, right: left 1, right 2
#   read by a model with inputs right, left: left 2, right 1
# Exit status 1 if names decide.
# For odt: names decide in its checkpoints of HDF5 (docs/checkpoints.md, "Convert a checkpoint").
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet keras==3.15.1 jax==0.10.2 h5py==3.16.0
cd "$folder"
KERAS_BACKEND=jax venv/bin/python - 2>log <<'PYTHON'
import sys

import h5py
import jax
import keras
import numpy as np

print(f"keras {keras.__version__} with jax {jax.__version__}, h5py {h5py.__version__}")
PATH = "model.weights.h5"


def two_branches(*order):
    """A sum of two layers, `left` and `right`; the inputs are listed in this order."""
    inputs = {name: keras.Input((2,), name=f"{name}_input") for name in order}
    layers = {n: keras.layers.Dense(3, use_bias=False, name=n)(x) for n, x in inputs.items()}
    return keras.Model(inputs, keras.layers.Add()(list(layers.values())))


def text(model):
    values = {n: np.asarray(model.get_layer(n).kernel)[0, 0] for n in ("left", "right")}
    return ", ".join(f"{name} {value:g}" for name, value in values.items())


model = two_branches("left", "right")
model.get_layer("left").kernel.assign(np.full((2, 3), 1))
model.get_layer("right").kernel.assign(np.full((2, 3), 2))
model.save_weights(PATH)
with h5py.File(PATH) as file:
    print("folders:", ", ".join(name for name in file["layers"] if name.startswith("dense")))
print("written:", text(model))
for order in (("left", "right"), ("right", "left")):
    other = two_branches(*order)
    other.load_weights(PATH)
    print(f"read by a model with inputs {', '.join(order)}: {text(other)}")
if text(other) == text(model):
    sys.exit("changed: the names of layers decide which weights they get")
PYTHON
