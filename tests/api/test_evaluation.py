"""`odt.evaluate` and `odt.predict` do in Python what `odt eval` and `odt predict` do."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from support.paths import MODELS

import odt
from odt.cli.main import main
from odt.cli.output.report import figures_line
from odt.core.export.model_builder import ModelBuilder
from odt.kernels.rows.opdef import Array

RESNET = MODELS / "mlperf-tiny-resnet8-cifar10.tflite"
INTEGERS = MODELS / "mlperf-tiny-resnet8-cifar10-int8.tflite"
RNG = np.random.default_rng(5)
X = RNG.normal(size=(7, 32, 32, 3)).astype(np.float32)
Y = np.eye(10, dtype=np.float32)[RNG.integers(0, 10, 7)]
WEIGHTS = RNG.uniform(0.5, 2, 7).astype(np.float32)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Data files by option."""
    arrays = {"--load-input": X, "--load-expected": Y, "--sample-weight": WEIGHTS}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name[2:]}.npy", array)
    return {name: tmp_path / f"{name[2:]}.npy" for name in arrays}


def printed(*words: object) -> str:
    """What a command prints."""
    result = CliRunner().invoke(main, [*map(str, words)])
    assert result.exit_code == 0, result.output
    return result.stdout


def losses_of(outputs: Array) -> Array:
    """Cross-entropy of the probabilities of each sample, by its formula."""
    losses: Array = -np.log((outputs.astype(np.float64) * Y).sum(axis=1))
    return losses


@pytest.mark.parametrize("model", [RESNET, INTEGERS], ids=["floats", "integers"])
def test_an_evaluation_is_that_of_the_command(model: Path, files: dict[str, Path]) -> None:
    words = [word for option in files.items() for word in option]
    text = printed("eval", model, *words, "--metric", "accuracy", "--per-class", "--confusion")
    x = X if model == RESNET else files["--load-input"]  # files of real numbers are quantized
    found = odt.evaluate(model, x, Y, WEIGHTS, metrics="accuracy", per_class=True)
    assert found.classes is not None
    assert f"7 samples - {figures_line(found.loss, found.metrics)}\n" in text
    assert f"\n{found.classes.confusion()}\n\n{found.classes}\n" in text


def test_the_losses_of_samples_are_those_of_the_formula(files: dict[str, Path]) -> None:
    found = odt.evaluate(odt.load_model(RESNET), X, Y, per_sample=True)
    outputs = odt.predict(RESNET, X)
    assert found.results is not None
    np.testing.assert_allclose(found.results.losses, losses_of(outputs), rtol=1e-5)
    assert found.loss == pytest.approx(losses_of(outputs).mean(), rel=1e-5)
    assert odt.evaluate(RESNET, X, Y).results is None
    batches = losses_of(outputs)[:4].sum(), losses_of(outputs)[4:].sum()
    total = odt.evaluate(RESNET, X, Y, reduction="sum", batch_size=4)
    assert total.loss == pytest.approx(np.mean(batches), rel=1e-5)
    table = files["--load-input"].with_name("s.csv")
    words = [word for option in files.items() for word in option][:4]
    printed("eval", RESNET, *words, "--per-sample", table)
    rows = [line.split(",") for line in table.read_text().splitlines()[1:]]
    assert [row[-1] for row in rows] == [f"{loss:.6g}" for loss in found.results.losses]


@pytest.mark.parametrize("batch_size", [2, 32])
def test_a_prediction_is_that_of_the_command(batch_size: int, files: dict[str, Path]) -> None:
    path, seen = files["--load-input"], list[tuple[int, int]]()
    out = path.with_name("o.npy")
    options = ("--batch-size", batch_size, "--output", out)
    printed("predict", RESNET, "--load-input", path, *options)
    found = odt.predict(RESNET, X, batch_size=batch_size, progress=lambda *n: seen.append(n))
    assert np.array_equal(found, np.load(out))
    assert seen[-1] == (7, 7)
    assert len(seen) == -(-7 // batch_size)


def test_an_evaluation_takes_no_memory_of_training() -> None:
    """A trainer evaluates to the same, with memory for gradients and optimizer state."""
    with odt.Trainer(RESNET, metrics=["categorical_accuracy"]) as trainer:
        expected = trainer.evaluate(X, Y)
    found = odt.evaluate(RESNET, X, Y, metrics=["categorical_accuracy"])
    assert {"loss": found.loss, **found.metrics} == pytest.approx(expected, rel=1e-6)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder of photos with one folder for each class."""
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for k in range(4):
            pixels = RNG.integers(0, 256, (9, 9, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{k}.png")
    return tmp_path / "photos"


def test_new_data_are_prepared_like_training_data(photos: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    printed("gen-datafile", "--source", photos, "--size", "8x8", "--out-dir", data)
    model = tmp_path / "m.tflite"
    inputs = next(iter(sorted(data.glob("*.input.*bin"))))
    printed("new", "cnn", "--like", inputs, "-o", model, "--seed", 1)
    shown: list[str] = []
    new = odt.NewData(str(photos), f"{inputs}.json")
    found = odt.evaluate(model, new, metrics="accuracy", show=shown.append)
    words = ("--source", photos, "--as", f"{inputs}.json")
    text = printed("eval", model, *words, "--metric", "accuracy")
    assert text == f"8 samples - {figures_line(found.loss, found.metrics)}\n"
    assert found.classes is not None
    assert found.classes.classes == ("cat", "dog")
    assert found.label is not None
    assert re.search(r"\d\.png$", found.label(0))
    outputs = odt.predict(model, new)
    lines = printed("predict", model, *words).splitlines()
    assert outputs.shape == (8, 2)
    for row, line in zip(outputs, lines, strict=True):
        best = ("cat", "dog")[int(row.argmax())]
        assert f": {best} {row.max():.4f}, " in line


def test_new_data_need_a_record(photos: Path) -> None:
    for function in (odt.evaluate, odt.predict):
        call: Any = function
        with pytest.raises(odt.OdtError, match="must hold a preprocessing record for `source=`"):
            call(RESNET, odt.NewData(str(photos)))


def test_targets_must_be_given() -> None:
    with pytest.raises(odt.DataError, match="y: must be given to evaluate"):
        odt.evaluate(RESNET, X)


def test_constants_that_are_not_finite_are_compared_value_by_value(tmp_path: Path) -> None:
    """Masks of attention hold −∞: equal infinities and equal NaN are no difference."""
    paths = tmp_path / "a.circle", tmp_path / "b.circle"
    for path, last in zip(paths, (1.0, 3.0), strict=True):
        built = ModelBuilder("circle")
        mask = built.add_constant(np.array([-np.inf, np.nan, 4.0, last], np.float32), "mask")
        built.write(path, built.add_operator("ADD", [built.add_input((1, 4)), mask], (1, 4)))
    (change,) = odt.compare_models(*paths).changes
    assert (change.values, change.size, change.largest) == (1, 4, 2.0)
    assert change.relative == pytest.approx(2 / np.hypot(4, 1))


def test_a_difference_that_is_no_number_is_the_largest(tmp_path: Path) -> None:
    """It stays the largest in later batches, so that `odt verify` fails."""
    paths = tmp_path / "a.circle", tmp_path / "b.circle"
    for path, operator in zip(paths, ("RELU", "SQRT"), strict=True):
        built = ModelBuilder("circle")
        built.write(path, built.add_operator(operator, [built.add_input((1, 2))], (1, 2)))
    x = np.array([[4, 1], [-1, 1], [1, 1], [0, 9]], np.float32)
    (agreement,) = odt.compare_outputs(*paths, x, batch_size=1)
    assert np.isnan(agreement.largest)
    assert np.isnan(agreement.relative)
    assert agreement.sample == 1


def test_a_comparison_is_that_of_the_command(files: dict[str, Path], tmp_path: Path) -> None:
    with odt.Trainer(RESNET, learning_rate=1e-3, batch_size=7) as trainer:
        trainer.fit(X, Y)
        trainer.export(tmp_path / "trained.tflite")
    paths = RESNET, tmp_path / "trained.tflite"
    (agreement,) = odt.compare_outputs(*paths, X)
    moved = np.abs(odt.predict(paths[0], X) - odt.predict(paths[1], X))
    assert agreement.largest == pytest.approx(moved.max(), rel=1e-5)
    assert agreement.sample == moved.max(axis=1).argmax()
    words = ["verify", *map(str, paths), "--load-input", str(files["--load-input"])]
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, agreement.relative > 1e-5) == (1, True)
    assert result.stdout.startswith(f"output 0: {agreement}\n")
    difference = odt.compare_models(*paths)
    assert len(difference.changes) == 20  # every weight and bias
    assert odt.compare_models(RESNET, odt.load_model(RESNET)).is_empty
    result = CliRunner().invoke(main, ["verify", "--diff", *map(str, paths)])
    assert "same operators; 20 of " in result.stdout
