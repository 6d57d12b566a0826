"""Models whose weights are stored as float16, bfloat16 or int8."""

from pathlib import Path

import numpy as np
from model_builder import ModelBuilder

from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.core.formats.reader import read_model
from odt.core.model.model import Model
from support.paths import MODELS

HYBRID = MODELS / "mlperf-tiny-kws-dscnn-hybrid.tflite"


def bfloat16_model(path: Path, data: bytes | None = None) -> Model:
    """Makes a FULLY_CONNECTED whose weight is a bfloat16 constant read by a CAST."""
    model = ModelBuilder("tflite", seed=0)
    x = model.add_input((1, 6))
    if data is None:
        data = (model.rng.normal(size=24).astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    stored = model.add_tensor((4, 6), name="w16", buffer=model.add_buffer(data))
    kind = code_of("TensorType", "BFLOAT16")
    model.graph.tensors[stored].type = kind
    w = model.add_operator("CAST", [stored], (4, 6), in_data_type=kind, out_data_type=0)
    b = model.add_constant(np.zeros(4, np.float32), "b")
    model.write(path, model.add_operator("FULLY_CONNECTED", [x, w, b], (1, 4)))
    return read_model(str(path))


def half_model(path: Path) -> Model:
    """Makes a FULLY_CONNECTED whose weight is a float16 constant read by a DEQUANTIZE."""
    model = ModelBuilder("tflite", seed=0)
    x = model.add_input((1, 6))
    w16 = model.add_constant(model.rng.normal(size=(4, 6)).astype(np.float16), "w16")
    w = model.add_operator("DEQUANTIZE", [w16], (4, 6))
    b = model.add_constant(np.zeros(4, np.float32), "b")
    model.write(path, model.add_operator("FULLY_CONNECTED", [x, w, b], (1, 4)))
    return read_model(str(path))
