"""`odt predict`: every output can be had."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.integer_files import full_range
from support.judges import litert, random_inputs
from support.paths import MLP_SM, MODELS

from odt.cli.main import main
from odt.core.formats.reader import read_model

RNET = MODELS / "mtcnn-rnet.tflite"
SAMPLES = 5


@pytest.fixture
def data(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", random_inputs(RNET, SAMPLES)[0])
    return tmp_path / "x.npy"


def predict(model: Path, data: Path, *arguments: object) -> Result:
    words = ["predict", model, "--load-input", data, *arguments]
    return CliRunner().invoke(main, [str(w) for w in words])


def test_npz_holds_each_output_by_name(data: Path) -> None:
    path = data.with_name("p.npz")
    result = predict(RNET, data, "--output", path, "--batch-size", 2)
    assert (result.exit_code, result.output) == (0, "")
    graph = read_model(str(RNET)).graph
    expected = litert(RNET, [np.load(data)])
    with np.load(path) as file:
        assert list(file) == [graph.tensors[i].name for i in graph.outputs]
        assert len(expected) == 2
        for found, theirs in zip(file.values(), expected, strict=True):
            np.testing.assert_allclose(found, theirs, atol=1e-5)
    assert sorted(p.name for p in path.parent.iterdir()) == ["p.npz", "x.npy"]


def test_one_of_several_outputs_is_an_array(data: Path) -> None:
    path = data.with_name("p.npy")
    result = predict(RNET, data, "--output", path, "--output-index", 1, "--top", 1)
    expected = litert(RNET, [np.load(data)])[1]
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(np.load(path), expected, atol=1e-5)
    best = expected[2].argmax()
    assert result.output.splitlines()[2].startswith(f"2: {best} {expected[2, best]:.3f}")


def test_top_beside_a_file_shows_the_first_samples(tmp_path: Path) -> None:
    x, path = tmp_path / "x.npy", tmp_path / "p.npy"
    np.save(x, np.random.default_rng(0).random((25, 24, 24, 3), np.float32))
    options = ("--output-index", 1, "--top", 1, "--batch-size", 4)
    every = predict(RNET, x, *options).output.splitlines()
    result = predict(RNET, x, *options, "--output", path)
    assert result.output.splitlines() == [*every[:10], f"15 more samples are in {path}"]
    assert (len(every), len(np.load(path))) == (25, 25)


def test_an_npy_of_several_outputs_is_refused(data: Path) -> None:
    path = data.with_name("p.npy")
    result = predict(RNET, data, "--output", path)
    assert result.exit_code == 1
    assert "must end in .npz, because the model has 2 outputs, but got .npy" in result.stderr
    assert "--output-index" in result.stderr
    assert str(path.with_suffix(".npz")) in result.stderr
    assert not path.exists()


@pytest.mark.parametrize("suffix", [".bin", ""])
def test_other_suffixs_are_refused(suffix: str, data: Path) -> None:
    result = predict(
        MLP_SM / "model.circle", MLP_SM / "input.bin", "--output", data.with_name("p" + suffix)
    )
    assert result.exit_code == 1
    assert f"must end in .npy or .npz or .csv, but got {suffix or 'none'}" in result.stderr


def test_an_output_that_is_not_there_is_refused(data: Path) -> None:
    result = predict(RNET, data, "--output-index", 2)
    assert result.exit_code == 1
    assert "--output-index: must be below 2, the number of outputs, but got 2" in result.stderr
    result = predict(RNET, data, "--output-index", 1, "--output", data.with_name("p.npz"))
    assert "--output-index: must be left out with --output" in result.stderr
    result = CliRunner().invoke(main, ["predict", str(RNET), "--source", "-", "--batch-size", "1"])
    assert "--batch-size: must be given without --source -" in result.stderr


def test_an_npz_that_cannot_be_written_is_refused_and_leaves_nothing(data: Path) -> None:
    result = predict(RNET, data, "--output", data.parent / "no" / "p.npz")
    assert result.exit_code == 1
    assert "p.npz: must be a file that can be written" in result.stderr


def test_a_quantized_file_computes_integers(tmp_path: Path) -> None:
    model, path = MODELS / "mlperf-tiny-kws-dscnn-int8.tflite", tmp_path / "p.npy"
    (inputs,) = full_range(read_model(model), 9)
    np.save(tmp_path / "x.npy", inputs)
    result = predict(model, tmp_path / "x.npy", "--output", path, "--batch-size", 4)
    assert result.exit_code == 0, result.output
    (theirs,) = litert(model, [inputs])
    probabilities = (theirs.astype(np.float32) + 128) / 256
    assert np.array_equal(np.load(path), probabilities)
