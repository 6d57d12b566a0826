#!/bin/sh
# A network that answers the same for every class has a top-k accuracy of 100 % in Keras, for every k.
#
# One would expect that k classes are chosen, so that outputs that say nothing are right in k of n cases,
# and that top-1 accuracy is the accuracy. Keras counts a sample as right if fewer than k outputs are
# larger than that of its class: all equal outputs count at once. Int8 networks have many equal outputs,
# since a softmax has 256 steps, and small probabilities are all 0. scikit-learn chooses k classes, but
# the last of equal ones, where argmax chooses the first. The accuracy of one file has three values.
#
# keras 3.15.1 with jax 0.10.2, scikit-learn 1.9.1, numpy 2.4.6, Python 3.11; output, of 100 classes, in
# percent:
#   equal outputs:   argmax  1.2; top-1: Keras 100.0, scikit-learn  1.2; top-5: Keras 100.0, scikit-learn  5.5
#   float softmax:   argmax  8.2; top-1: Keras   8.2, scikit-learn  8.2; top-5: Keras  25.3, scikit-learn 25.3
#   the same, int8:  argmax  8.1; top-1: Keras   8.5, scikit-learn  8.2; top-5: Keras  26.8, scikit-learn 25.4
# Exit status 1 if Keras chooses k of equal outputs.
# For odt: of equal outputs the first counts as larger, so that top-1 is the accuracy of argmax
# (docs/reference.md, "Metrics").
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet keras==3.15.1 jax==0.10.2 scikit-learn==1.9.1 numpy==2.4.6
KERAS_BACKEND=jax "$folder/venv/bin/python" - 2>"$folder/log" <<'PYTHON'
import sys

import jax
import keras
import numpy as np
import sklearn
from keras.metrics import SparseTopKCategoricalAccuracy
from sklearn.metrics import top_k_accuracy_score

print(f"keras {keras.__version__} with jax {jax.__version__}, scikit-learn {sklearn.__version__}")
SAMPLES, CLASSES = 2000, 100
rng = np.random.default_rng(0)
labels = rng.integers(0, CLASSES, SAMPLES)
logits = rng.normal(size=(SAMPLES, CLASSES))
logits[np.arange(SAMPLES), labels] += 1
floats = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
CASES = {
    "equal outputs": np.full_like(floats, 1 / CLASSES),
    "float softmax": floats,
    "the same, int8": np.minimum(np.round(256 * floats), 255) / 256,  # scale 1/256, as in TFLite
}
top = {}
for name, outputs in CASES.items():
    print(f"{name + ':':16} argmax {100 * np.mean(outputs.argmax(1) == labels):4.1f}", end="")
    for k in (1, 5):
        metric = SparseTopKCategoricalAccuracy(k=k)
        metric.update_state(labels, outputs.astype(np.float32))
        top[name, k] = 100 * float(metric.result())
        other = 100 * top_k_accuracy_score(labels, outputs, k=k, labels=range(CLASSES))
        print(f"; top-{k}: Keras {top[name, k]:5.1f}, scikit-learn {other:4.1f}", end="")
    print()
if top["equal outputs", 1] < 99 or top["equal outputs", 5] < 99:
    sys.exit("changed: Keras does not count all equal outputs as right")
PYTHON
