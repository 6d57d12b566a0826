"""Models whose weights are stored as float16 or int8."""

from pathlib import Path

import numpy as np
from model_builder import ModelBuilder

from odt.core.formats.reader import read_model
from odt.core.model.model import Model
from support.paths import MODELS

HYBRID = MODELS / "mlperf-tiny-kws-dscnn-hybrid.tflite"


def half_model(path: Path) -> Model:
    """Makes a FULLY_CONNECTED whose weight is a float16 constant read by a DEQUANTIZE."""
    model = ModelBuilder("tflite", seed=0)
    x = model.add_input((1, 6))
    w16 = model.add_constant(model.rng.normal(size=(4, 6)).astype(np.float16), "w16")
    w = model.add_operator("DEQUANTIZE", [w16], (4, 6))
    b = model.add_constant(np.zeros(4, np.float32), "b")
    model.write(path, model.add_operator("FULLY_CONNECTED", [x, w, b], (1, 4)))
    return read_model(str(path))
