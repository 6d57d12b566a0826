"""Constants of 2 and 4 bits or with blocks: their bytes, real numbers, training and export."""

from pathlib import Path

import numpy as np
import pytest
from support.packed_files import convolution_file, dense_file, packed_bytes, uint4_file

import odt
from odt.core.formats.reader import read_model
from odt.core.model.packed_integers import pack_integers, unpack_constants
from odt.errors import ModelError, UnsupportedError
from odt.kernels.rows.opdef import Array

FORMS = [(2, 0), (4, 0), (2, 32), (4, 32), (4, 64), (8, 32)]  # bits, block


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def learned_step(path: Path, out: Path, width: int = 64) -> tuple[Array, Array]:
    """Trains a dense layer towards random targets, and exports it: inputs and predictions."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(64, width)).astype(np.float32)
    y = rng.normal(size=(64, 6)).astype(np.float32)
    with odt.Trainer(path, loss="mean_squared_error", batch_size=16, learning_rate=0.01) as trainer:
        before = trainer.evaluate(x, y)["loss"]
        trainer.fit(x, y, epochs=8, seed=1)
        assert trainer.evaluate(x, y)["loss"] < 0.7 * before
        trainer.export(out)
        return x, trainer.predict(x)


def test_the_first_integer_is_in_the_lowest_bits() -> None:
    a = np.array([1, -2, 0, -1, -2], np.int8)
    assert pack_integers(a, 2).tolist() == [0b11_00_10_01, 0b10]
    assert pack_integers(a, 4).tolist() == [0xE1, 0xF0, 0x0E]


@pytest.mark.parametrize("bits", [2, 4])
@pytest.mark.parametrize("size", [1, 4, 7, 64])
def test_packed_integers_are_unpacked(bits: int, size: int, tmp_path: Path) -> None:
    a = np.random.default_rng(size).integers(-2, 2, (3, size)).astype(np.int8)
    assert pack_integers(a, bits).tobytes() == packed_bytes(a, bits)
    data, real, _ = dense_file(bits, shape=(3, size))
    model = read_model(write(tmp_path / "m.tflite", data))
    (i,) = (i for i, t in enumerate(model.graph.tensors) if t.name == f"w{bits}")
    integers = unpack_constants(model.graph).tensors[i].data
    assert integers is not None
    scale = model.quantization[i].scale[:, np.newaxis]
    np.testing.assert_array_equal(integers * scale, real)


@pytest.mark.parametrize(("bits", "block"), FORMS)
def test_a_layer_computes_the_real_numbers(bits: int, block: int, tmp_path: Path) -> None:
    data, real, bias = dense_file(bits, block)
    model = odt.load_model(write(tmp_path / "m.tflite", data))
    x = np.random.default_rng(0).normal(size=(5, 64)).astype(np.float32)
    np.testing.assert_allclose(odt.predict(model, x), x @ real.T + bias, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("bits", "block"), FORMS)
def test_a_trained_layer_keeps_types_scales_and_size(bits: int, block: int, tmp_path: Path) -> None:
    path = write(tmp_path / "m.tflite", dense_file(bits, block)[0])
    out = tmp_path / "out.tflite"
    odt.Trainer(path, loss="mean_squared_error").export(out)
    assert out.read_bytes() == path.read_bytes()
    x, ours = learned_step(path, out)
    assert out.stat().st_size == path.stat().st_size
    before, after = read_model(path), read_model(out)
    for i, (old, new) in enumerate(zip(before.graph.tensors, after.graph.tensors, strict=True)):
        assert (old.name, old.spec) == (new.name, new.spec)
        if i in before.quantization and (block or bits == 2):
            np.testing.assert_array_equal(before.quantization[i].scale, after.quantization[i].scale)
    np.testing.assert_allclose(odt.predict(out, x), ours, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("bits", "block"), FORMS)
def test_float_weights_are_those_that_training_reads(bits: int, block: int, tmp_path: Path) -> None:
    path = write(tmp_path / "m.tflite", dense_file(bits, block)[0])
    trainer = odt.Trainer(path, loss="mean_squared_error")
    trainer.export(tmp_path / "out.tflite", float_weights=True)
    model = read_model(tmp_path / "out.tflite")
    assert not model.quantization
    x = np.random.default_rng(0).normal(size=(5, 64)).astype(np.float32)
    np.testing.assert_allclose(
        odt.predict(tmp_path / "out.tflite", x), trainer.predict(x), rtol=1e-6
    )


def test_a_convolution_computes_the_real_numbers(tmp_path: Path) -> None:
    data, real = convolution_file(2)
    model = odt.load_model(write(tmp_path / "m.tflite", data))
    x = np.random.default_rng(0).normal(size=(2, 6, 6, 4)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))  # N, OH, OW, C, KH, KW
    expected = np.einsum("nyxcij,oijc->nyxo", windows, real)
    np.testing.assert_allclose(odt.predict(model, x), expected, rtol=1e-4, atol=1e-5)


def test_missing_bytes_are_named(tmp_path: Path) -> None:
    data = dense_file(2, shape=(5, 63))[0]
    damaged = data.replace((79).to_bytes(4, "little"), (78).to_bytes(4, "little"))
    assert damaged != data
    with pytest.raises(ModelError, match="its int2 values need 79 bytes, but got 78"):
        odt.predict(write(tmp_path / "m.tflite", damaged), np.zeros((1, 63), np.float32))


def test_the_summary_names_blocks(tmp_path: Path) -> None:
    text = str(odt.load_model(write(tmp_path / "m.tflite", dense_file(4, 32)[0])).summary())
    assert "12 blocks of 1×32" in text


def test_uint4_without_dequantize_is_named(tmp_path: Path) -> None:
    """LiteRT 2.3.0 refuses such layers, too."""
    path = write(tmp_path / "m.tflite", uint4_file(op="FULLY_CONNECTED")[0])
    with pytest.raises(
        UnsupportedError, match=r'\(FULLY_CONNECTED\), .* tensor 1 \("w4"\) of UINT4'
    ):
        odt.predict(path, np.zeros((1, 63), np.float32))
