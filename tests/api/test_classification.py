"""Figures of classes and losses of samples in Python, with NumPy as the judge."""

import warnings

import numpy as np
import pytest
from support.paths import MLP_SM

import odt

MODEL = MLP_SM / "model.circle"
RNG = np.random.default_rng(1)
X = RNG.normal(size=(50, 784)).astype(np.float32)
LABELS = RNG.integers(0, 10, 50)
Y = np.eye(10, dtype=np.float32)[LABELS]


@pytest.mark.parametrize("options", [{}, {"ema": 0.9}, {"micro_batch": 3, "workers": 2}])
def test_the_report_is_that_of_the_predictions(options: dict[str, float]) -> None:
    with odt.Trainer(MODEL, batch_size=16, metrics=["f1_score"], **options) as trainer:  # type: ignore[arg-type]
        trainer.fit(X, Y, epochs=2)
        report = odt.classification_report(trainer, X, Y, classes=list("abcdefghij"))
        best = trainer.predict(X).argmax(axis=1)
        expected = np.zeros((10, 10), int)
        for true, predicted in zip(LABELS, best, strict=True):
            expected[true, predicted] += 1
        np.testing.assert_array_equal(report.confusion_matrix, expected)
        occurs = (report.support > 0) | (report.predicted > 0)
        assert trainer.evaluate(X, Y)["f1_score"] == pytest.approx(report.f1_score[occurs].mean())
    assert str(report).splitlines()[1].split()[0] == "a"


@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "sum"])
def test_losses_of_samples_are_those_of_single_batches(reduction: str) -> None:
    weights = np.arange(50, dtype=np.float32) / 25
    with odt.Trainer(MODEL, batch_size=16, reduction=reduction) as trainer:
        losses = odt.sample_losses(trainer, X, Y)
        alone = [trainer.evaluate(X[k : k + 1], Y[k : k + 1])["loss"] for k in range(50)]
        np.testing.assert_allclose(losses, alone, 1e-5)
        np.testing.assert_allclose(odt.sample_losses(trainer, X, Y, weights), weights * alone, 1e-5)
        if reduction != "sum":
            assert trainer.evaluate(X, Y)["loss"] == pytest.approx(losses.mean(), rel=1e-5)


def test_a_report_needs_classes() -> None:
    with (
        odt.Trainer(MODEL, loss="mse") as trainer,
        pytest.raises(odt.DataError, match="y: targets must be classes"),
    ):
        odt.classification_report(trainer, X, Y / 2)


@pytest.mark.parametrize(
    ("count", "got"), [(3, "several labels a sample"), (4097, "4,097 classes")]
)
def test_a_report_without_a_matrix_says_why(count: int, got: str) -> None:
    names, zeros = tuple(map(str, range(count))), np.zeros(count)
    report = odt.ClassificationReport(names, zeros, zeros, zeros, zeros, zeros, None)
    with pytest.raises(odt.DataError, match=rf"one class each, of at most 4,096, but got {got}\."):
        report.confusion()


def test_classes_that_are_never_predicted_are_named() -> None:
    with odt.Trainer(MODEL) as trainer:
        for name, values in trainer.weights.items():
            trainer.weights[name] = np.zeros_like(values)
        report = odt.classification_report(trainer, X, Y)
    assert report.warning.startswith("9 of 10 classes are never predicted: 1 (")
    assert ", …. Training with `class_weight=" in report.warning


@pytest.mark.parametrize("monitor", ["val_f1", "val_f1_score", "f1"])
def test_metrics_are_monitored_by_any_of_their_names(monitor: str) -> None:
    options = {"keep_best": True, "monitor": monitor, "metrics": ["f1"]}
    with odt.Trainer(MODEL, batch_size=16, **options) as trainer:  # type: ignore[arg-type]
        history = trainer.fit(X, Y, epochs=3, validation_split=0.4).history
        values = history["val_f1" if monitor.startswith("val_") else "f1"]
        assert trainer.session.build().best.epoch == int(np.argmax(values)) + 1


def test_outputs_that_auc_keeps_count_as_memory() -> None:
    with odt.Trainer(MODEL, batch_size=16, metrics=["auc"]) as trainer:
        trainer.fit(X, Y, validation_split=0.2)
        memory = trainer.session.build().memory()
        assert memory.kept == 50 * (10 * 4 + 80)
    with odt.Trainer(MODEL, batch_size=16, metrics=["accuracy"]) as other:
        other.fit(X, Y, validation_split=0.2)
        assert other.session.build().memory().total == memory.total - memory.kept


def test_training_warns_of_classes_that_validation_never_sees_predicted() -> None:
    labels = np.repeat([0, 1], [42, 8])
    y = np.eye(10, dtype=np.float32)[labels]
    noise = 0 * X
    with (
        odt.Trainer(MODEL, optimizer=odt.SGD(0.1), batch_size=16) as trainer,
        pytest.warns(odt.OdtWarning, match=r"validation: 1 of 2 classes is never predicted: 1 \("),
    ):
        trainer.fit(noise, y, epochs=3, validation_split=0.4)
    assert not trainer.session.build().counts


def test_training_does_not_warn_where_every_class_is_predicted() -> None:
    x = np.repeat(np.eye(10, 784, dtype=np.float32), 5, axis=0) * 20
    y = np.eye(10, dtype=np.float32)[np.arange(50) // 5]
    with odt.Trainer(MODEL, optimizer=odt.SGD(0.5), batch_size=16) as trainer:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            trainer.fit(x, y, epochs=20, validation_split=0.2)
        assert not [w for w in seen if "never predicted" in str(w.message)]
        assert trainer.evaluate(x, y)["loss"] < 0.5
