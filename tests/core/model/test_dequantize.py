"""Weights stored as int8 or float16 beside float activations train as float32."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_builder import ModelBuilder
from support.half_weights import HYBRID, bfloat16_model, half_model
from support.judges import difference, litert, odt
from support.networks import ArrayData, InOrder

from odt.core.export.exporter import export_model
from odt.core.formats.reader import read_model
from odt.core.model.bfloat16 import from_bfloat16, to_bfloat16
from odt.core.model.dequantize import as_stored, dequantize_weights
from odt.core.model.model import Model
from odt.core.model.training_info import TrainingInfo
from odt.core.recipe.lowered_model import lower_model
from odt.core.recipe.prepare import prepare
from odt.core.training.trainer import Trainer
from odt.errors import ModelError
from odt.kernels.geometry.quantize import one_scale


def train(model: Model, inputs: np.ndarray, targets: np.ndarray, out: Path) -> list[float]:
    info = TrainingInfo(loss="mean_squared_error", batch_size=8, learning_rate=1e-3)
    with Trainer(dequantize_weights(model).graph, info) as trainer:
        epochs = trainer.train(ArrayData([inputs], [targets]), InOrder(8), epochs=20)
        losses = [e.training.loss for e in epochs]
        export_model(model, trainer.weights(), out)
    return losses


@pytest.mark.parametrize(("build", "kind"), [(half_model, "float16"), (bfloat16_model, "BFLOAT16")])
def test_half_weights_train_and_are_of_their_type_again(
    build: Callable[[Path], Model], kind: str, tmp_path: Path
) -> None:
    model = build(tmp_path / "half.tflite")
    folded = dequantize_weights(model)
    assert [n.op for n in folded.graph.nodes] == ["FULLY_CONNECTED"]
    assert "stored as float16, bfloat16, integers or sparse (1) train as float32" in folded.note
    rng = np.random.default_rng(1)
    x, t = rng.standard_normal((8, 6), np.float32), rng.standard_normal((8, 4), np.float32)
    out = tmp_path / "out.tflite"
    losses = train(model, x, t, out)
    assert losses[-1] < losses[0]
    assert out.stat().st_size == (tmp_path / "half.tflite").stat().st_size
    dtype = read_model(str(out)).graph.tensors[1].spec.dtype
    assert (dtype.names or (str(dtype),)) == (kind,)
    ours = np.concatenate([*_predict(out, x)])
    assert difference(ours, litert(out, [x])[0]) < (1e-3 if kind == "float16" else 1e-6)


def test_an_export_needs_memory_for_a_weight_that_is_tensor_0(tmp_path: Path) -> None:
    built = ModelBuilder("tflite")
    w16 = built.add_constant(np.ones((4, 6), np.float16), "w16")
    x, w = built.add_input((1, 6)), built.add_operator("DEQUANTIZE", [w16], (4, 6))
    b = built.add_constant(np.zeros(4, np.float32), "b")
    built.write(tmp_path / "m.tflite", built.add_operator("FULLY_CONNECTED", [x, w, b], (1, 4)))
    recipe = prepare(lower_model(read_model(tmp_path / "m.tflite")))
    assert recipe.dequantized.stored == {w: 0}
    assert recipe.export_nbytes == 4 * 6 * (4 + 2 + 4)  # float32, float16, one at a time


def test_bfloat16_weights_can_be_exported_as_float32(tmp_path: Path) -> None:
    model = bfloat16_model(tmp_path / "half.tflite")
    w = np.random.default_rng(2).standard_normal((4, 6), np.float32)
    (i,) = dequantize_weights(model).stored
    export_model(model, {i: w}, tmp_path / "out.tflite", float_weights=True)
    x = np.eye(6, dtype=np.float32)
    assert [n.op for n in read_model(tmp_path / "out.tflite").graph.nodes] == ["FULLY_CONNECTED"]
    assert difference(w.T, litert(tmp_path / "out.tflite", [x])[0]) < 1e-6


def test_scales_of_bfloat16_count_nothing(tmp_path: Path) -> None:
    """LiteRT's CAST reads no scales."""
    model = bfloat16_model(tmp_path / "half.tflite")
    model = replace(model, quantization={1: one_scale(0.5, 3)})
    folded = dequantize_weights(model)
    ((i, stored),) = folded.stored.items()
    w = folded.graph.tensors[i].data
    assert w is not None
    values, scales = as_stored(model, folded, {i: w})
    assert not scales
    np.testing.assert_array_equal(values[stored], model.graph.tensors[stored].data)


def test_bfloat16_values_of_the_wrong_size_are_named(tmp_path: Path) -> None:
    model = bfloat16_model(tmp_path / "half.tflite", bytes(30))
    with pytest.raises(ModelError, match=r"w16.*bfloat16 values need 48 bytes, but got 30\."):
        dequantize_weights(model)


@given(st.floats(width=32))
def test_bfloat16_is_the_nearest_number(value: float) -> None:
    """Of the two nearest numbers of 16 bits, the closer one, or the even one."""
    x = np.array([value], np.float32)
    low = int(x.view(np.uint32)[0]) >> 16
    bits = to_bfloat16(x)
    result = int(bits[0])
    assert from_bfloat16(bits).view(np.uint32) == result << 16
    if np.isnan(value):
        assert np.isnan(from_bfloat16(bits))
        return
    below, above = (
        np.array([bits << 16], np.uint32).view(np.float32)[0] for bits in (low, low + 1)
    )
    if np.isinf(value) or below == value:
        assert result == low
    elif np.isinf(above):  # as if the next number were 2 ** 128
        assert result == low + (abs(value) - abs(float(below)) >= 2.0**119)
    else:
        distance = abs(float(above) - value) - abs(value - float(below))
        assert result == (low if distance > 0 or (distance == 0 and low % 2 == 0) else low + 1)


def _predict(path: Path, x: np.ndarray) -> list[np.ndarray]:
    from odt.core.training.inference import Predictor

    with Predictor(dequantize_weights(read_model(str(path))).graph, 8) as predictor:
        return [y[0].copy() for y in predictor.run(ArrayData([x], ()), range(len(x)))]


def test_int8_weights_keep_their_integers_if_nothing_trains() -> None:
    model = read_model(str(HYBRID))
    folded = dequantize_weights(model)
    values = {i: folded.graph.tensors[i].data for i in folded.stored}
    stored, scales = as_stored(model, folded, {i: a for i, a in values.items() if a is not None})
    assert len(scales) == 5
    for i, a in stored.items():
        np.testing.assert_array_equal(a, model.graph.tensors[i].data)


def test_a_hybrid_model_trains_and_is_hybrid_again(tmp_path: Path) -> None:
    """LiteRT quantizes activations in front of int8 weights, so it agrees to a few percent."""
    model = read_model(str(HYBRID))
    rng = np.random.default_rng(1)
    shape = model.graph.tensors[model.graph.inputs[0]].spec.shape
    x = rng.standard_normal((8, *shape[1:]), np.float32)
    t = np.eye(12, dtype=np.float32)[rng.integers(0, 12, 8)]
    out = tmp_path / "out.tflite"
    losses = train(model, x, t, out)
    assert losses[-1] < losses[0]
    assert out.stat().st_size == HYBRID.stat().st_size
    ours = np.concatenate(_predict(out, x))
    assert difference(ours, litert(out, [x])[0]) < 0.05


def uint8_model(path: Path, *, hybrid: bool) -> np.ndarray:
    """Writes a layer with uint8 weights, read by a hybrid operator or a DEQUANTIZE."""
    b = ModelBuilder("tflite", 1)
    integers = b.rng.integers(-127, 128, (4, 6))
    values, zero = (integers.astype(np.int8).view(np.uint8), 0) if hybrid else (integers + 128, 127)
    w = b.add_constant(values.astype(np.uint8))
    b.quantize(w, [0.01], [zero])
    x = b.add_input((1, 6))
    read = w if hybrid else b.add_operator("DEQUANTIZE", (w,), (4, 6))
    bias = b.add_constant(np.zeros(4, np.float32))
    b.write(path, b.add_operator("FULLY_CONNECTED", (x, read, bias), (1, 4)))
    return 0.01 * (integers + (not hybrid))


@pytest.mark.parametrize("hybrid", [True, False])
def test_uint8_weights_of_tensorflow_1_train_and_are_uint8_again(
    hybrid: bool, tmp_path: Path
) -> None:
    """The bytes of a hybrid operator's weights are int8; LiteRT rounds its activations."""
    path, out, floats = (tmp_path / f"{n}.tflite" for n in ("m", "out", "floats"))
    real = uint8_model(path, hybrid=hybrid)
    within = 0.02 if hybrid else 1e-6
    x = np.random.default_rng(1).standard_normal((8, 6), np.float32)
    np.testing.assert_allclose(odt(path, [x])[0], x @ real.T, atol=1e-5)
    assert difference(odt(path, [x])[0], litert(path, [x])[0]) < within
    model, t = read_model(path), np.ones((8, 4), np.float32)
    losses = train(model, x, t, out)
    assert losses[-1] < losses[0]
    assert out.stat().st_size == path.stat().st_size
    assert difference(odt(out, [x])[0], litert(out, [x])[0]) < within
    export_model(model, {}, floats, float_weights=True)
    assert difference(litert(floats, [x])[0], x @ real.T) < 1e-6
    integers = dequantize_weights(model)
    values = {i: integers.graph.tensors[i].data for i in integers.stored}
    stored, _ = as_stored(model, integers, {i: a for i, a in values.items() if a is not None})
    for i, a in stored.items():
        if not hybrid:
            np.testing.assert_array_equal(a, model.graph.tensors[i].data)


def test_a_shape_beside_int8_weights_is_no_activation(tmp_path: Path) -> None:
    """The output's shape of a transposed convolution follows from SHAPE."""
    b = ModelBuilder("tflite", 2)
    x = b.add_input((1, 4, 4, 3))
    w = b.add_constant(b.rng.integers(-127, 128, (5, 2, 2, 3)).astype(np.int8))
    b.quantize(w, [0.01], [0])
    lengths = b.add_operator("SHAPE", (x,), (4,), dtype="int32", out_type=2)
    twice = b.add_constant(np.array([1, 2, 2, 1], np.int32))
    more = b.add_constant(np.array([0, 0, 0, 2], np.int32))
    lengths = b.add_operator("MUL", (lengths, twice), (4,), dtype="int32")
    lengths = b.add_operator("ADD", (lengths, more), (4,), dtype="int32")
    options: dict[str, Any] = {"padding": 1, "stride_h": 2, "stride_w": 2}
    b.write(
        tmp_path / "m.tflite",
        b.add_operator("TRANSPOSE_CONV", (lengths, w, x), (1, 8, 8, 5), **options),
    )
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    inputs = np.random.default_rng(1).standard_normal((8, 4, 4, 3), np.float32)
    assert difference(odt(path, [inputs])[0], litert(path, [inputs])[0]) < 0.02
    losses = train(read_model(path), inputs, np.ones((8, 8, 8, 5), np.float32), out)
    assert losses[-1] < losses[0]
    assert difference(odt(out, [inputs])[0], litert(out, [inputs])[0]) < 0.02


def test_float_models_are_left_alone() -> None:
    model = read_model(str(HYBRID.with_name("tflm-magic-wand-float.tflite")))
    folded = dequantize_weights(model)
    assert folded.graph == model.graph
    assert not folded.note


@pytest.mark.parametrize("name", ["mlperf-tiny-resnet8-cifar10"])
def test_float_models_predict_as_before(name: str) -> None:
    path = HYBRID.with_name(f"{name}.tflite")
    x = np.random.default_rng(0).standard_normal((2, 32, 32, 3), np.float32)
    assert difference(odt(path, [x])[0], litert(path, [x])[0]) < 1e-4
