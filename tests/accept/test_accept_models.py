"""Every real model: forward as LiteRT's; then it trains and is exported, or says why not.

What is expected of a model is written here by hand, from the README of the data.
"""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.accept_data import complete
from support.judges import difference, litert, odt, onert, random_inputs
from support.networks import ArrayData, InOrder

from odt.cli.main import main
from odt.core.export.exporter import export_model
from odt.core.formats.reader import read_model
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.dequantize import dequantize_weights
from odt.core.model.training_info import TrainingInfo
from odt.core.training.trainer import Trainer
from odt.kernels.rows.opdef import Array

pytestmark = pytest.mark.accept

# "Float training sensible" begins with yes or head; or the issue asks for it all the same.
TRAINS = (
    "mlperf-tiny-ad-autoencoder",
    "mlperf-tiny-resnet8-cifar10",
    "mlperf-tiny-vww-mobilenetv1-0.25-96",
    "teachable-machine-mobilenetv2-0.35-fruit",
    "nntrainer-conv4-60classes-backbone",
    "tflm-hello-world-sine-float",
    "tflm-magic-wand-float",
    "tflm-mnist-lstm-float",
    "mnist-dense-512-10",
    "mnist-cnn-uint8-input",
    "text-classification-average-embedding",
    "planestrike-policy-dense",
    "mtcnn-rnet",
    "mediapipe-iris-landmark",
    "kws-yes-no-conv60x40",
    "kws-yes-no-dwconv128x32",
    "recommendation-rnn-lstm",  # the issue overrides the refusal of LSTM and TOPK_V2
    "deeplabv3-mobilenetv2-257",  # slow training
    "boxes/blazeface-front-f32",
    "boxes/blazeface-short-f16",
)
BATCHES = {"deeplabv3-mobilenetv2-257": 2}
RATES = {"tflm-hello-world-sine-float": 1e-3, "deeplabv3-mobilenetv2-257": 1e-5}
RATES["boxes/blazeface-short-f16"] = 1e-6  # no normalization, and outputs in pixels

# Computed; nothing in them trains, or nothing has a use: references and single operators.
COMPUTED = (
    "transfer-head-initialize",
    "transfer-head-inference",
    "transfer-head-optimizer-sgd",
    "transfer-head-train",
    "op-tests/add_1d_2d_3d_4d",
    "op-tests/add_c1_c7",
    "op-tests/constant_output_tensor",
    "op-tests/fallback_model",
    "op-tests/group_norm_2_groups_op",
    "op-tests/island_partial",
    "op-tests/k_einsum",
    "op-tests/mixed_input_model",
    "op-tests/multi_signature_model",
    "op-tests/norm",
    "op-tests/q_einsum",
    "op-tests/reverse_signature_model",
    "op-tests/rope",
    "op-tests/simple_add_dynamic_shape",
    "op-tests/simple_elu_op",
    "op-tests/simple_l2_norm",
    "op-tests/simple_log_softmax_op",
    "op-tests/simple_mirror_pad_reflect_op",
    "op-tests/simple_reducemin_op",
    "op-tests/simple_relu0to1_op",
    "op-tests/simple_relu1_op",
    "op-tests/simple_round_op",
    "op-tests/simple_scatter_nd_op",
    "op-tests/simple_tile_op",
    "op-tests/simple_topk_op",
    "op-tests/sqrt_mean_mul_multiple",
    "op-tests/sqrt_mean_mul_ops",
    "op-tests/topo_sort_fork",
    "op-tests/topo_sort_fork_split",
    "op-tests/topo_sort_fork_violation",
    "op-tests/topo_sort_interleaved",
)

# The nodes of the first subgraph that odt has to name: position and operator.
REFUSED = {
    "circle/while_000.circle": {0: "WHILE"},
}
# Training leaves out its last operators, which draw an action.
POLICY = "planestrike-tf-agents-flex.tflite"
# Signatures of training, or weights in variables: tests/core/recipe/test_interface.py.
SIGNATURES = tuple(
    f"train-signature-{name}.tflite"
    for name in ("linear", "linear-flex", "logistic-regression", "enginefault-mlp")
)
# Files of integers, and an operator that only its own library computes.
DETECTORS = (
    "boxes/mcunet-person-det-int8.tflite",
    "boxes/postprocess-toy.tflite",
    "boxes/ssd-mobilenet-v1-uint8.tflite",
)
OTHERS = ("mlperf-tiny-kws-dscnn-hybrid.tflite", "circle/test_onnx.circle")  # tests of their own


def inputs_for(name: str, path: Path, samples: int) -> list[Array]:
    """Values that the model can use: numbers of words and films, weights of zero."""
    rng = np.random.default_rng(0)
    if "text-classification" in name:
        return [rng.integers(0, 10000, (samples, 256)).astype(np.float32)]
    if "recommendation" in name:
        return [rng.integers(1, 3000, (samples, 10)).astype(np.int32)]
    if name == "mnist-cnn-uint8-input":
        return [rng.integers(0, 256, (samples, 28, 28)).astype(np.uint8)]
    if name == "transfer-head-train":  # of random weights LiteRT gives NaN
        inputs = random_inputs(path, samples)
        classes = np.eye(31, dtype=np.float32)[rng.integers(0, 31, inputs[1].shape[:2])]
        return [inputs[0], classes, inputs[2] * 0, inputs[3] * 0]
    if "scatter_nd" in name:
        return [np.array([[[0, 0, 1, 3], [0, 5, 2, 7]]] * samples, np.int32)]
    return random_inputs(path, samples)


def targets_for(name: str, inputs: list[Array], outputs: Array) -> tuple[str, Array]:
    """A task of the model's own kind: the loss, and something it does not do yet."""
    if "autoencoder" in name:
        return "mean_squared_error", inputs[0]
    if "sine" in name:
        return "mean_squared_error", np.cos(inputs[0])
    likely = outputs.min() >= 0 and np.allclose(outputs.sum(axis=-1), 1, atol=1e-4)
    if likely and name != "mtcnn-rnet":  # whose SOFTMAX is written out, to be trained through
        wanted = (outputs.argmax(axis=-1) + 1) % outputs.shape[-1]
        return "categorical_crossentropy", np.eye(outputs.shape[-1], dtype=np.float32)[wanted]
    return "mean_squared_error", outputs + np.float32(0.5)


def differences(ours: list[Array], theirs: list[Array]) -> float:
    """The greatest over all outputs, where the other's are finite."""
    pairs = [
        (np.asarray(a, np.float64), np.asarray(b, np.float64))
        for a, b in zip(ours, theirs, strict=True)
    ]
    assert all(np.isfinite(b).all() for _, b in pairs)
    return max(difference(a, b) for a, b in pairs)


def train(
    path: Path, name: str, inputs: list[Array], before: list[Array], out: Path
) -> list[float]:
    """Twenty steps on one batch; the losses."""
    model = read_model(str(path))
    graph = dequantize_weights(model).graph
    samples = len(inputs[0])
    tasks = [targets_for(name, inputs, a) for a in before if a.dtype.kind == "f"]
    floats = [k for k, a in enumerate(before) if a.dtype.kind == "f"]
    info = TrainingInfo(
        batch_size=samples,
        learning_rate=RATES.get(name, 1e-4),
        output_losses=tuple((str(k), loss) for k, (loss, _) in zip(floats, tasks, strict=True)),
    )
    with Trainer(graph, info) as trainer:
        data = ArrayData(inputs, [targets for _, targets in tasks])
        losses = [e.training.loss for e in trainer.train(data, InOrder(samples), epochs=20)]
        export_model(model, trainer.weights(), out)
    return losses


def test_every_model_of_the_folder_is_expected_here() -> None:
    folder = complete("data", "models")
    paths = (p for p in folder.rglob("*") if p.is_file() and p.suffix != ".md")
    named = {f"{name}.tflite" for name in (*TRAINS, *COMPUTED)}
    others = {*REFUSED, POLICY, *OTHERS, *SIGNATURES, *DETECTORS}
    assert {str(p.relative_to(folder)) for p in paths} == named | others


@pytest.mark.parametrize("name", TRAINS)
def test_forward_training_and_export(name: str, tmp_path: Path) -> None:
    path = complete("data", "models", f"{name}.tflite")
    inputs = inputs_for(name, path, BATCHES.get(name, 8))
    before = odt(path, inputs)
    forward = differences(before, litert(path, inputs))
    assert forward < 1e-4
    out = tmp_path / "out.tflite"
    losses = train(path, name, inputs, before, out)
    assert losses[-1] < losses[0]
    exported = differences(odt(out, inputs), litert(out, inputs))
    assert exported < 1e-4
    print(
        f"{name}: forward {forward:.1e}, loss {losses[0]:.4g} → {losses[-1]:.4g}, "
        f"export {exported:.1e}"
    )


def test_weights_stored_as_int8_train_and_are_stored_again(tmp_path: Path) -> None:
    """LiteRT rounds the activations of such models too, so the two are only close."""
    path, out = complete("data", "models", OTHERS[0]), tmp_path / "out.tflite"
    inputs = random_inputs(path, 8)
    before = odt(path, inputs)
    assert differences(before, litert(path, inputs)) < 5e-2
    losses = train(path, "hybrid", inputs, before, out)
    assert losses[-1] < losses[0]
    assert differences(odt(out, inputs), litert(out, inputs)) < 5e-2


def test_a_circle_model_trains_and_onert_agrees(tmp_path: Path) -> None:
    path, out = complete("data", "models", *OTHERS[1].split("/")), tmp_path / "out.circle"
    inputs = random_inputs(path, 2)
    before = odt(path, inputs)
    assert differences(before, onert(path, inputs, tmp_path)) < 1e-4
    losses = train(path, "onnx", inputs, before, out)
    assert losses[-1] < losses[0]
    assert differences(odt(out, inputs), onert(out, inputs, tmp_path)) < 1e-4


@pytest.mark.parametrize("name", COMPUTED)
def test_forward(name: str) -> None:
    path = complete("data", "models", f"{name}.tflite")
    samples = 2 * LoweredGraphs(read_model(str(path)).graph).file_batch
    inputs = inputs_for(name, path, samples)
    assert differences(odt(path, inputs, samples), litert(path, inputs)) < 1e-4


@pytest.mark.parametrize("name", [name for name in TRAINS if name not in BATCHES])
def test_check_predicts_that_it_trains(name: str) -> None:
    path = complete("data", "models", f"{name}.tflite")
    command = ["check", str(path), "--loss", "mean-squared-error", "--batch-size", "2"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("stored", ["as stored", "float"])
def test_int8_weights_are_written_both_ways(stored: str, tmp_path: Path) -> None:
    """As float LiteRT does not round the activations, and agrees as with any float model."""
    model = read_model(str(complete("data", "models", OTHERS[0])))
    out = tmp_path / "out.tflite"
    export_model(model, {}, out, float_weights=stored == "float")
    inputs = random_inputs(out, 8)
    most = 1e-4 if stored == "float" else 5e-2
    assert differences(odt(out, inputs), litert(out, inputs)) < most


@pytest.mark.parametrize("name", REFUSED)
def test_blocking_operators_are_listed(name: str) -> None:
    path = complete("data", "models", *name.split("/"))
    result = CliRunner().invoke(main, ["check", str(path), "--loss", "mean-squared-error"])
    assert result.exit_code == 1
    lines = [s for s in result.stdout.splitlines() if s.startswith("blocked: node ")]
    nodes = {int(s.split()[2]): s.partition("(")[2].partition(")")[0] for s in lines}
    assert nodes == REFUSED[name]
    assert "could train: " in result.stdout


def test_a_policy_trains_without_its_draw_of_actions() -> None:
    path = complete("data", "models", POLICY)
    options = ["--loss", "mean-squared-error", "--num-of-trainable-ops", "1"]
    result = CliRunner().invoke(main, ["check", str(path), *options])
    assert result.exit_code == 0, result.output
    assert "leaves out node 9 (CUSTOM:FlexMultinomial), which odt does not compute" in result.output
    assert "trains: 6,464 parameters in 2 tensors" in result.output
