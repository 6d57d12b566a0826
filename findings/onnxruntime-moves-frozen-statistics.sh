#!/bin/sh
# ONNX Runtime's training moves the running statistics of BatchNormalization that are listed as frozen.
#
# generate_artifacts takes parameters that do not train in frozen_params. One would expect such a
# parameter to keep its value, and a BatchNormalization whose node has no training_mode (0) to normalize
# with the running statistics of the file, also in training. Steps of training normalize with the
# statistics of the batch, and then move mean and variance in the checkpoint and in the exported model,
# because they are frozen parameters. If they are in neither list, they stay, and the steps are the same.
#
# onnxruntime-training 1.19.2, onnx 1.16.2, Python 3.11; output:
#   loss of training 0.7407, of evaluation 0.7265
#   in frozen_params: running mean moved by 0.1139, in the export by 0.1139
#   in neither list: running mean moved by 0.0000, in the export by 0.0000
# Exit status 1 if frozen statistics stay, or those in neither list move.
# For odt: odt.compat.ort does the same and says so once; odt.Trainer keeps the statistics of the file
# unless batch_norm="batch" is given (docs/onnxruntime.md, Batch normalization and dropout).
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime-training==1.19.2 onnx==1.16.2 'numpy<2'
cd "$folder"
venv/bin/python - 2>log <<'PYTHON'
import os
import sys
import types

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

# onnxruntime.training imports torch; what is used here does not need it.
package = types.ModuleType("onnxruntime.training")
package.__path__ = [os.path.join(os.path.dirname(onnxruntime.__file__), "training")]
sys.modules["onnxruntime.training"] = package
from onnxruntime.training import artifacts
from onnxruntime.training.api import CheckpointState, Module, Optimizer

onnxruntime.set_default_logger_severity(4)
print(f"onnxruntime-training {onnxruntime.__version__}, onnx {onnx.__version__}")
TRAINED, STATISTICS = ["scale", "bias", "weight"], ["mean", "variance"]


def model():
    """BatchNormalization of 3 values, and a layer of 2 classes."""
    rng = np.random.default_rng(1)
    values = {
        "scale": np.ones(3),
        "bias": np.zeros(3),
        "mean": np.zeros(3),
        "variance": np.ones(3),
        "weight": rng.standard_normal((2, 3)) * 0.1,
    }
    nodes = [
        helper.make_node("BatchNormalization", ["x", "scale", "bias", *STATISTICS], ["n"]),
        helper.make_node("Gemm", ["n", "weight"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2])],
        [numpy_helper.from_array(a.astype(np.float32), n) for n, a in values.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)])
    made.ir_version = 8
    onnx.checker.check_model(made, full_check=True)
    return made


def one_step(frozen):
    """Losses of training and evaluation; movement of the running mean in the state and the export."""
    artifacts.generate_artifacts(
        model(),
        requires_grad=TRAINED,
        frozen_params=frozen,
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=artifacts.OptimType.SGD,
        artifact_directory=".",
    )
    state = CheckpointState.load_checkpoint("checkpoint")
    module = Module("training_model.onnx", state, "eval_model.onnx")
    optimizer = Optimizer("optimizer_model.onnx", module)
    rng = np.random.default_rng(2)
    batch = rng.normal(1, 0.5, (8, 3)).astype(np.float32), rng.integers(0, 2, 8)
    module.eval()
    evaluated = float(module(*batch))
    module.train()
    trained = float(module(*batch))
    optimizer.step()
    module.export_model_for_inferencing("inference.onnx", ["y"])
    stored = {i.name: numpy_helper.to_array(i) for i in onnx.load("inference.onnx").graph.initializer}
    kept = dict(state.parameters)["mean"].data if frozen else np.zeros(3)
    return trained, evaluated, float(np.abs(kept).max()), float(np.abs(stored["mean"]).max())


trained, evaluated, moved, exported = one_step(STATISTICS)
print(f"loss of training {trained:.4f}, of evaluation {evaluated:.4f}")
print(f"in frozen_params: running mean moved by {moved:.4f}, in the export by {exported:.4f}")
_, _, stayed, same = one_step([])
print(f"in neither list: running mean moved by {stayed:.4f}, in the export by {same:.4f}")
if trained == evaluated or min(moved, exported) < 0.01 or same:
    sys.exit("CHANGED: frozen running statistics stay, or others move")
PYTHON
