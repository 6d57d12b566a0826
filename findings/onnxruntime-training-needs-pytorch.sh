#!/bin/sh
# onnxruntime-training 1.19.2 cannot be imported in Python without PyTorch, which it does not require.
#
# One would expect that on-device training needs no PyTorch: the package's metadata list cerberus,
# flatbuffers, h5py, numpy, onnx, packaging, protobuf, setuptools and sympy. But any import below
# onnxruntime.training first runs its __init__, which imports optimizers for PyTorch. The modules
# themselves work without it if the package is replaced by an empty one with the same path.
#
# onnxruntime-training 1.19.2, onnx 1.16.2, Python 3.11; output:
#   requires torch: False
#   onnxruntime: imported
#   onnxruntime.training.api: No module named 'torch'
#   onnxruntime.training.artifacts: No module named 'torch'
#   onnxruntime.training.api in an empty package: imported
# Exit status 1 if an import has another result.
# For odt: its processes hold no PyTorch, so figures of memory beside ONNX Runtime are given both ways
# (docs/onnxruntime.md).
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime-training==1.19.2 onnx==1.16.2 'numpy<2'
cat > "$folder/try.py" <<'PYTHON'
import importlib
import importlib.metadata
import importlib.util
import os
import sys
import types

name, is_empty = sys.argv[1], len(sys.argv) > 2
if name == "metadata":
    needs = importlib.metadata.requires("onnxruntime-training")
    print("requires torch:", any(n.startswith("torch") for n in needs))
    sys.exit()
if is_empty:
    path = os.path.dirname(importlib.util.find_spec("onnxruntime").origin)
    package = types.ModuleType("onnxruntime.training")
    package.__path__ = [os.path.join(path, "training")]
    importlib.import_module("onnxruntime")
    sys.modules["onnxruntime.training"] = package
try:
    importlib.import_module(name)
    result = "imported"
except ModuleNotFoundError as e:
    result = str(e)
print(f"{name}{' in an empty package' if is_empty else ''}: {result}")
PYTHON
python="$folder/venv/bin/python"
{
    "$python" "$folder/try.py" metadata
    "$python" "$folder/try.py" onnxruntime
    "$python" "$folder/try.py" onnxruntime.training.api
    "$python" "$folder/try.py" onnxruntime.training.artifacts
    "$python" "$folder/try.py" onnxruntime.training.api empty
} | tee "$folder/output"
diff "$folder/output" - <<'EXPECTED'
requires torch: False
onnxruntime: imported
onnxruntime.training.api: No module named 'torch'
onnxruntime.training.artifacts: No module named 'torch'
onnxruntime.training.api in an empty package: imported
EXPECTED
