#!/bin/sh
# A Keras network that is converted before it is trained has lost biases that it needs to be trained.
#
# One would expect that a converted layer has the parameters of the layer. TensorFlow's converter to
# TFLite leaves a bias out of FULLY_CONNECTED if all its values are 0, as they are in every new layer,
# and stores equal biases of several layers as one tensor. A device that trains such a file has no bias
# in its dense layers, and one bias for two convolutions: it does not follow Keras, without any message.
# Biases that differ are stored one by one. Convert a network whose biases are not 0 and not equal, or
# give them small random values first.
#
# TensorFlow 2.19.0 with Keras 3.15.1, Python 3.11; output, with the tensors of each
# operator, whose numbers may differ where biases are random:
#   dense, biases 0: FULLY_CONNECTED [0, 2, -1], FULLY_CONNECTED [3, 1, -1]
#   dense, biases equal: FULLY_CONNECTED [0, 3, 2], FULLY_CONNECTED [4, 1, 2]
#   dense, biases random: FULLY_CONNECTED [0, 4, 3], FULLY_CONNECTED [5, 1, 2]
#   convolution, biases 0: CONV_2D [0, 3, 2], CONV_2D [4, 1, 2]
#   convolution, biases equal: CONV_2D [0, 3, 2], CONV_2D [4, 1, 2]
#   convolution, biases random: CONV_2D [0, 4, 5], CONV_2D [6, 2, 1]
# Exit status 1 if the converter keeps a bias of zeros, or separates equal ones.
# For odt: docs/trained-weights.md, "Comparison with Keras"; tests/support/keras_networks.py makes all biases random.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tensorflow-cpu==2.19.0 keras==3.15.1
TF_CPP_MIN_LOG_LEVEL=3 TMPDIR="$folder" "$folder/venv/bin/python" - 2>"$folder/log" <<'PYTHON'
import contextlib
import io
import sys

import keras
import numpy as np
import tensorflow as tf

print(f"TensorFlow {tf.__version__}, Keras {keras.__version__}")
rng = np.random.default_rng(1)
layers = keras.layers
networks = {
    "dense": lambda: [layers.Input((6,)), layers.Dense(4, activation="relu"), layers.Dense(4)],
    "convolution": lambda: [
        layers.Input((8, 8, 3)),
        layers.Conv2D(4, 3, activation="relu"),
        layers.Conv2D(4, 3),
    ],
}
values = {
    "0": lambda shape: np.zeros(shape),
    "equal": lambda shape: np.full(shape, 0.1),
    "random": lambda shape: rng.normal(size=shape),
}
biases = {}
for name, make in networks.items():
    for kind, value in values.items():
        model = keras.Sequential(make())
        for variable in model.variables:
            if variable.name == "bias":
                variable.assign(value(variable.shape))
        with contextlib.redirect_stdout(io.StringIO()):
            content = tf.lite.TFLiteConverter.from_keras_model(model).convert()
        operators = tf.lite.Interpreter(model_content=content)._get_ops_details()
        operators = [o for o in operators if o["op_name"] in ("FULLY_CONNECTED", "CONV_2D")]
        read = [f"{o['op_name']} {[int(i) for i in o['inputs']]}" for o in operators]
        print(f"{name}, biases {kind}: {', '.join(read)}")
        biases[name, kind] = [int(o["inputs"][2]) for o in operators]
left_out = biases["dense", "0"] == [-1, -1]
shared = all(
    len(set(biases[key])) == 1
    for key in (("dense", "equal"), ("convolution", "0"), ("convolution", "equal"))
)
apart = all(len(set(biases[name, "random"])) == 2 for name in networks)
if not (left_out and shared and apart):
    print("changed: the converter treats biases otherwise than described")
    sys.exit(1)
PYTHON
