#!/bin/sh
# A Hamming window that PyTorch exports to ONNX is another window than PyTorch's.
#
# PyTorch, SciPy, librosa and Kaldi compute 0.54 - 0.46 cos. ONNX has an operator HammingWindow, whose
# definition rounds nothing: 25/46 - 21/46 cos. torch.onnx.export translates torch.hamming_window in a
# model, such as the audio front end of a keyword network, to this operator, and one would expect it to
# write the formula instead. At the ends, where the window is 0.08, the exported model has 0.087, as a
# node, or as a constant where the exporter folds it. The exporter's own comparison with PyTorch
# (verify=True) is off by default. hann_window and blackman_window agree.
#
# torch 2.13.0, onnxscript 0.7.2, onnx 1.23.2, onnxruntime 1.32.0, Python 3.11; output, for 8 samples:
#   hamming_window:  PyTorch 0.0800 0.2147 0.5400, exported 0.0870 0.2207 0.5435
#   hann_window:     PyTorch 0.0000 0.1464 0.5000, exported 0.0000 0.1464 0.5000
# Exit status 1 if the exported Hamming window is PyTorch's.
# For odt: it computes the operator as ONNX defines it (docs/onnx.md, "Supported nodes").
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 onnxscript==0.7.2 onnx==1.23.2 onnxruntime==1.32.0
"$folder/venv/bin/python" - 2>"$folder/log" <<'PYTHON'
import sys
from importlib.metadata import version

import numpy as np
import onnxruntime
import torch

print(", ".join(f"{n} {version(n)}" for n in ("torch", "onnxscript", "onnx", "onnxruntime")))


class Windowed(torch.nn.Module):
    def __init__(self, window):
        super().__init__()
        self.window = window

    def forward(self, x):
        return x * self.window(x.shape[-1])


errors = []
for window in (torch.hamming_window, torch.hann_window):
    ones = torch.ones(1, 8)
    model = torch.onnx.export(
        Windowed(window), (ones,), input_names=["x"], dynamo=True, verbose=False
    ).model_proto
    session = onnxruntime.InferenceSession(model.SerializeToString())
    exported, wanted = session.run(None, {"x": ones.numpy()})[0][0], window(8).numpy()
    values = [" ".join(f"{v:.4f}" for v in found[:3]) for found in (wanted, exported)]
    print(f"{window.__name__ + ':':16} PyTorch {values[0]}, exported {values[1]}")
    errors.append(np.abs(exported - wanted).max())
if errors[0] < 0.001 or errors[1] > 0.001:
    sys.exit("changed: the exported windows are as in PyTorch")
PYTHON
