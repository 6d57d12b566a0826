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
from odt.kernels.opdef import Array

RESNET = MODELS / "mlperf-tiny-resnet8-cifar10-int8.tflite"
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
    found = re.search(r"loss: \[0\] ([\d.]+) - categorical_accuracy: \[0\] ([\d.]+)", printed)
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
    fake = trainer.logs(trainer.build().evaluate(trainer.open(*held), range(13)))
    assert fake["loss"] != pytest.approx(found["loss"], rel=1e-5)
