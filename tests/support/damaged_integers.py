"""Damaged integer files: small ones of each kind, and what commands do with them."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner

import odt
from odt.cli.main import main
from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.core.formats.reader import read_model
from odt.errors import OdtError
from support import quantized_lstm
from support.bounded import BUGS, limited
from support.integer_files import QuantizedBuilder
from support.mutations import structures
from support.packed_files import PackedBuilder
from support.paths import MODELS
from support.quantized_networks import small_net
from support.streaming_models import frames_net, streaming_net, svdf_net

MAX_VALUES = 1000  # of outputs, so that a damaged shape does not take long to train
STRIDES: dict[str, Any] = {"stride_w": 1, "stride_h": 1}


def mixed_net(path: Path) -> None:
    """Operators of all forms on int8: sums, products, moves, tables, a MEAN, float between them."""
    net = QuantizedBuilder(seed=3)
    x = net.operator("QUANTIZE", (net.add_input((1, 4, 4, 4)),), (1, 4, 4, 4), 0.02, 3)
    w = net.weights((1, 3, 3, 4), [0.01, 0.02, 0.01, 0.02], axis=3)
    b = net.bias(4, [0.02 * s for s in (0.01, 0.02, 0.01, 0.02)])
    y = net.operator(
        "DEPTHWISE_CONV_2D", (x, w, b), (1, 4, 4, 4), 0.02, -4, depth_multiplier=1, **STRIDES
    )
    y = net.operator("ADD", (x, y), (1, 4, 4, 4), 0.03, 1, fused_activation_function=1)
    z = net.operator("HARD_SWISH", (y,), (1, 4, 4, 4), 0.03, 0)
    z = net.operator("MUL", (z, net.weights((1, 1, 1, 4), [0.01])), (1, 4, 4, 4), 0.01, 2)
    y = net.operator("CONCATENATION", (z, z), (1, 4, 4, 8), 0.01, 2, axis=3)
    y = net.operator("LEAKY_RELU", (y,), (1, 4, 4, 8), 0.02, 2, alpha=0.2)
    y = net.operator("MEAN", (y, net.add_constant([1, 2])), (1, 8), 0.02, 0)
    r = net.add_operator("DEQUANTIZE", (y,), (1, 8))
    r = net.add_operator("EXP", (r,), (1, 8))
    y = net.operator("QUANTIZE", (r,), (1, 8), 0.02, -128)
    y = net.operator("RESHAPE", (y, net.add_constant([1, 8])), (1, 8), 0.02, -128)
    w, b = net.weights((3, 8), [0.01]), net.bias(3, [0.02 * 0.01])
    y = net.operator("FULLY_CONNECTED", (y, w, b), (1, 3), 0.05, 0)
    y = net.operator("LOGISTIC", (y,), (1, 3), 1 / 256, -128)
    net.write(path, net.add_operator("DEQUANTIZE", (y,), (1, 3)))


def packed_net(path: Path) -> None:
    """Weights of blocks of 4 bits, of 2 bits, of bfloat16, and of UINT4."""
    net = PackedBuilder(seed=1)
    scale = net.rng.uniform(0.1, 0.3, (8, 2)).astype(np.float32)
    w = net.add_packed(net.rng.integers(-8, 8, (8, 64)), scale, 4, block=32)
    y = net.add_operator("FULLY_CONNECTED", (net.add_input((1, 64)), w, -1), (1, 8))
    w = net.add_packed(net.rng.integers(-2, 2, (4, 8)), scale[:4, 0], 2)
    y = net.add_operator("FULLY_CONNECTED", (y, w, -1), (1, 4), fused_activation_function=1)
    kind = code_of("TensorType", "BFLOAT16")
    stored = net.add_tensor((3, 4), name="half", buffer=net.add_buffer(bytes([0, 63] * 12)))
    net.graph.tensors[stored].type = kind
    w = net.add_operator("CAST", (stored,), (3, 4), in_data_type=kind, out_data_type=0)
    y = net.add_operator("FULLY_CONNECTED", (y, w, -1), (1, 3))
    unsigned = net.add_packed(net.rng.integers(0, 16, (2, 3)), np.array([0.1, 0.2]), 4)
    net.graph.tensors[unsigned].type = code_of("TensorType", "UINT4", "tflite")
    net.graph.tensors[unsigned].quantization.zero_point = [7, 8]
    w = net.add_operator("DEQUANTIZE", (unsigned,), (2, 3))
    net.write(path, net.add_operator("FULLY_CONNECTED", (y, w, -1), (1, 2)))


def hybrid(scheme: Any) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        real = odt.new_model("cnn", input_shape=(6, 6, 1), outputs=3, filters=[4], seed=1)
        odt.quantize(real, scheme=scheme).model.save(path)

    return make


def int16(path: Path) -> None:
    real = odt.new_model("cnn", input_shape=(6, 6, 1), outputs=3, filters=[4], seed=1)
    x = np.random.default_rng(0).normal(size=(8, 6, 6, 1)).astype(np.float32)
    odt.quantize(real, x, scheme="int16x8").model.save(path)


def copied(name: str) -> Callable[[Path], object]:
    return lambda path: path.write_bytes((MODELS / name).read_bytes())


MAKERS: dict[str, Callable[[Path], object]] = {
    "net": small_net,
    "net with float ends": lambda path: small_net(path, floats=True),
    "uint8": lambda path: small_net(path, dtype="uint8", zero=128),
    "mixed": mixed_net,
    "int16x8": int16,
    "int8-weights": hybrid("int8-weights"),
    "int4-weights": hybrid("int4-weights"),
    "packed": packed_net,
    "streaming": streaming_net,
    "frames": frames_net,
    "svdf": lambda path: svdf_net(path, floats=False),
    "lstm": quantized_lstm.build,
    "while": copied("while_000.circle"),
    "hello": copied("tflm-mnist-lstm-int8.tflite"),
}


def make(kind: str, folder: Path) -> bytes:
    path = folder / "whole.tflite"
    MAKERS[kind](path)
    return path.read_bytes()


def run(*arguments: str) -> str:
    """Runs a command in this process; returns its error, which must be one line."""
    with limited():
        result = CliRunner().invoke(main, arguments)
    error = result.exception
    if error is None or isinstance(error, SystemExit):
        assert result.exit_code in (0, 1, 2), result.exit_code
        assert not isinstance(getattr(error, "__context__", None), BUGS)
        lines = result.stderr.splitlines()
        assert "Traceback" not in result.stderr, result.stderr
        return lines[-1] if lines else ""
    raise error


def train(path: Path) -> None:
    """One step of all weights, on zeros."""
    model = read_model(str(path))
    with limited(), odt.Trainer(path, loss="mean_squared_error", batch_size=2) as trainer:
        shapes = [model.graph.tensors[i].spec for i in model.graph.inputs]
        x = [np.zeros((2, *s.shape[1:]), s.dtype) for s in shapes]
        predicted = trainer.predict(x)
        made = predicted if isinstance(predicted, list) else [predicted]
        if sum(a.size for a in made) < MAX_VALUES:
            trainer.fit(x, made, epochs=1)
            trainer.export(path.with_name("trained.tflite"))


def use(path: Path) -> None:
    """Inspects, checks, converts and trains a file: an answer, or an error of one line."""
    run("inspect", str(path))
    run("check", str(path), "--micro-batch", "1", "--workers", "1")
    run("convert", str(path), str(path.with_name("converted.circle")))
    try:
        train(path)
    except OdtError as e:
        line = str(e)
    else:
        line = ""
    assert not line or line.isprintable(), line


def fuzz(kind: str, folder: Path, count: int, seed: int) -> None:
    """Uses damaged copies of a file of a kind."""
    fuzz_copies(make(kind, folder), kind, folder, count, seed)


def fuzz_copies(whole: bytes, kind: str, folder: Path, count: int, seed: int) -> None:
    """Uses damaged copies of a file, whose kind is named in failures."""
    path = folder / "damaged.tflite"
    for k, data in enumerate(structures(whole, count, seed)):
        path.write_bytes(data)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                use(path)
        except BaseException as e:
            e.add_note(f"{kind}, seed {seed}, case {k}")
            raise
