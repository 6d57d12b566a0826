"""`Trainer.evaluate` and `Trainer.predict` compute what the exported quantized file computes."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.paths import MODELS

import odt
from odt.cli.main import main
from odt.kernels.rows.opdef import Array
from odt.training.integer_form import IntegerForm

RESNET = MODELS / "mlperf-tiny-resnet8-cifar10-int8.tflite"
FLOAT = MODELS / "mlperf-tiny-resnet8-cifar10.tflite"
RNG = np.random.default_rng(1)
X = RNG.integers(-128, 128, (24, 32, 32, 3)).astype(np.int8)
Y = np.eye(10, dtype=np.float32)[RNG.integers(0, 10, 24)]


def run(*arguments: object) -> str:
    done = CliRunner().invoke(main, [*map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output


def predicted(path: Path, x: Array, folder: Path, *options: object) -> Array:
    """What `odt predict` computes from a file."""
    np.save(folder / "x.npy", x)
    out = folder / "out.npy"
    run("predict", path, "--load-input", folder / "x.npy", "--output", out, *options)
    y: Array = np.load(out)
    return y


@pytest.mark.parametrize(
    "options",
    [{}, {"quant_ranges": "follow"}, {"qas": True, "optimizer": "sgd"}, {"ema": 0.9}],
    ids=str,
)
def test_results_are_those_of_the_exported_file(options: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "out.tflite"
    common: dict[str, Any] = {"batch_size": 8, "metrics": "accuracy", "trainable": odt.last(6)}
    trainer = odt.Trainer(RESNET, learning_rate=1e-3, **common, **options)
    trainer.fit(X, Y, epochs=2, seed=1)
    trainer.export(out)
    y = predicted(out, X, tmp_path)
    np.testing.assert_array_equal(trainer.predict(X), y)
    assert np.abs(y - predicted(RESNET, X, tmp_path)).max() > 0.003
    logs = trainer.evaluate(X, Y)
    np.save(tmp_path / "y.npy", Y)
    data = ("--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "y.npy")
    printed = run("eval", out, *data, "--metric", "accuracy")
    found = re.search(r"loss: \[0\] ([\d.]+) - accuracy: \[0\] ([\d.]+)", printed)
    assert found is not None, printed
    wanted = [logs["loss"], logs["accuracy"]]
    np.testing.assert_allclose([float(v) for v in found.groups()], wanted, atol=1e-4)


def test_batches_and_weights_give_the_result_of_arrays() -> None:
    trainer = odt.Trainer(RESNET, batch_size=8, metrics="accuracy", trainable=odt.last(3))
    weights = RNG.uniform(0.5, 2, 24).astype(np.float32)
    whole = trainer.evaluate(X, Y, weights)
    parts = [slice(k, k + 8) for k in range(0, 24, 8)]
    batches = trainer.evaluate([(X[k], Y[k], weights[k]) for k in parts])
    assert batches == pytest.approx(whole, rel=1e-6)
    bare = trainer.evaluate([(X[k], Y[k]) for k in parts])
    assert bare == pytest.approx(trainer.evaluate(X, Y), rel=1e-6)
    assert abs(bare["loss"] - whole["loss"]) > 1e-3


def test_time_steps_are_those_of_the_exported_file(tmp_path: Path) -> None:
    speech, out = np.load(MODELS / "okay-nabu-speech.npz"), tmp_path / "out.tflite"
    x, y = speech["x"], speech["y"]
    model = odt.load_model(MODELS / "okay-nabu-int8.tflite", sequence_length=x.shape[1])
    trainer = odt.Trainer(model, batch_size=8, learning_rate=1e-3)
    trainer.fit(x, y, epochs=1, seed=1)
    trainer.export(out)
    steps = ("--sequence-length", x.shape[1])
    np.testing.assert_array_equal(trainer.predict(x), predicted(out, x, tmp_path, *steps))


@pytest.mark.parametrize("options", [{}, {"ema": 0.9}, {"keep_best": True}], ids=str)
def test_validation_computes_what_evaluate_computes(options: dict[str, Any]) -> None:
    """And the integers of a cut batch; only a cache of the frozen part keeps fake quantization."""
    common: dict[str, Any] = {"batch_size": 8, "metrics": "accuracy", "trainable": odt.last(4)}
    trainer = odt.Trainer(RESNET, learning_rate=1e-3, **common, **options)
    held = X[:13], Y[:13]
    history = trainer.fit(X, Y, validation_data=held, epochs=3, seed=1).history
    last = int(np.argmin(history["val_loss"])) if "keep_best" in options else -1
    found = trainer.evaluate(*held)
    assert found["loss"] == pytest.approx(history["val_loss"][last], rel=1e-5)
    fake = trainer.session.logs(
        trainer.session.build().evaluate(trainer.session.open(*held), range(13))
    )
    assert fake["loss"] != pytest.approx(found["loss"], rel=1e-5)


def test_a_batch_a_report_and_each_sample_give_the_result_of_evaluate() -> None:
    trainer = odt.Trainer(RESNET, batch_size=24, metrics="accuracy", trainable=odt.last(4))
    trainer.fit(X, Y, epochs=1, seed=1)
    found = trainer.evaluate(X, Y)
    assert trainer.test_on_batch(X, Y) == pytest.approx(found, rel=1e-6)
    report = odt.classification_report(trainer, X, Y)
    assert report.confusion_matrix is not None
    assert np.trace(report.confusion_matrix) / 24 == pytest.approx(found["accuracy"])
    assert odt.sample_losses(trainer, X, Y).mean() == pytest.approx(found["loss"], rel=1e-6)


def test_a_client_of_a_federation_evaluates_in_integers() -> None:
    trainer = odt.Trainer(RESNET, batch_size=8, trainable=odt.last(4))
    client = odt.federated.Client(trainer, X, Y)
    tensors = {n: a * 1.5 for n, a in odt.federated.tensors_of(trainer).items()}
    found = client.evaluate(tensors)
    assert found["loss"] == pytest.approx(trainer.evaluate(X, Y)["loss"], rel=1e-6)


def test_quantized_models_have_a_moving_average_by_default() -> None:
    def floats(**options: Any) -> int:
        plan = odt.plan(RESNET, optimizer="sgd", **options)
        return plan.optimizer // 4

    with odt.Trainer(RESNET, optimizer="sgd") as trainer:
        core = trainer.session.build()
        values = sum(a.size for a in core.weights().values())
        assert core.memory().slots == 4 * values
    assert floats() == floats(ema=0.95) == values
    assert floats(ema=0) == floats(qas=True) == 0
    assert odt.plan(FLOAT, optimizer="sgd").optimizer == 0


def test_plans_are_kept_until_weights_change(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    plan = IntegerForm.__init__

    def counted(self: IntegerForm, *arguments: Any) -> None:
        made.append(self)
        plan(self, *arguments)

    monkeypatch.setattr(IntegerForm, "__init__", counted)
    trainer = odt.Trainer(RESNET, batch_size=8, learning_rate=1e-3, ema=0, trainable=odt.last(4))
    first = [trainer.evaluate(X, Y), trainer.evaluate(X, Y), trainer.test_on_batch(X[:8], Y[:8])]
    trainer.predict(X)
    assert len(made) == 1
    assert first[0] == first[1]
    trainer.train_on_batch(X[:8], Y[:8])
    assert trainer.evaluate(X, Y) != first[0]
    assert len(made) == 2
    name, values = next(iter(trainer.weights.items()))
    values[...] *= 1.3
    trainer.predict(X)
    assert len(made) == 3, name


@pytest.mark.usefixtures("training_alone")
def test_a_limited_budget_keeps_no_second_plan() -> None:
    trainer = odt.Trainer(RESNET, batch_size=8, trainable=odt.last(4), memory_budget="64MB")
    trainer.predict(X)
    assert trainer.evaluation._form is None
