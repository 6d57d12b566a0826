"""The models that tools/make_models.py writes are models to LiteRT, to onert and to odt."""

from pathlib import Path

import make_models
import numpy as np
import pytest
from click.testing import CliRunner
from support.judges import litert, onert

from odt.core.formats.reader import read_model


def made(path: Path, kind: str, *options: str) -> Path:
    result = CliRunner().invoke(make_models.main, [kind, str(path), *options])
    assert result.exit_code == 0, result.output
    return path


@pytest.mark.parametrize("kind", ["mlp", "cnn", "autoencoder"])
def test_litert_and_onert_compute_the_same(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("onert")
    x = np.random.default_rng(0).random((1, 28, 28, 1)).astype(np.float32)
    ours = litert(made(tmp_path / "m.tflite", kind, "--seed", "1"), [x])[0]
    theirs = onert(made(tmp_path / "a.circle", kind, "--seed", "1"), [x], tmp_path)[0]
    assert np.ptp(ours) > 0.01
    np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-5)
    if kind != "autoencoder":
        np.testing.assert_allclose(ours.sum(), 1, rtol=1e-5)


def test_the_seed_makes_the_file(tmp_path: Path) -> None:
    files = [
        made(tmp_path / f"{name}.circle", "mlp", "--seed", seed).read_bytes()
        for name, seed in (("a", "1"), ("b", "1"), ("c", "2"))
    ]
    assert files[0] == files[1]
    assert files[0] != files[2]


def test_shapes_and_classes_are_the_users(tmp_path: Path) -> None:
    path = made(tmp_path / "m.circle", "cnn", "--input-shape", "9,7,3", "--classes", "4")
    graph = read_model(path).graph
    assert graph.tensors[graph.inputs[0]].spec.shape == (1, 9, 7, 3)
    assert graph.tensors[graph.outputs[0]].spec.shape == (1, 4)


def test_constants_begin_on_multiples_of_16(tmp_path: Path) -> None:
    spans = read_model(made(tmp_path / "m.tflite", "cnn")).spans
    assert sum(size > 0 for _, size in spans) == 9
    assert all(offset % 16 == 0 for offset, _ in spans)


@pytest.mark.parametrize(
    ("kind", "name", "shape"),
    [("cnn", "m.pb", "8,8,1"), ("cnn", "m.circle", "28"), ("rnn", "m.circle", "8,8,1")],
)
def test_invalid_values_are_a_usage_error(kind: str, name: str, shape: str, tmp_path: Path) -> None:
    options = [kind, str(tmp_path / name), "--input-shape", shape]
    assert CliRunner().invoke(make_models.main, options).exit_code == 2
    assert not list(tmp_path.iterdir())
