"""onert as judge: it loads the Circle files we write and infers what we infer."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from support.integer_files import QuantizedBuilder
from support.judges import difference, litert, odt, onert, random_inputs
from support.networks import ArrayData, InOrder
from support.paths import GOLDEN, MODELS

from odt import quantize
from odt.core.export.exporter import export_model
from odt.core.formats.reader import read_model
from odt.core.model.training_info import TrainingInfo
from odt.core.training.trainer import Trainer

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("onert") is None,
    reason="onert has wheels for Linux on x86-64 and aarch64, Python 3.10 to 3.12",
)

FILES = (
    GOLDEN / "mnist" / "model.circle",
    MODELS / "mlperf-tiny-resnet8-cifar10.tflite",
    MODELS / "mlperf-tiny-vww-mobilenetv1-0.25-96.tflite",
)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.parent.name + "/" + p.name)
def test_a_trained_circle_infers_the_same_in_onert(path: Path, tmp_path: Path) -> None:
    inputs = random_inputs(path, 4)
    model = read_model(str(path))
    targets = odt(path, inputs)[0]
    rng = np.random.default_rng(1)
    targets = targets + 0.1 * rng.standard_normal(targets.shape, np.float32)
    info = TrainingInfo(loss="mean_squared_error", batch_size=4, learning_rate=1e-5)
    out = tmp_path / "out.circle"
    with Trainer(model.graph, info) as trainer:
        list(trainer.train(ArrayData(inputs, [targets]), InOrder(4), epochs=2))
        export_model(model, trainer.weights(), str(out), "circle")
    ours = odt(out, inputs)[0]
    assert difference(ours, onert(out, inputs, tmp_path)[0]) < 1e-4
    assert np.abs(ours - odt(path, inputs)[0]).max() > 0


def test_circle_and_tflite_of_one_model_are_one_function(tmp_path: Path) -> None:
    path = GOLDEN / "mnist" / "model.circle"
    inputs = random_inputs(path, 4)
    model = read_model(str(path))
    export_model(model, {}, str(tmp_path / "out.tflite"), "tflite")
    theirs = litert(tmp_path / "out.tflite", inputs)[0]
    assert difference(odt(path, inputs)[0], theirs) < 1e-4


def test_a_quantized_circle_computes_the_same_integers_in_onert(tmp_path: Path) -> None:
    net, least = QuantizedBuilder(seed=5), -128
    strides = {"stride_w": 1, "stride_h": 1}
    x = net.activation((1, 6, 6, 2), 0.02, 3, "int8")
    scales = [0.004, 0.01, 0.02, 0.003]
    layer = net.weights((4, 3, 3, 2), scales), net.bias(4, [0.02 * s for s in scales])
    relu = {"fused_activation_function": 1, **strides}
    y = net.operator("CONV_2D", (x, *layer), (1, 6, 6, 4), 0.015, least, "int8", **relu)
    window = {"filter_width": 6, "filter_height": 6, "padding": 1, **strides}
    y = net.operator("AVERAGE_POOL_2D", (y,), (1, 1, 1, 4), 0.015, least, "int8", **window)
    net.write(tmp_path / "m.tflite", y)
    model = read_model(str(tmp_path / "m.tflite"))
    export_model(model, {}, str(tmp_path / "out.circle"), "circle")
    data = np.random.default_rng(0).integers(-128, 128, (16, 6, 6, 2)).astype(np.int8)
    theirs = onert(tmp_path / "out.circle", [data], tmp_path)[0].astype(int)
    assert np.ptp(theirs) > 20
    assert np.abs(theirs - litert(tmp_path / "m.tflite", [data])[0]).max() <= 1


def test_a_circle_with_int8_weights_infers_the_same_in_onert(tmp_path: Path) -> None:
    path = FILES[2]
    inputs = random_inputs(path, 4)
    export_model(read_model(str(path)), {}, str(tmp_path / "float.circle"), "circle")
    quantize(tmp_path / "float.circle", scheme="int8-weights").model.save(tmp_path / "q.circle")
    theirs = onert(tmp_path / "q.circle", inputs, tmp_path)[0]
    assert difference(odt(tmp_path / "q.circle", inputs)[0], theirs) < 0.02
