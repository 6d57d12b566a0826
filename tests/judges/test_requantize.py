"""QUANTIZE between integers of one type: the same integers as XNNPACK's, for every input."""

from pathlib import Path

import numpy as np
import pytest
from support.integer_files import QuantizedBuilder, odt_integers
from support.litert_integers import litert_integers


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("scale", [0.02, 0.0189, 0.0421, 0.0101, 1.3, 0.0003])
@pytest.mark.parametrize("zero", [0, 7])
def test_every_integer_is_requantized_as_in_xnnpack(
    dtype: str, scale: float, zero: int, tmp_path: Path
) -> None:
    net = QuantizedBuilder()
    info = np.iinfo(dtype)
    x = net.activation((1, 256), 0.02, info.min + 30, dtype)
    y = net.operator("QUANTIZE", (x,), (1, 256), scale, zero, dtype)
    net.write(tmp_path / "m.tflite", y)
    inputs = [np.arange(info.min, info.max + 1).astype(dtype).reshape(1, 256)]
    ours, theirs = (f(tmp_path / "m.tflite", inputs) for f in (odt_integers, litert_integers))
    np.testing.assert_array_equal(ours[y].reshape(-1), theirs[y].reshape(-1))
