"""odt names operators of quantized files that LiteRT refuses or computes otherwise."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.integer_files import QuantizedBuilder, full_range
from support.judges import litert
from support.judges import odt as computed
from support.paths import MODELS

import odt
from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.core.model.runtime_rules import litert_note
from odt.errors import OdtWarning

SHAPE = (1, 4, 6, 8)
SOURCE, OTHER = (0.05, 3), (0.021, -5)


def one(op: str, x: tuple[float, int], y: tuple[float, int], folder: Path) -> Path:
    """An operator on int8, with the quantization of its input and of its output."""
    b, path = QuantizedBuilder(), folder / "m.tflite"
    inputs = [b.activation(SHAPE, *x)]
    options: dict[str, object] = {}
    shape: tuple[int, ...] = SHAPE
    if op == "CONCATENATION":
        inputs, shape, options = [*inputs, b.activation(SHAPE, *x)], (1, 4, 6, 16), {"axis": 3}
    elif op in ("MAXIMUM", "MINIMUM"):
        inputs = [*inputs, b.activation(SHAPE, *x)]
    elif op == "RESHAPE":
        shape = (1, 4, 48)
        inputs, options = [*inputs, b.add_constant(shape)], {"new_shape": shape}
    elif op == "TRANSPOSE":
        inputs, shape = [*inputs, b.add_constant([0, 2, 1, 3])], (1, 6, 4, 8)
    elif op == "PAD":
        pads = np.array([[0, 0], [1, 1], [0, 0], [0, 0]], np.int32)
        inputs, shape = [*inputs, b.add_constant(pads)], (1, 6, 6, 8)
    elif op in ("MAX_POOL_2D", "AVERAGE_POOL_2D"):
        options = {"stride_w": 1, "stride_h": 1, "filter_width": 2, "filter_height": 2}
    elif op == "SOFTMAX":
        options = {"beta": 1.0}
    elif op == "CUMSUM":
        inputs = [*inputs, b.add_constant(1)]
    b.write(path, b.operator(op, inputs, shape, *y, **options))  # type: ignore[arg-type]
    return path


REFUSED = [
    *(("SOFTMAX", SOURCE, y) for y in ((1 / 255, -128), (1 / 256, 0))),
    ("LOGISTIC", SOURCE, (1 / 255, -128)),
    ("L2_NORMALIZATION", SOURCE, (1 / 100, 0)),
    ("CONCATENATION", SOURCE, OTHER),
    *((op, SOURCE, SOURCE) for op in ("SQUARE", "SIGN", "CUMSUM")),
]
OTHERWISE = [
    (op, SOURCE, OTHER)
    for op in (
        *("RESHAPE", "TRANSPOSE", "PAD", "MAXIMUM", "MINIMUM", "MAX_POOL_2D", "AVERAGE_POOL_2D"),
        "NEG",
    )
]
COMPUTED = [
    ("SOFTMAX", SOURCE, (1 / 256, -128)),
    ("LOGISTIC", SOURCE, (1 / 256, -128)),
    *((op, SOURCE, SOURCE) for op in ("CONCATENATION", "RESHAPE", "MAXIMUM", "MAX_POOL_2D")),
    ("NEG", (0.05, 0), (0.05, 0)),
]
Case = tuple[str, tuple[float, int], tuple[float, int]]


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refused_files_are_named(case: Case, tmp_path: Path) -> None:
    path = one(*case, tmp_path)
    model = read_model(path)
    with pytest.raises((RuntimeError, ValueError)):
        litert(path, full_range(model, 1), xnnpack=False)
    assert f"LiteRT refuses node 0 ({case[0]})" in litert_note(model)


@pytest.mark.parametrize("case", OTHERWISE, ids=str)
def test_files_that_are_computed_otherwise_are_named(case: Case, tmp_path: Path) -> None:
    path = one(*case, tmp_path)
    model = read_model(path)
    values = full_range(model, 2)
    scale, zero = case[2]
    real = np.rint(computed(path, values)[0] / np.float32(scale)) + zero
    moved = litert(path, values, xnnpack=False)[0]
    assert np.abs(real.reshape(moved.shape) - moved).max() > 10
    assert f"node 0 ({case[0]}), between different scales" in litert_note(model)


@pytest.mark.parametrize("case", COMPUTED, ids=str)
def test_nothing_is_said_of_what_litert_computes(case: Case, tmp_path: Path) -> None:
    path = one(*case, tmp_path)
    litert(path, full_range(read_model(path), 1), xnnpack=False)
    assert not litert_note(read_model(path))


@pytest.mark.parametrize("path", sorted(MODELS.glob("*int8.tflite")), ids=lambda p: p.name)
def test_nothing_is_said_of_files_of_others(path: Path) -> None:
    assert not litert_note(read_model(path))


def test_check_and_training_say_so_in_one_line(tmp_path: Path) -> None:
    b, path = QuantizedBuilder(), tmp_path / "m.tflite"
    x, w = b.activation((1, 8), 0.1), b.weights((10, 8), [0.01])
    y = b.operator("FULLY_CONNECTED", (x, w, b.bias(10, [0.001])), (1, 10), 0.1)
    b.write(path, b.operator("SOFTMAX", (y,), (1, 10), 1 / 255, -128, beta=1.0))
    result = CliRunner().invoke(main, ["check", str(path)])
    (line,) = [text for text in result.stdout.splitlines() if "LiteRT" in text]
    assert "refuses node 1 (SOFTMAX), whose output must have scale 1/256, zero point -128" in line
    assert "--export-weights float" in line
    values = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
    with (
        odt.Trainer(path, loss="categorical_crossentropy", batch_size=8) as trainer,
        pytest.warns(OdtWarning, match="LiteRT refuses node 1"),
    ):
        trainer.fit(values, np.eye(10, dtype=np.float32)[:8], epochs=1)
