"""New last layers of quantized models, trained and judged by LiteRT."""

from pathlib import Path

import numpy as np
import pytest
from support.integer_files import full_range
from support.judges import litert
from support.paths import MODELS
from support.quantized_networks import small_net

import odt
from odt.core.export.replace_head import Head, replace_head
from odt.core.export.symmetric_weights import symmetric_weights
from odt.core.formats.reader import read_model
from odt.core.model.model import Model
from odt.errors import UnsupportedError

KWS = MODELS / "mlperf-tiny-kws-dscnn-int8.tflite"


def with_head(model: Model, head: Head, path: Path) -> Model:
    path.write_bytes(replace_head(model, head).model.data)
    return read_model(path)


def check_training(path: Path, out: Path, classes: int, steps: float) -> None:
    """The new layers learn, and LiteRT agrees with training."""
    model = read_model(path)
    (x,) = full_range(model, 24, seed=2)
    labels = np.arange(24, dtype=np.int32) % classes
    trainer = odt.Trainer(
        path,
        loss="sparse_categorical_crossentropy",
        optimizer="adam",
        learning_rate=1e-2,
        batch_size=8,
    )
    before = trainer.evaluate(x, labels)["loss"]
    trainer.fit(x, labels, epochs=8, seed=1)
    assert trainer.evaluate(x, labels)["loss"] < 0.9 * before
    trainer.export(out)
    y, quantization = litert(out, [x])[0], read_model(out).quantization
    if y.dtype != np.float32:
        found = quantization[model.graph.outputs[0]]
        y = (y.astype(np.float32) - found.zero_point) * found.scale
    np.testing.assert_allclose(trainer.predict(x), y, atol=steps / 256)


def test_the_new_layer_is_quantized_as_the_old_one(tmp_path: Path) -> None:
    old = read_model(KWS)
    new = with_head(old, Head(3), tmp_path / "head.tflite")
    *_, layer, softmax = new.graph.nodes
    x, w, b = layer.inputs
    dtypes = [new.graph.tensors[i].spec.dtype.name for i in (x, w, b, *softmax.outputs)]
    assert dtypes == ["int8", "int8", "int32", "int8"]
    (logits,) = layer.outputs
    old_logits = old.quantization[old.graph.nodes[-1].inputs[0]]
    assert new.quantization[logits].scale == old_logits.scale
    assert new.quantization[b].scale == new.quantization[x].scale * new.quantization[w].scale
    check_training(tmp_path / "head.tflite", tmp_path / "out.tflite", 3, 12)


@pytest.mark.parametrize(
    "head", [Head(2, (8,)), Head(3, activation="sigmoid")], ids=["hidden layer", "sigmoid"]
)
def test_other_heads_train_and_agree_with_litert(head: Head, tmp_path: Path) -> None:
    with_head(read_model(KWS), head, tmp_path / "head.tflite")
    if head.activation == "softmax":
        check_training(tmp_path / "head.tflite", tmp_path / "out.tflite", 2, 12)
        return
    trainer = odt.Trainer(tmp_path / "head.tflite", loss="binary_crossentropy")
    (x,) = full_range(read_model(KWS), 4)
    y = litert(tmp_path / "head.tflite", [x])[0].astype(np.float32) / 256 + 0.5
    np.testing.assert_allclose(trainer.predict(x), y, atol=12 / 256)


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_an_output_of_floats_stays_one(kind: str, tmp_path: Path) -> None:
    model = small_net(
        tmp_path / "m.tflite", floats=True, dtype=kind, zero=120 if kind == "uint8" else 0
    )
    new = with_head(model, Head(2), tmp_path / "head.tflite")
    assert new.graph.nodes[-1].op == "DEQUANTIZE"
    assert new.graph.tensors[new.graph.outputs[0]].spec.dtype == np.float32
    check_training(tmp_path / "head.tflite", tmp_path / "out.tflite", 2, 12)


def test_units_of_zeros_get_the_largest_scale() -> None:
    values = np.array([[0.0, 0.0], [1.0, -2.0]])
    for dtype, zero in ((np.int8, 0), (np.uint8, 128)):
        integers, quantization = symmetric_weights(values, np.dtype(dtype), per_unit=True)
        assert integers.tolist() == [[zero, zero], [zero + 64, zero - 127]]
        assert quantization.scale == pytest.approx([2 / 127, 2 / 127])
    _, quantization = symmetric_weights(0 * values, np.dtype(np.int8), per_unit=False)
    assert quantization.scale > 0


def test_an_output_of_unknown_range_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="the activation softmax or sigmoid"):
        replace_head(read_model(KWS), Head(2, activation="linear"))
