"""The time of a run that `odt.plan` and `odt plan` foretell."""

import json
import re
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.paths import GOLDEN, MODELS

import odt
from odt.cli.main import main
from odt.kernels.rows.opdef import Array
from odt.training.run_time import Costs, RunSize, Tuning, about, measured_time, run_time

MNIST = GOLDEN / "mnist" / "model.circle"
LOSS: dict[str, Any] = {"loss": "categorical_crossentropy"}
COSTS = Costs(step=0.1, sample=0.01, frozen=0.0)


def samples(number: int) -> tuple[Array, Array]:
    x = np.random.default_rng(0).random((number, 28, 28, 1), np.float32)
    return x, np.eye(10, dtype=np.float32)[np.arange(number) % 10]


def time_of(size: RunSize, costs: Costs = COSTS, tuning: Tuning = Tuning.NOTHING) -> float:
    return run_time(size, costs, 10, opened=1.0, fine_tunes=tuning, basis="here").total


def test_a_run_is_the_sum_of_its_parts() -> None:
    """1 s of reading, epoch 0 on 100 + 50 samples, then 3 epochs of 10 steps and 50 samples."""
    parts = 1 + 150 * 0.01 + 3 * (10 * 0.1 + 50 * 0.01)
    assert time_of(RunSize(100, 50, 3, False)) == pytest.approx(parts, rel=0.01)
    assert time_of(RunSize(100, 50, 0, False)) == 1.0


def test_frozen_layers_are_computed_once() -> None:
    cached = COSTS._replace(frozen=0.2)
    for epochs in (1, 7):
        size = RunSize(100, 50, epochs, False)
        assert time_of(size, cached) - time_of(size) == pytest.approx(150 * 0.2)


def test_a_default_rate_takes_steps_before_the_first_epoch() -> None:
    """16 steps, and the loss of 50 probes before and three times during them."""
    size = RunSize(100, 0, 4, False)
    more = time_of(size, tuning=Tuning.CHOOSES) - time_of(size)
    assert more == pytest.approx(16 * 0.1 + 4 * 50 * 0.01)
    judged = time_of(size, tuning=Tuning.JUDGES) - time_of(size)
    assert judged == pytest.approx(4 * 100 * 0.01)  # the training samples after each epoch
    validated = RunSize(100, 50, 4, False)
    assert time_of(validated, tuning=Tuning.JUDGES) == time_of(validated)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0004, "0.40 ms"), (0.026, "26 ms"), (0.416, "0.42 s"), (1.94, "1.9 s"), (40.2, "40 s"),
     (725, "12 min"), (9000, "2.5 h")],
)  # fmt: skip
def test_times_have_two_digits(seconds: float, text: str) -> None:
    assert about(seconds) == text


def test_the_line_says_what_takes_the_time() -> None:
    run = run_time(
        RunSize(100, 0, 20, True),
        Costs(step=0.19, sample=0.0, frozen=0.03),
        10,
        opened=0.0,
        fine_tunes=Tuning.NOTHING,
        basis="measured here",
    )
    assert str(run) == (
        "Takes at most about 41 s: the first epoch 4.9 s, then 19 epochs of 1.9 s, measured here."
    )


def test_a_measurement_ends_after_two_seconds() -> None:
    """The clock advances by 50 ms each time that it is read: once a step, twice a batch."""
    clock = count(0.0, 0.05).__next__
    options = {**LOSS, "batch_size": 8, "learning_rate": 0.001}
    with odt.Trainer(MNIST, **options) as trainer:
        before = {name: a.copy() for name, a in trainer.weights.items()}
        run = measured_time(trainer, None, RunSize(8000, 800, 2, False), 0.0, clock)
        assert all(np.array_equal(a, before[name]) for name, a in trainer.weights.items())
    assert run.step == pytest.approx(0.05)
    assert run.epoch == pytest.approx(1000 * 0.05 + 800 / 8 * 0.05, rel=0.01)
    assert clock() < 2.5
    options |= {"trainable": odt.last(1), "cache_frozen": "ram"}
    clock = count(0.0, 0.05).__next__
    with odt.Trainer(MNIST, **options) as trainer:  # reading the cache takes all of the time
        measured_time(trainer, None, RunSize(8000, 0, 2, False), 0.0, clock)
    assert clock() < 2.5


def test_samples_give_a_time_and_no_samples_none() -> None:
    x, y = samples(96)
    options = {**LOSS, "batch_size": 16}
    assert odt.plan(MNIST, **options).time is None
    known = odt.plan(MNIST, x, y, epochs=3, validation_split=0.25, patience=2, **options).time
    guessed = odt.plan(MNIST, data_length=96, epochs=3, **options).time
    assert known is not None
    assert guessed is not None
    assert known.at_most
    assert not guessed.at_most
    assert known.epochs == guessed.epochs == 3
    assert 0 < known.step < known.epoch < known.total
    cached = odt.plan(
        MNIST, x, y, epochs=3, trainable=odt.last(1), cache_frozen="ram", **options
    ).time
    assert cached is not None
    assert cached.first_epoch > 1.5 * cached.epoch


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"y": 1}, "`y=`: must be given with `x=`"),
        ({"x": 1, "target": "generic"}, "`x=`: must be left out with `target=`"),
        ({"data_length": 0}, "`data_length=`"),
        ({"epochs": -1}, "`epochs=`"),
    ],
)
def test_what_cannot_be_planned_is_refused(values: dict[str, int], message: str) -> None:
    x, y = samples(16)
    given = {"x": x, "y": y}
    arguments: dict[str, Any] = {name: given.get(name, value) for name, value in values.items()}
    with pytest.raises(odt.OptionError, match=message):
        odt.plan(MNIST, **LOSS, **arguments)
    with pytest.raises(odt.OptionError, match="must be at most 16"):
        odt.plan(MNIST, x, y, data_length=17, **LOSS)


def test_the_command_ends_with_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The time of the run includes the imports of the command; this process has run other tests.
    monkeypatch.setattr("time.thread_time", lambda: 0.1)
    x, y = samples(64)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    model = ("plan", str(MODELS / "mlperf-tiny-resnet8-cifar10.tflite"))
    result = CliRunner().invoke(main, [*model, "--memory-budget", "4GB", "--data-length", "40"])
    assert result.exit_code == 0, result.output
    last = result.stdout.splitlines()[-1]
    assert re.fullmatch(
        r"Fits: peak about \d+ MB of 4\.0 GB\. Takes about [\d.]+ m?s: 5 epochs of [\d.]+ m?s, "
        r"measured here\.",
        last,
    )
    data = ("--load-input", str(tmp_path / "x.npy"), "--load-expected", str(tmp_path / "y.npy"))
    words = ["plan", str(MNIST), "--loss", "categorical-crossentropy", *data, "--json"]
    numbers = json.loads(CliRunner().invoke(main, words).stdout)
    assert numbers["limit"] is None
    assert numbers["process"] > numbers["peak"] > numbers["arenas"] > 0
    run = numbers["time"]
    assert run["basis"] == "measured here"
    assert run["total"] == pytest.approx(
        run["start"] + run["first_epoch"] + (run["epochs"] - 1) * run["epoch"]
    )
