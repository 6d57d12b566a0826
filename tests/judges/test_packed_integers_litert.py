"""LiteRT as judge of files with weights of 2 bits, and of 4 bits in blocks."""

from pathlib import Path

import numpy as np
import pytest
from support.judges import litert
from support.packed_files import convolution_file, dense_file, uint4_file

import odt
from odt.core.formats.reader import read_model
from odt.core.model.packed_integers import unpack_constants
from odt.errors import OdtWarning

RUN_BY_LITERT = [(2, 0), (4, 0), (4, 32), (4, 64)]  # bits, block


@pytest.mark.parametrize(("bits", "block"), RUN_BY_LITERT)
def test_litert_computes_a_trained_layer(bits: int, block: int, tmp_path: Path) -> None:
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    path.write_bytes(dense_file(bits, block, shape=(6, 128))[0])
    rng = np.random.default_rng(2)
    x = rng.normal(size=(64, 128)).astype(np.float32)
    y = rng.normal(size=(64, 6)).astype(np.float32)
    with odt.Trainer(path, loss="mean_squared_error", batch_size=16, learning_rate=0.01) as trainer:
        ours = trainer.predict(x)
        # LiteRT rounds the activations of such layers to 8 bits.
        assert np.abs(ours - litert(path, [x])[0]).max() < 0.02 * np.abs(ours).max()
        trainer.fit(x, y, epochs=8, seed=1)
        trainer.export(out)
        ours = trainer.predict(x)
        assert np.abs(ours - litert(out, [x])[0]).max() < 0.02 * np.abs(ours).max()
        trainer.export(out, float_weights=True)
        np.testing.assert_allclose(litert(out, [x])[0], ours, rtol=1e-3, atol=1e-4)


def test_litert_computes_convolutions_that_were_int2(tmp_path: Path) -> None:
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    data, real = convolution_file(2)
    path.write_bytes(data)
    rng = np.random.default_rng(3)
    x = rng.normal(size=(64, 6, 6, 4)).astype(np.float32)
    y = rng.normal(size=(64, 4, 4, 5)).astype(np.float32)
    with odt.Trainer(path, loss="mean_squared_error", batch_size=16, learning_rate=0.01) as trainer:
        trainer.export(out)
        model = read_model(out)
        ((i, stored),) = model.quantization.items()
        assert model.graph.tensors[i].spec.dtype.names == ("INT4",)
        integers = unpack_constants(model.graph).tensors[i].data
        assert integers is not None
        np.testing.assert_array_equal(integers * stored.scale.reshape(-1, 1, 1, 1), real)
        ours = trainer.predict(x)
        assert np.abs(ours - litert(out, [x])[0]).max() < 0.02 * np.abs(ours).max()
        with pytest.warns(OdtWarning, match=r"weights of int2 in node 0 \(CONV_2D\)"):
            trainer.fit(x, y, epochs=8, seed=1)
        trainer.export(out)
        ours = trainer.predict(x)
        assert np.abs(ours - litert(out, [x])[0]).max() < 0.02 * np.abs(ours).max()
        np.testing.assert_allclose(odt.predict(out, x), ours, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("zero_point", [0, 8, 11])
def test_litert_computes_weights_of_uint4(zero_point: int, tmp_path: Path) -> None:
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    data, real = uint4_file(zero_point)
    path.write_bytes(data)
    rng = np.random.default_rng(4)
    x = rng.normal(size=(64, 63)).astype(np.float32)
    y = rng.normal(size=(64, 6)).astype(np.float32)
    with odt.Trainer(path, loss="mean_squared_error", batch_size=16, learning_rate=0.01) as trainer:
        ours = trainer.predict(x)
        np.testing.assert_allclose(ours, x @ real.T, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(ours, litert(path, [x])[0], rtol=1e-5, atol=1e-5)
        trainer.export(out)
        assert out.read_bytes() == data
        before = trainer.evaluate(x, y)["loss"]
        trainer.fit(x, y, epochs=8, seed=1)
        assert trainer.evaluate(x, y)["loss"] < 0.9 * before
        trainer.export(out)
        ours = trainer.predict(x)
    assert out.stat().st_size == len(data)
    assert read_model(out).graph.tensors[1].spec.dtype.names == ("UINT4",)
    np.testing.assert_allclose(litert(out, [x])[0], ours, rtol=1e-4, atol=1e-5)
