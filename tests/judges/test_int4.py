"""LiteRT as judge of files with int4 weights that were trained."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from model_builder import ModelBuilder
from support.integer_files import QuantizedBuilder
from support.judges import litert

import odt
from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.core.formats.reader import read_model
from odt.core.model.packed_integers import pack_integers, unpack_constants
from odt.kernels.rows.opdef import Array

SIZE, CHANNELS, UNITS = 6, 3, 5
Build = Callable[[Path], Path]
INT4 = code_of("TensorType", "INT4")


def as_int4(b: QuantizedBuilder, i: int, scales: list[float]) -> int:
    """Replaces the integers of a weight by random ones of 4 bits, −8 among them."""
    tensor = b.graph.tensors[i]
    integers = b.rng.integers(-8, 8, tensor.shape).astype(np.int8)
    integers.flat[0] = -8
    tensor.buffer, tensor.type = b.add_buffer(pack_integers(integers, 4).tobytes()), INT4
    b.quantize(i, scales, [0] * len(scales))
    return i


def quantized_file(path: Path) -> Path:
    """A convolution and a dense layer with int8 activations; an odd number of weights."""
    b = QuantizedBuilder(2)
    x = b.activation((1, SIZE, SIZE, CHANNELS), 0.02, -3)
    scales = [0.04, 0.05, 0.06, 0.05, 0.04]
    w = as_int4(b, b.weights((UNITS, 3, 3, CHANNELS), scales), scales)
    bias = b.bias(UNITS, [0.02 * s for s in scales], most=300)
    y = b.operator(
        "CONV_2D", (x, w, bias), (1, 4, 4, UNITS), 0.05, -128, padding=1, stride_h=1, stride_w=1
    )
    flat = b.operator(
        "RESHAPE",
        (y, b.add_constant(np.array([-1, 80], np.int32))),
        (1, 16 * UNITS),
        0.05,
        -128,
        new_shape=[-1, 80],
    )
    w = as_int4(b, b.weights((3, 16 * UNITS), [0.03]), [0.03])
    logits = b.operator("FULLY_CONNECTED", (flat, w, b.bias(3, [0.05 * 0.03])), (1, 3), 0.2, 2)
    b.write(path, logits)
    return path


def hybrid_file(path: Path) -> Path:
    """The same network with float activations, by odt's quantizer."""
    b = ModelBuilder("tflite", 3)
    x = b.add_input((1, SIZE, SIZE, CHANNELS))
    w = b.add_weight((UNITS, 3, 3, CHANNELS), 27)
    bias = b.add_constant(np.zeros(UNITS, np.float32))
    y = b.add_operator("CONV_2D", (x, w, bias), (1, 4, 4, UNITS), padding=1, stride_h=1, stride_w=1)
    shape = b.add_constant(np.array([-1, 80], np.int32))
    flat = b.add_operator("RESHAPE", (y, shape), (1, 80), new_shape=[-1, 80])
    logits = b.add_dense(flat, 3)
    (path.parent / "float.tflite").write_bytes(b.build(logits))
    made = odt.quantize(path.parent / "float.tflite", scheme="int4-weights")
    made.model.save(path)
    return path


def dequantized_file(path: Path) -> Path:
    """A dense layer that reads int4 weights behind a DEQUANTIZE."""
    b = QuantizedBuilder(4)
    x = b.add_input((1, 16))
    w = as_int4(b, b.weights((3, 16), [0.03]), [0.03])
    real = b.add_operator("DEQUANTIZE", (w,), (3, 16))
    b.write(path, b.add_operator("FULLY_CONNECTED", (x, real, -1), (1, 3)))
    return path


def integers(path: Path) -> list[Array]:
    """The int4 constants of a file."""
    graph = read_model(path).graph
    return [
        b.data
        for a, b in zip(graph.tensors, unpack_constants(graph).tensors, strict=True)
        if a.spec.dtype.names == ("INT4",) and b.data is not None
    ]


@pytest.mark.parametrize(
    ("build", "qas"),
    [
        (quantized_file, False),
        (quantized_file, True),
        (hybrid_file, False),
        (dequantized_file, False),
    ],
)
def test_a_trained_file_keeps_its_int4_weights(build: Build, qas: bool, tmp_path: Path) -> None:
    path, out = build(tmp_path / "m.tflite"), tmp_path / "out.tflite"
    rng = np.random.default_rng(5)
    shape = read_model(path).graph.tensors[read_model(path).graph.inputs[0]].spec.shape[1:]
    x = rng.uniform(-1, 1, (64, *shape)).astype(np.float32)
    y = rng.uniform(-1, 1, (64, 3)).astype(np.float32)
    before = odt.Trainer(path, loss="mean_squared_error").evaluate(x, y)["loss"]
    trainer = odt.Trainer(
        path, loss="mean_squared_error", batch_size=16, learning_rate=0.01, qas=qas or None
    )
    trainer.export(out)
    assert out.read_bytes() == path.read_bytes()
    trainer.fit(x, y, epochs=12, seed=1)
    trainer.export(out)
    assert out.stat().st_size == path.stat().st_size
    assert odt.Trainer(out, loss="mean_squared_error").evaluate(x, y)["loss"] < 0.8 * before
    changed = [not np.array_equal(a, b) for a, b in zip(integers(path), integers(out), strict=True)]
    assert changed
    assert all(changed)
    ours = trainer.predict(x)
    assert np.allclose(odt.Trainer(out, loss="mean_squared_error").predict(x), ours, atol=1e-5)
    if build is quantized_file:
        q = read_model(out).quantization[read_model(out).graph.inputs[0]]
        real = np.clip(np.rint(x / q.scale) + q.zero_point, -128, 127).astype(np.int8)
        theirs = (litert(out, [real])[0].astype(np.float32) - 2) * np.float32(0.2)
        assert np.abs(ours - theirs).max() < 0.21
    else:  # LiteRT rounds activations of hybrid layers to int8
        assert np.abs(ours - litert(out, [x])[0]).max() < 0.05 * np.abs(ours).max()


def test_real_numbers_of_int4_weights_are_exported_as_floats(tmp_path: Path) -> None:
    path, out = hybrid_file(tmp_path / "m.tflite"), tmp_path / "out.tflite"
    trainer = odt.Trainer(path, loss="mean_squared_error")
    trainer.export(out, float_weights=True)
    x = np.random.default_rng(1).uniform(-1, 1, (8, SIZE, SIZE, CHANNELS)).astype(np.float32)
    assert np.allclose(litert(out, [x])[0], trainer.predict(x), atol=1e-4)
