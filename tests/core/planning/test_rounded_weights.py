"""Large weights of quantized files are rounded before each call that reads them, without a copy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.packed_files import PackedBuilder

import odt
from odt.core.recipe import computations

WIDTH = 64


def network(bits: int, block: int, path: Path) -> Path:
    """Two dense layers of packed weights."""
    b = PackedBuilder(bits)
    x = b.add_input((1, WIDTH))
    for _ in range(2):
        integers = b.rng.integers(-2, 2, (WIDTH, WIDTH)).astype(np.int8)
        scale = b.rng.uniform(0.02, 0.1, (WIDTH, WIDTH // block if block else 1))
        scale = scale.astype(np.float16).astype(np.float32)
        w = b.add_packed(integers, scale if block else scale[:, 0], bits, block)
        bias = b.add_constant(b.rng.normal(size=WIDTH).astype(np.float32))
        x = b.add_operator("FULLY_CONNECTED", (x, w, bias), (1, WIDTH))
    b.write(path, x)
    return path


@pytest.mark.parametrize("kernels", ["numpy", "compiled"])
@pytest.mark.parametrize(("bits", "block"), [(2, 0), (4, 0), (4, 32)])
def test_training_has_the_bits_of_rounded_copies(
    bits: int, block: int, kernels: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernels == "numpy":
        monkeypatch.setenv("ODT_KERNELS", "numpy")
    path = network(bits, block, tmp_path / "m.tflite")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 24, WIDTH)).astype(np.float32)
    results: list[tuple[Any, Any, int]] = []
    options: dict[str, Any] = {
        "loss": "mean_squared_error",
        "batch_size": 8,
        "learning_rate": 0.01,
    }
    for large in (WIDTH**2, WIDTH**2 + 1):
        monkeypatch.setattr(computations, "LARGE", large)
        with odt.Trainer(path, **options) as trainer:
            trainer.fit(x, y, epochs=2, seed=1)
            held = odt.plan(path, **options).parameters
            results.append((trainer.weights, trainer.predict(x), held))
    (rounded, predicted, few), (copied, expected, many) = results
    for name, weight in copied.items():
        np.testing.assert_array_equal(rounded[name], weight)
    np.testing.assert_array_equal(predicted, expected)
    assert many - few == 2 * 4 * WIDTH**2
