#!/bin/sh
# PyTorch exports weights that are equal at the time as one weight of the ONNX file.
#
# nn.TransformerEncoder makes its layers as copies of one layer, and each new nn.LayerNorm has a scale of
# ones and a bias of zeros. One would expect that a file, which can be trained further, has the weights of
# each layer. torch.onnx.export(dynamo=True) stores tensors with equal values once, and all layers read
# this one. Predictions are the same, but who trains the file trains one layer in place of six, which is
# another model than in PyTorch. With optimize=False, the file has all weights; so it has if the weights
# differ, as after training.
#
# torch 2.13.0, onnxscript 0.7.2, onnx 1.23.2, Python 3.11; output:
#   parameters of 6 layers in PyTorch          3600
#   in the file, optimized                     576
#   in the file, optimize=False                3600
#   in the file, with noise in all weights     3600
# Exit status 1 if the optimized file has the weights of each layer.
# For odt: one tensor is one weight (docs/trained-weights.md, "Shared weights and factors").
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 onnxscript==0.7.2 onnx==1.23.2
"$folder/venv/bin/python" - 2>"$folder/log" <<'PYTHON'
import sys
from importlib.metadata import version
from math import prod

import torch

print(", ".join(f"{n} {version(n)}" for n in ("torch", "onnxscript", "onnx")))


def in_file(optimize):
    """Counts the float values of a file's initializers with axes of more than one entry."""
    program = torch.onnx.export(
        model, (torch.zeros(1, 5, 8),), dynamo=True, optimize=optimize, verbose=False
    )
    tensors = program.model_proto.graph.initializer
    return sum(prod(t.dims) for t in tensors if t.data_type == 1 and prod(t.dims) > 1)


torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).eval()
print(f"{'parameters of 6 layers in PyTorch':42} {sum(p.numel() for p in model.parameters())}")
optimized = in_file(optimize=True)
print(f"{'in the file, optimized':42} {optimized}")
print(f"{'in the file, optimize=False':42} {in_file(optimize=False)}")
with torch.no_grad():
    for p in model.parameters():
        p += 0.01 * torch.randn_like(p)
different = in_file(optimize=True)
print(f"{'in the file, with noise in all weights':42} {different}")
if optimized > different / 4:
    sys.exit("changed: the file has the weights of each layer")
PYTHON
