"""Operators that converters keep in float between integers train where a rounded value is 0."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.integer_files import QuantizedBuilder
from support.judges import litert

import odt

SHAPE = (1, 3)
TENTHS = np.array([0.1, 0.2, 0.3], np.float32)


def start(b: QuantizedBuilder, zero: int = -128) -> int:
    """A layer whose values are rounded to integers, some of them to 0, as real numbers again."""
    h = b.add_dense(b.add_input((1, 4)), 3)
    q = b.operator(
        "QUANTIZE", (h if zero else b.add_operator("NEG", (h,), SHAPE),), SHAPE, 0.4, zero
    )
    return b.add_operator("DEQUANTIZE", (q,), SHAPE)


def end(b: QuantizedBuilder, y: int, zero: int = -128) -> int:
    q = b.operator("QUANTIZE", (y,), SHAPE, 0.01, zero)
    return b.add_operator("DEQUANTIZE", (q,), SHAPE)


def root(b: QuantizedBuilder) -> int:
    return end(b, b.add_operator("RSQRT", (start(b),), SHAPE))


def scaled_root(b: QuantizedBuilder) -> int:
    y = b.add_operator("RSQRT", (start(b),), SHAPE)
    y = b.add_operator("MUL", (y, b.add_constant(TENTHS)), SHAPE)
    return end(b, y)


def logarithm(b: QuantizedBuilder) -> int:
    return end(b, b.add_operator("LOG", (start(b),), SHAPE), 100)


def inverse(b: QuantizedBuilder) -> int:
    one = b.add_constant(TENTHS)
    return end(b, b.add_operator("DIV", (one, start(b)), SHAPE))


def quotient(b: QuantizedBuilder) -> int:
    """Both are rounded; 0 / 0 is no number, so the numerator is not 0."""
    two = b.add_constant(np.full(3, 2, np.float32))
    x = start(b, 0)
    top = b.add_operator("ADD", (b.add_operator("ABS", (x,), SHAPE), two), SHAPE)
    return end(b, b.add_operator("DIV", (top, x), SHAPE))


def scaled_inverse(b: QuantizedBuilder) -> int:
    one = b.add_constant(TENTHS)
    y = b.add_operator("DIV", (one, start(b)), SHAPE)
    return end(b, b.add_operator("MUL", (y, b.add_constant(TENTHS)), SHAPE))


NETWORKS = [root, scaled_root, logarithm, inverse, quotient, scaled_inverse]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda f: f.__name__)
def test_training_reads_what_litert_computes(
    network: Callable[[QuantizedBuilder], int], tmp_path: Path
) -> None:
    b, path = QuantizedBuilder(seed=1), tmp_path / "m.tflite"
    b.write(path, network(b))
    x = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    x[:8] = 0  # all values are 0 there
    (wanted,) = litert(path, [x], xnnpack=False)
    assert np.isfinite(wanted).all()
    with odt.Trainer(path, loss="mean_squared_error", batch_size=8, learning_rate=1e-6) as trainer:
        np.testing.assert_allclose(trainer.predict(x), wanted, atol=0.0101)
        history = trainer.fit(x, wanted + 0.5, epochs=3)
        trainer.export(tmp_path / "trained.tflite")
        trained = trainer.predict(x)
    assert np.isfinite(history.history["loss"]).all()
    (judged,) = litert(tmp_path / "trained.tflite", [x], xnnpack=False)
    assert np.abs(judged - trained).max() <= 0.0101
