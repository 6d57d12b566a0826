"""`odt eval`: classes, most wrong samples and per-sample losses, with NumPy as the judge.

The models multiply their inputs by the identity, so that the inputs are the logits.
"""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from model_builder import ModelBuilder
from PIL import Image
from support.integer_files import full_range
from support.litert_integers import litert_integers
from support.paths import MODELS

from odt.cli.main import main
from odt.core.data.sidecar import Sidecar
from odt.core.formats.reader import read_model
from odt.kernels.geometry.quantize import dequantize
from odt.kernels.rows.opdef import Array, TensorSpec

METRIC = ("--metric", "sparse_categorical_accuracy")
RNG = np.random.default_rng(3)
SAMPLES = 21
NAMES = ("cat", "dog", "bird")
X = 3 * RNG.normal(size=(SAMPLES, 3)).astype(np.float32)
LABELS = np.where(RNG.random(SAMPLES) < 0.6, X.argmax(axis=1), RNG.integers(0, 3, SAMPLES))
P = np.exp(X) / np.exp(X).sum(axis=1, keepdims=True)
LOSSES = -np.log(P[np.arange(SAMPLES), LABELS])
WRONG = [k for k in np.argsort(-LOSSES) if X[k].argmax() != LABELS[k]]


def save(folder: Path, x: Array, y: Array, names: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Writes x.npy and y.bin, or y.npy without class names; returns the options."""
    np.save(folder / "x.npy", x)
    target = folder / ("y.bin" if names else "y.npy")
    if names:
        y.tofile(target)
        spec = TensorSpec(y.shape[1:], y.dtype)
        sidecar = Sidecar((spec,), len(y), names)
        target.with_name("y.bin.json").write_bytes(sidecar.to_bytes())
    else:
        np.save(target, y)
    return "--load-input", str(folder / "x.npy"), "--load-expected", str(target)


def model(folder: Path, width: int, activation: str = "") -> Path:
    """A model whose outputs are those of the activation for its inputs."""
    made = ModelBuilder("circle")
    x = made.add_input((1, width))
    w, b = made.add_constant(np.eye(width, dtype="f4")), made.add_constant(np.zeros(width, "f4"))
    y = made.add_operator("FULLY_CONNECTED", (x, w, b), (1, width))
    if activation:
        beta: dict[str, Any] = {"beta": 1.0} if activation == "SOFTMAX" else {}
        y = made.add_operator(activation, (y,), (1, width), **beta)
    made.write(folder / "m.circle", y)
    return folder / "m.circle"


def evaluate(*words: object, status: int = 0) -> Result:
    done = CliRunner().invoke(main, ["eval", *map(str, words)])
    assert done.exit_code == status, done.output
    return done


def rows_of(text: str, heading: str) -> list[list[str]]:
    """The cells of the lines after a heading, up to a blank line."""
    _, _, after = text.partition(heading)
    return [line.split() for line in after.split("\n\n")[0].strip().splitlines()]


def one_hot(labels: Array, classes: int = 3) -> Array:
    return np.eye(classes, dtype=np.float32)[labels]


@pytest.fixture
def classified(tmp_path: Path) -> tuple[object, ...]:
    return model(tmp_path, 3, "SOFTMAX"), *save(tmp_path, X, one_hot(LABELS), NAMES)


def test_the_confusion_matrix_counts_true_and_predicted_classes(
    classified: tuple[object, ...], tmp_path: Path
) -> None:
    path = tmp_path / "c.csv"
    done = evaluate(*classified, "--confusion", "--confusion-csv", path, "--workers", 2)
    head, *rows = rows_of(done.stdout, "confusion matrix\n")
    expected = [
        [int(((t == LABELS) & (X.argmax(axis=1) == p)).sum()) for p in range(3)] for t in range(3)
    ]
    assert head[-3:] == list(NAMES)
    assert rows == [[n, *map(str, row)] for n, row in zip(NAMES, expected, strict=True)]
    with path.open(newline="") as file:
        assert list(csv.reader(file))[1:] == rows


def test_the_figures_of_each_class_are_printed(classified: tuple[object, ...]) -> None:
    done = evaluate(*classified, "--per-class", "--metric", "precision", "--metric", "f1")
    head, *rows = rows_of(done.stdout, "\n\n")
    assert head == ["class", "precision", "recall", "f1-score", "support"]
    best = X.argmax(axis=1)
    for k, (name, precision, recall, f1, support) in enumerate(rows[:3]):
        found, true = np.flatnonzero(best == k), np.flatnonzero(k == LABELS)
        both = len(np.intersect1d(found, true))
        figures = both / len(found), both / len(true)
        assert name == NAMES[k]
        assert (precision, recall) == tuple(f"{figure:.4f}" for figure in figures)
        assert f1 == f"{2 * figures[0] * figures[1] / sum(figures):.4f}"
        assert support == str(len(true))
    _, _, precision, _, f1, _ = rows[3]
    assert f"precision: [0] {precision} - f1_score: [0] {f1}" in done.stdout


@pytest.mark.parametrize(
    "options", [(), ("--batch-size", 4, "--workers", 2), ("--reduction", "sum")]
)
def test_wrong_samples_come_by_loss(classified: tuple[object, ...], options: Any) -> None:
    done = evaluate(*classified, "--wrong", 4, *options)
    title = f"wrong: {len(WRONG)} of {SAMPLES} samples; the 4 with the largest loss:\n"
    assert title in done.stdout
    head, *rows = rows_of(done.stdout, title)
    assert head == ["sample", "true", "predicted", "probability", "loss"]
    assert [int(row[0]) for row in rows] == WRONG[:4]
    for k, true, predicted, probability, loss in rows:
        i = int(k)
        assert (true, predicted) == (NAMES[LABELS[i]], NAMES[X[i].argmax()])
        assert float(probability) == pytest.approx(P[i].max(), abs=1e-4)
        assert float(loss) == pytest.approx(LOSSES[i], rel=1e-4)


def test_the_sheet_shows_the_wrong_samples(classified: tuple[object, ...], tmp_path: Path) -> None:
    path = tmp_path / "w.png"
    done = evaluate(*classified, "--wrong", 3, "--sheet", path)
    assert f"{path}: images of these samples" in done.stdout
    with Image.open(path) as image:
        assert image.size == (204, 260)  # two by two tiles of 96, with two lines of text


def test_every_sample_is_in_the_csv(classified: tuple[object, ...], tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    done = evaluate(*classified, "--per-sample", path)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["sample"]) for row in rows] == list(range(SAMPLES))
    assert [row["true"] for row in rows] == [NAMES[k] for k in LABELS]
    losses = [float(row["loss"]) for row in rows]
    np.testing.assert_allclose(losses, LOSSES, 1e-4, 1e-6)
    assert f"loss: [0] {np.mean(losses):.4f}" in done.stdout


def test_weights_count_in_the_losses_of_samples(
    classified: tuple[object, ...], tmp_path: Path
) -> None:
    weights = np.arange(SAMPLES, dtype=np.float32)
    np.save(tmp_path / "w.npy", weights)
    path = tmp_path / "s.csv"
    evaluate(*classified, "--per-sample", path, "--sample-weight", tmp_path / "w.npy")
    losses = [float(line.split(",")[-1]) for line in path.read_text().splitlines()[1:]]
    np.testing.assert_allclose(losses, weights * LOSSES, 1e-4, 1e-6)


def test_labels_of_logits_are_classes_too(tmp_path: Path) -> None:
    files = save(tmp_path, X, LABELS.astype(np.int32))
    loss = "sparse-categorical-crossentropy"
    done = evaluate(model(tmp_path, 3), *files, "--loss", loss, "--wrong", 2)
    _, *rows = rows_of(done.stdout, "the 2 with the largest loss:\n")
    assert len(rows) == 2
    for k, true, predicted, probability, _ in rows:
        i = int(k)
        assert (int(true), int(predicted)) == (LABELS[i], X[i].argmax())
        assert float(probability) == pytest.approx(P[i].max(), abs=1e-4)


@pytest.mark.parametrize("activation", ["LOGISTIC", ""])
def test_a_single_flag_is_two_classes(tmp_path: Path, activation: str) -> None:
    x = np.array([[2], [-1], [0.3], [-3]], np.float32)
    files = save(tmp_path, x, np.array([[1], [1], [1], [0]], np.float32))
    loss = ("--loss", "binary-crossentropy")
    done = evaluate(model(tmp_path, 1, activation), *files, *loss, "--confusion", "--wrong", 5)
    assert rows_of(done.stdout, "confusion matrix\n")[1:] == [["0", "1", "0"], ["1", "1", "2"]]
    (row,) = rows_of(done.stdout, "the 1 with the largest loss:\n")[1:]
    probability = 1 / (1 + np.exp(-1))
    assert row[:4] == ["1", "1", "0", f"{probability:.4f}"]
    assert float(row[4]) == pytest.approx(-np.log(1 - probability), rel=1e-4)


def test_several_labels_have_figures_and_no_confusion_matrix(tmp_path: Path) -> None:
    files = save(tmp_path, X, (X + RNG.normal(size=X.shape) > 0).astype(np.float32), NAMES)
    words = (model(tmp_path, 3, "LOGISTIC"), *files)
    rows = rows_of(evaluate(*words, "--per-class").stdout, "\n\n")
    assert [row[0] for row in rows[1:4]] == list(NAMES)
    refused = evaluate(*words, "--confusion", status=1).stderr
    assert "samples must have one class each" in refused


def test_values_have_losses_of_samples_and_no_classes(tmp_path: Path) -> None:
    files = save(tmp_path, X, X + RNG.normal(size=X.shape).astype(np.float32))
    path = tmp_path / "s.csv"
    mse = (model(tmp_path, 3), *files, "--loss", "mse")
    done = evaluate(*mse, "--wrong", 2, "--sheet", tmp_path / "w.png", "--per-sample", path)
    expected = np.square(X - np.load(tmp_path / "y.npy")).mean(axis=1)
    assert rows_of(done.stdout, "samples with the largest loss:\n")[1][0] == str(expected.argmax())
    assert path.read_text().splitlines()[0] == "sample,loss"
    losses = [float(line.split(",")[1]) for line in path.read_text().splitlines()[1:]]
    np.testing.assert_allclose(losses, expected, 1e-4, 1e-6)
    refused = evaluate(*mse, "--per-class", status=1).stderr
    assert "y.npy: expected output 0: targets must be classes" in refused


def test_one_hot_values_are_classes(tmp_path: Path) -> None:
    files = save(tmp_path, X, one_hot(LABELS))
    done = evaluate(model(tmp_path, 3, "SOFTMAX"), *files, "--loss", "mse", "--confusion")
    assert len(rows_of(done.stdout, "confusion matrix\n")) == 4


def test_a_class_that_is_never_predicted_is_warned_of(tmp_path: Path) -> None:
    x = np.tile(np.array([5, 0, 0], np.float32), (20, 1))
    labels = np.repeat([0, 1], [15, 5])
    words = (model(tmp_path, 3, "SOFTMAX"), *save(tmp_path, x, one_hot(labels), NAMES))
    done = evaluate(*words, "--metric", "accuracy")
    assert (
        "Warning: 1 of 2 classes is never predicted: dog (5 samples). Training with --class"
        in done.stderr
    )
    quiet = (tmp_path / "quiet").absolute()
    quiet.mkdir()
    words = (model(quiet, 3, "SOFTMAX"), *save(quiet, 9 * one_hot(labels), one_hot(labels)))
    assert "never" not in evaluate(*words).stderr


def test_labels_that_are_never_predicted_are_warned_of_only_with_their_figures(
    tmp_path: Path,
) -> None:
    """The outputs of an autoencoder of black and white images are such labels, too."""
    files = save(tmp_path, np.full_like(X, -1), np.ones_like(X), NAMES)
    words = (model(tmp_path, 3, "LOGISTIC"), *files)
    assert "never" not in evaluate(*words).stderr
    assert "3 of 3 classes are never predicted" in evaluate(*words, "--per-class").stderr


def test_of_many_classes_the_confused_pairs_are_printed(tmp_path: Path) -> None:
    labels = np.array([4, 4, 4, 30, 7, 7])
    predicted = np.array([9, 9, 4, 30, 8, 7])
    names = tuple(f"class {'long ' * 9}{k}" for k in range(40))
    files = save(tmp_path, 9 * one_hot(predicted, 40), one_hot(labels, 40), names)
    done = evaluate(model(tmp_path, 40, "SOFTMAX"), *files, "--confusion")
    lines = done.stdout.partition("confusion matrix\n")[2].splitlines()
    assert len(lines) == 3
    assert lines[1].split()[-3:] == ["2", "66.7", "%"]
    assert lines[2].split()[-3:] == ["1", "50.0", "%"]
    assert max(map(len, lines)) < 100


def test_long_names_become_numbers_at_the_head_of_columns(tmp_path: Path) -> None:
    names = tuple(f"a species of {k} legs that lives in trees" for k in range(12))
    labels = np.arange(12)
    files = save(tmp_path, 9 * one_hot(labels, 12), one_hot(labels, 12), names)
    done = evaluate(model(tmp_path, 12, "SOFTMAX"), *files, "--confusion")
    lines = done.stdout.partition("confusion matrix\n")[2].splitlines()
    assert lines[0].split()[-12:] == [str(k) for k in range(12)]
    assert lines[3].startswith("2 a species")
    assert max(map(len, lines)) < 100


def test_without_wrong_samples_there_is_no_sheet(tmp_path: Path) -> None:
    words = (model(tmp_path, 3, "SOFTMAX"), *save(tmp_path, 9 * one_hot(LABELS), one_hot(LABELS)))
    done = evaluate(*words, "--wrong", 3, "--sheet", tmp_path / "w.png")
    assert f"wrong: none of {SAMPLES} samples" in done.stdout
    assert not (tmp_path / "w.png").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--sheet", "w.png"), "--sheet: must come with --wrong"),
        (("--wrong", 3, "--micro-batch", 4), "--micro-batch: must be left out with --wrong"),
        (("--per-sample", "s.csv", "--confusion-csv", "s.csv"), "must be a file of its own"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    classified: tuple[object, ...], words: tuple[object, ...], message: str
) -> None:
    assert message in evaluate(*classified, *words, status=1).stderr


def test_a_quantized_file_is_evaluated_in_integers(tmp_path: Path) -> None:
    path = MODELS / "mlperf-tiny-kws-dscnn-int8.tflite"
    file = read_model(path)
    (inputs,) = full_range(file, 20)
    labels = np.random.default_rng(1).integers(0, 12, 20).astype(np.int32)
    options = save(tmp_path, inputs, labels)
    loss = ("--loss", "sparse-categorical-crossentropy")
    result = CliRunner().invoke(main, ["eval", str(path), *options, *loss, *METRIC])
    assert result.exit_code == 0, result.output
    i = file.graph.nodes[-1].inputs[0]
    logits = litert_integers(path, [inputs])[i].reshape(20, 12)
    real = dequantize(logits, file.quantization[i]).astype(np.float64)
    losses = np.log(np.exp(real).sum(axis=1)) - real[np.arange(20), labels]
    right = np.mean(logits.argmax(axis=1) == labels)
    assert f"loss: [0] {losses.mean():.4f} " in result.output
    assert f"sparse_categorical_accuracy: [0] {right:.4f}\n" in result.output
