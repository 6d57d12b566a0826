#!/bin/sh
# The AUROC of torchmetrics depends on how samples are divided into batches.
#
# AUROC keeps all scores until compute(), and takes logits as well as probabilities: it applies a sigmoid
# if scores are outside of 0 to 1. One would expect it to decide once for all scores. It decides at each
# update(): a batch of logits that all happen to be between 0 and 1 is kept as it is, and ranked among
# the probabilities of the others. This is common in the last batch, which is short. BinaryAccuracy,
# F1 and average precision do the same; so do their multiclass forms with softmax. Probabilities,
# or update() once with all samples, give the value of the definition.
#
# torchmetrics 1.9.0, torch 2.13.0, Python 3.11; output, for logits 1.5 -2 0.9 0.1, the first one positive:
#   batches of 4: AUROC 1.00, accuracy 0.50
#   batches of 2: AUROC 0.67, accuracy 0.75
#   batches of 1: AUROC 0.67, accuracy 0.75
# Exit status 1 if batches make no difference.
# For odt: the output layer says whether values are logits, and metrics are those of all samples
# (tests/kernels/test_metrics.py, test_values_do_not_depend_on_batches).
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 torchmetrics==1.9.0
"$folder/venv/bin/python" - 2>"$folder/log" <<'PYTHON'
import sys

import torch
import torchmetrics
from torchmetrics.classification import BinaryAccuracy, BinaryAUROC

print(f"torchmetrics {torchmetrics.__version__}, torch {torch.__version__}")
LOGITS, TARGETS = torch.tensor([1.5, -2, 0.9, 0.1]), torch.tensor([1, 0, 0, 0])


def value(metric, batch):
    for logits, targets in zip(LOGITS.split(batch), TARGETS.split(batch), strict=True):
        metric.update(logits, targets)
    return float(metric.compute())


areas = {}
for batch in (4, 2, 1):
    areas[batch], accuracy = value(BinaryAUROC(), batch), value(BinaryAccuracy(), batch)
    print(f"batches of {batch}: AUROC {areas[batch]:.2f}, accuracy {accuracy:.2f}")
if len(set(areas.values())) == 1:
    sys.exit("changed: AUROC does not depend on batches")
PYTHON
