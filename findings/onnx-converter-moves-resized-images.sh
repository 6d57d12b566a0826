#!/bin/sh
# onnx's version converter moves the pixels of resized images when it lifts a model to opset 11.
#
# Version converters exist so that a model of an older opset computes the same function in a newer one,
# and onnx's raises an error where it cannot. Resize of opset 10 and Upsample read the input at i / scale
# for the output i. Opset 11 added coordinate_transformation_mode, whose default is the other one,
# half_pixel. One would expect the converter to write "asymmetric" into the node. It writes nothing, and
# says nothing: linear resizing moves by a quarter of a pixel for twice the size, and by half a pixel for
# half of it, and nearest neighbors move in images that shrink to a third. Nearest neighbors that enlarge
# by a whole number, as in many detectors, stay, so that a test with one of them passes.
#
# onnx 1.23.2, onnxruntime 1.32.0, Python 3.11; output, for the pixels 0 1 2 3:
#   Upsample of opset 9, linear, times 2:     0 0.5 1 1.5 2 2.5 3 3
#     as opset 13:                            0 0.25 0.75 1.25 1.75 2.25 2.75 3
#   Resize of opset 10, linear, times 0.5:    0 2
#     as opset 13:                            0.5 2.5
#   Resize of opset 10, nearest, times 0.34:  0
#     as opset 13:                            1
#   Resize of opset 10, nearest, times 2:     0 0 1 1 2 2 3 3
#     as opset 13:                            0 0 1 1 2 2 3 3
# Exit status 1 if a converted model computes what the model before it does.
# For odt: it reads opsets from 6 as they are, so that nothing needs the converter (docs/onnx.md,
# "Supported nodes").
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnx==1.23.2 onnxruntime==1.32.0
"$folder/venv/bin/python" - <<'PYTHON'
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, version_converter

print(f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}")


def resizing(kind, opset, mode, scale):
    """A model that resizes a row of four pixels."""
    node = helper.make_node(kind, ["x", "scales"], ["y"], mode=mode)
    scales = numpy_helper.from_array(np.array([1, 1, 1, scale], np.float32), "scales")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 1, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 1, int(4 * scale)])
    graph = helper.make_graph([node], "graph", [x], [y], [scales])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=4)
    onnx.checker.check_model(model)
    return model


def answer(model):
    session = onnxruntime.InferenceSession(model.SerializeToString())
    pixels = np.arange(4, dtype=np.float32).reshape(1, 1, 1, 4)
    return " ".join(f"{pixel:g}" for pixel in session.run(None, {"x": pixels})[0].ravel())


same = []
for kind, opset, mode, scale in (
    ("Upsample", 9, "linear", 2),
    ("Resize", 10, "linear", 0.5),
    ("Resize", 10, "nearest", 0.34),
    ("Resize", 10, "nearest", 2),
):
    model = resizing(kind, opset, mode, scale)
    before, after = answer(model), answer(version_converter.convert_version(model, 13))
    print(f"{f'{kind} of opset {opset}, {mode}, times {scale}:':41} {before}")
    print(f"{'  as opset 13:':41} {after}")
    same.append(before == after)
if same != [False, False, False, True]:
    sys.exit("changed: the converter treats Resize otherwise than described")
PYTHON
