"""The commands train, eval and predict, as a user runs them."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.paths import GOLDEN, MODELS

from odt.cli.main import main
from odt.core.formats.reader import read_model

MODEL = GOLDEN / "mlp_sm" / "model.circle"
X, T = GOLDEN / "mlp_sm" / "input.bin", GOLDEN / "mlp_sm" / "expected.bin"
DATA = ["--load-input", str(X), "--load-expected", str(T)]
SAMPLES = 96


def odt(*arguments: object) -> str:
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def weights(path: Path) -> dict[str, np.ndarray]:
    tensors = read_model(str(path)).graph.tensors
    return {t.name: t.data for t in tensors if t.data is not None and t.spec.dtype.kind == "f"}


def test_training_prints_what_onert_train_prints() -> None:
    out = odt("train", MODEL, *DATA, "--epochs", 2, "--metric", "0", "--validation-split", 0.34)
    assert out.startswith(f"Model Filename {MODEL}\n== training parameter ==\n")
    assert "- batch_size           = 32\n" in out
    assert "- loss_info            = {loss = categorical crossentropy, " in out
    epoch = (
        r"Epoch 2/2 - time: \d+\.\d{3}ms/step - loss: \[0\] \d+\.\d{4} - "
        r"categorical_accuracy: \[0\] \d\.\d{4} - val_loss: \[0\] \d+\.\d{4} - "
        r"val_categorical_accuracy: \[0\] \d\.\d{4}\n"
    )
    assert re.search(epoch, out)
    for line in ("MODEL_LOAD   takes", "PREPARE      takes", "EXECUTE      takes"):
        assert line in out
    in_ones_spelling = odt("train", MODEL, *DATA, "--epoch", 2)
    assert re.search(r"- Epoch 2      takes \d+\.\d{4} ms", in_ones_spelling)


def test_memory_is_polled_on_request() -> None:
    out = odt("train", MODEL, *DATA, "--epochs", 1, "--mem-poll")
    for table in ("RSS\n", "HWM\n", "PSS\n"):
        assert f"{table}- MODEL_LOAD   takes " in out


def test_training_on_from_an_export_is_training_through(tmp_path: Path) -> None:
    """With SGD, which has no state to lose."""
    sgd = ("--optimizer", "sgd", "--learning-rate", 0.01, "--no-shuffle")
    through, half, rest = (tmp_path / f"{n}.circle" for n in ("through", "half", "rest"))
    odt("train", MODEL, *DATA, *sgd, "--epochs", 4, "--export-circle", through)
    odt("train", MODEL, *DATA, *sgd, "--epochs", 2, "--export-circle", half)
    odt("train", half, *DATA, *sgd, "--epochs", 2, "--export-circle", rest)
    assert through.read_bytes() == rest.read_bytes()
    assert through.read_bytes() != half.read_bytes()


def test_exports_differ_from_the_model_in_what_was_trained_only(tmp_path: Path) -> None:
    out = tmp_path / "out.circle"
    odt("train", MODEL, *DATA, "--num-of-trainable-ops", 2, "--export-circle", out)
    before, after = weights(MODEL), weights(out)
    changed = [name for name in before if not np.array_equal(before[name], after[name])]
    assert len(changed) == 2  # weight and bias of the last FULLY_CONNECTED, before the SOFTMAX
    assert len(out.read_bytes()) == len(MODEL.read_bytes())


def test_a_model_can_be_exported_over_itself(tmp_path: Path) -> None:
    path = tmp_path / "m.circle"
    path.write_bytes(MODEL.read_bytes())
    odt("train", path, *DATA, "--epochs", 1, "--export-circle", path)
    assert path.read_bytes() != MODEL.read_bytes()
    assert weights(path).keys() == weights(MODEL).keys()


def test_sparse_labels_train_as_one_hot_rows_do(tmp_path: Path) -> None:
    np.fromfile(T, "<f4").reshape(-1, 10).argmax(1).astype("<i4").tofile(tmp_path / "t.bin")
    labels = ["--load-input", str(X), "--load-expected", str(tmp_path / "t.bin")]
    sparse = (
        "--loss",
        "sparse-categorical-crossentropy",
        "--metric",
        "sparse-categorical-accuracy",
    )
    one, other = tmp_path / "one.circle", tmp_path / "other.circle"
    odt("train", MODEL, *DATA, "--epochs", 1, "--export-circle", one)
    odt("train", MODEL, *labels, *sparse, "--epochs", 1, "--export-circle", other)
    for name, w in weights(one).items():
        np.testing.assert_allclose(weights(other)[name], w, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("words", [("train",), ("eval", *DATA)])
def test_a_metric_for_other_targets_is_refused_before_anything_else(words: Sequence[str]) -> None:
    command, *data = map(str, words)
    options = [*data, "--metric", "sparse-categorical-accuracy"]
    done = CliRunner().invoke(main, [command, str(MODEL), *options])
    assert done.exit_code == 1
    assert "Give one of categorical-accuracy, " in done.stderr
    assert "Epoch" not in done.stdout


def test_accuracy_of_values_that_are_no_classes_is_refused(tmp_path: Path) -> None:
    model = MODELS / "tflm-hello-world-sine-float.tflite"
    np.save(tmp_path / "x.npy", np.ones((64, 1), np.float32))
    np.save(tmp_path / "t.npy", np.full((64, 1), 3.7, np.float32))
    data = ["--load-input", str(tmp_path / "x.npy"), "--load-expected", str(tmp_path / "t.npy")]
    options = ["--loss", "mean-squared-error", "--metric", "accuracy", "--workers", "2"]
    done = CliRunner().invoke(main, ["train", str(model), *data, *options])
    assert done.exit_code == 1
    assert "targets must be 0 or 1, but got 3.7." in done.stderr


def test_shuffling_changes_the_order_and_a_seed_repeats_it(tmp_path: Path) -> None:
    files = [tmp_path / f"{k}.circle" for k in range(4)]
    for path, options in zip(
        files, (("--no-shuffle",), (), ("--shuffle",), ("--seed", 7)), strict=True
    ):
        odt("train", MODEL, *DATA, "--epochs", 1, *options, "--export-circle", path)
    plain, first, again, other = (p.read_bytes() for p in files)
    assert first == again
    assert len({plain, first, other}) == 3


def test_evaluation_counts_every_sample() -> None:
    x, t = np.fromfile(X, "<f4").reshape(SAMPLES, -1), np.fromfile(T, "<f4").reshape(SAMPLES, -1)
    out = odt("eval", MODEL, *DATA, "--metric", "categorical-accuracy", "--batch-size", 36)
    w = list(weights(MODEL).values())
    first, b1, second, b2 = sorted(w[::2], key=np.size)[::-1][0], w[1], *w[2:]
    z = np.maximum(x @ first.T + b1, 0) @ second.T + b2
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    loss = -np.sum(t * np.log(p)) / SAMPLES
    accuracy = np.mean(z.argmax(1) == t.argmax(1))
    assert out == f"96 samples - loss: [0] {loss:.4f} - categorical_accuracy: [0] {accuracy:.4f}\n"


def test_prediction_writes_an_array_and_prints_the_best(tmp_path: Path) -> None:
    path = tmp_path / "y.npy"
    out = odt("predict", MODEL, "--load-input", X, "--top", 2, "--output", path)
    y = np.load(path)
    assert y.shape == (SAMPLES, 10)
    np.testing.assert_allclose(y.sum(1), 1, rtol=1e-5)
    best = y[3].argsort()[::-1][:2]
    lines = out.splitlines()
    assert lines[3] == "3: " + ", ".join(f"{k} {y[3, k]:.4f}" for k in best)
    assert lines[10:] == [f"{SAMPLES - 10} more samples are in {path}"]
