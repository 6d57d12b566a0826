"""odt train --quantize-aware: a float model trains as int8."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.judges import litert

import odt
from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.kernels.rows.opdef import Array


@pytest.fixture
def data(tmp_path: Path) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 96).astype(np.int32)
    x = (rng.normal(size=(96, 8)) + 2 * np.eye(3, 8)[y]).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    odt.new_model("mlp", input_shape=(8,), outputs=3, seed=1).save(tmp_path / "m.tflite")
    return x, y


def run(folder: Path, *words: str) -> str:
    files = ["--load-input", str(folder / "x.npy"), "--load-expected", str(folder / "y.npy")]
    loss = ["--loss", "sparse-categorical-crossentropy", "--seed", "1"]
    given = [w.replace("@", f"{folder}/") for w in words]
    result = CliRunner().invoke(main, ["train", f"{folder}/m.tflite", *files, *loss, *given])
    return result.output


def test_a_float_model_is_exported_as_int8(tmp_path: Path, data: tuple[Array, Array]) -> None:
    x, y = data
    out = tmp_path / "q.tflite"
    rate = ("--learning-rate", "0.01")
    run(tmp_path, "--quantize-aware", "--epochs", "10", *rate, "--export-tflite", str(out))
    model = read_model(out)
    kinds = {t.spec.dtype.name for t in model.graph.tensors if t.data is not None}
    assert kinds == {"int8", "int32"}
    assert np.mean(litert(out, [x])[0].argmax(1) == y) > 0.9


def test_a_resumed_training_gives_the_same_file(tmp_path: Path, data: tuple[Array, Array]) -> None:
    """It is quantized again from the same samples; the checkpoint says that ranges follow."""
    qat = "--quantize-aware"
    run(tmp_path, qat, "--epochs", "4", "--export-tflite", "@whole.tflite")
    run(tmp_path, qat, "--epochs", "2", "--export-checkpoint", "@c.odt")
    run(tmp_path, qat, "--epochs", "4", "--checkpoint", "@c.odt", "--export-tflite", "@two.tflite")
    assert (tmp_path / "two.tflite").read_bytes() == (tmp_path / "whole.tflite").read_bytes()


def test_what_cannot_be_quantized_is_refused(tmp_path: Path, data: tuple[Array, Array]) -> None:
    adapters = run(tmp_path, "--quantize-aware", "--adapters", "@a.npz")
    assert "--quantize-aware: must be given without --adapters" in adapters
    odt.quantize(tmp_path / "m.tflite", data[0]).model.save(tmp_path / "m.tflite")
    assert "the model is quantized" in run(tmp_path, "--quantize-aware")
