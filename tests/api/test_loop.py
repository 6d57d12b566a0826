"""Options of the training loop, in Python and on the command line."""

from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.paths import MLP_SM

import odt
from odt.cli.main import main
from odt.cli.options.types import Duration
from odt.core.runtime.parameters import by_name

MODEL = MLP_SM / "model.circle"
RNG = np.random.default_rng(1)
X = RNG.normal(size=(90, 784)).astype(np.float32)
Y = np.eye(10, dtype=np.float32)[RNG.integers(0, 10, 90)]
BATCH = 16  # 6 steps an epoch; 5 without a fifth of the samples
FILES = ("--load-input", MLP_SM / "input.bin", "--load-expected", MLP_SM / "expected.bin")

PLATEAU = {"learning_rate": odt.ReduceOnPlateau(0.01, factor=0.5, patience=1, min_delta=10.0)}


class Rates(odt.Callback):
    """The learning rate of each step."""

    def __init__(self) -> None:
        self.rates: list[float] = []

    def on_train_batch_begin(self, batch: int, logs: odt.Logs) -> None:
        self.rates.append(self.trainer.learning_rate)


def trainer(**options: Any) -> odt.Trainer:
    return odt.Trainer(MODEL, **{"batch_size": BATCH, "metrics": ["accuracy"], **options})


def odt_train(*words: object, status: int = 0) -> Result:
    done = CliRunner().invoke(main, ["train", str(MODEL), *map(str, (*FILES, *words))])
    assert done.exit_code == status, done.output
    return done


def test_each_step_has_the_rate_of_the_schedule() -> None:
    rate, seen = odt.CosineDecay(0.02, warmup_steps=4), Rates()
    with trainer(optimizer=odt.SGD(rate)) as trained:
        trained.fit(X, Y, epochs=3, callbacks=[seen])
    known = odt.CosineDecay(0.02, 14, warmup_steps=4)
    assert seen.rates == [known(t) for t in range(18)]


def test_a_warmup_of_less_than_no_steps_is_refused_by_its_name() -> None:
    with pytest.raises(odt.OptionError, match=r"^`warmup=`: must be a whole number of at least 0"):
        trainer(warmup=-1)


def test_a_step_moves_the_weights_by_its_rate() -> None:
    """SGD: the first step of a warm-up of four goes a quarter as far."""
    moved = []
    for warmup in (0, 4):
        with trainer(optimizer="sgd", learning_rate=0.1, warmup=warmup) as trained:
            before = {n: a.copy() for n, a in trained.weights.items()}
            trained.train_on_batch(X[:BATCH], Y[:BATCH])
            moved.append({n: a - before[n] for n, a in trained.weights.items()})
    for n, a in moved[0].items():
        np.testing.assert_allclose(moved[1][n], a / 4, rtol=1e-3, atol=1e-7)


def test_a_reduced_rate_is_reported_and_stored(tmp_path: Path) -> None:
    with trainer(**PLATEAU) as trained:
        trained.fit(X, Y, epochs=3, validation_split=0.2, save_to=tmp_path / "state.odt")
        assert trained.learning_rate == pytest.approx(0.0025)
    with trainer(checkpoint=tmp_path / "state.odt") as resumed:
        assert resumed.learning_rate == pytest.approx(0.0025)


def test_a_rate_with_a_schedule_cannot_be_set() -> None:
    with (
        trainer(learning_rate=odt.ConstantRate(0.1)) as trained,
        pytest.raises(odt.OptionError, match="follows the schedule constant"),
    ):
        trained.learning_rate = 0.5


def test_a_rate_of_zero_changes_the_state_of_the_optimizer_only() -> None:
    with trainer(optimizer="adam") as trained:
        trained.learning_rate = 0
        before = {n: a.copy() for n, a in trained.weights.items()}
        trained.train_on_batch(X[:BATCH], Y[:BATCH])
        for n, a in trained.weights.items():
            np.testing.assert_array_equal(a, before[n])
        parameters = trained.session.build().parameters
        assert parameters.step == 1
        assert all(a.any() for a in parameters.slots["m"].values())
        bad: Any
        for bad in (-1, float("nan"), "a"):
            with pytest.raises(odt.OptionError, match="must be a number above 0"):
                trained.learning_rate = bad


def test_single_batches_need_the_steps_of_a_schedule() -> None:
    with trainer(learning_rate=odt.CosineDecay(0.1)) as trained:
        with pytest.raises(odt.OptionError, match="`decay_steps=`: must be given"):
            trained.train_on_batch(X[:BATCH], Y[:BATCH])
        assert trained.session.build().parameters.step == 0


def test_a_schedule_of_the_user_is_called_and_has_to_be_given_again(tmp_path: Path) -> None:
    class Falling(odt.Schedule):
        def rate(self, step: int) -> float:
            return self.peak / (step + 1)

    seen = Rates()
    with trainer(learning_rate=Falling(0.1)) as trained:
        trained.fit(X, Y, callbacks=[seen], save_to=tmp_path / "state.odt")
    assert seen.rates == pytest.approx([0.1 / k for k in range(1, 7)])
    with (
        trainer(checkpoint=tmp_path / "state.odt") as resumed,
        pytest.warns(odt.OdtWarning, match="schedule custom, now none;"),
    ):
        resumed.fit(X, Y, epochs=2)


def test_the_command_line_takes_a_schedule_and_tells_it(tmp_path: Path) -> None:
    out = odt_train(
        "--epochs", 2, "--schedule", "one-cycle:pct-start=0.5", "--warmup", 1,
        "--export-checkpoint", tmp_path / "state.odt",
    ).stdout  # fmt: skip
    assert "\nlearning rate: one-cycle:warmup-steps=1,pct-start=0.5, over 6 steps\n" in out
    out = odt_train("--epochs", 3, "--checkpoint", tmp_path / "state.odt").output
    assert "\nlearning rate: one-cycle:warmup-steps=1,pct-start=0.5, over 9 steps\n" in out
    assert "schedule steps 6, now 9" in out


@pytest.mark.parametrize(
    ("words", "message", "status"),
    [
        (("--schedule", "cosin"), "'--schedule': must be one of constant, step", 2),
        (("--schedule", "plateau"), "--schedule plateau: must come with --validation-split", 1),
        (("--monitor", "loss"), "--monitor: must come with --keep-best or --patience or", 1),
        (
            ("--patience", 2, "--monitor", "val_accuracy", "--validation-split", 0.3),
            "--monitor: must be one of val_loss, loss, but got val_accuracy",
            1,
        ),
    ],
)
def test_impossible_calls_are_refused(words: tuple[object, ...], message: str, status: int) -> None:
    assert message in odt_train(*words, status=status).stderr


@pytest.mark.parametrize("options", [{"keep_best": True}, PLATEAU])
def test_a_value_of_validation_needs_validation_data(options: dict[str, Any]) -> None:
    with (
        trainer(**options) as trained,
        pytest.raises(odt.OptionError, match=r"^`monitor=`: val_loss needs `validation_split=` or"),
    ):
        trained.fit(X, Y)


@pytest.mark.parametrize("samples", [90, 83, 65])
def test_accumulated_batches_are_one_large_batch(samples: int) -> None:
    """Also where the last step, or its last batch, is not full."""
    found = []
    for options in ({"batch_size": 16}, {"batch_size": 4, "accumulate": 4}):
        with trainer(**options, optimizer="sgd", learning_rate=0.1) as trained:
            history = trained.fit(X[:samples], Y[:samples], epochs=2, seed=1)
            assert trained.session.build().parameters.step == 2 * -(-samples // 16)
            found.append((history.history, {n: a.copy() for n, a in trained.weights.items()}))
    (values_of_large, weights), (accumulated, others) = found
    for name, values in values_of_large.items():
        assert accumulated[name] == pytest.approx(values, rel=1e-5)
    for name, a in weights.items():
        np.testing.assert_allclose(others[name], a, rtol=1e-4, atol=1e-6)


def test_training_ends_after_its_steps_or_time() -> None:
    with trainer() as trained:
        history = trained.fit(X, Y, epochs=9, max_steps=8, validation_data=(X[:32], Y[:32]))
        assert trained.session.build().parameters.step == 8
        assert len(history.history["val_loss"]) == 2
        trained.fit(X, Y, epochs=9, max_steps=8)
        assert trained.session.build().parameters.step == 8
    with trainer() as trained:
        trained.fit(X, Y, epochs=10**6, max_time=0.05)
        assert trained.session.build().parameters.step > 0
    with trainer(learning_rate=odt.PolynomialDecay(0.1)) as trained:
        trained.fit(X, Y, epochs=9, max_steps=8)
        assert trained.learning_rate == 0


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5s", 1.5), ("2m", 120), ("1h30m", 5400), ("1h1s", 3601)]
)
def test_times_are_seconds_or_have_units(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "0", "h", "1d", "-5", "1s1h"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="must be a time above 0 such as 90s"):
        Duration().convert(text, None, None)


def test_the_command_line_takes_rates_and_limits() -> None:
    words = ("--epochs", 9, "--max-time", "1h", "--max-steps", 4)
    out = odt_train(*words, "--learning-rate-of", "FULLY_CONNECTED=0.5").stdout
    assert out.count("\nEpoch ") - out.count("\nEpoch 0") == 2  # three steps an epoch
    error = odt_train("--learning-rate-of", "FULL=0.5", status=1).stderr
    assert "--learning-rate-of: must match the name or the operator of a weight" in error
    assert "must be GLOB=FACTOR" in odt_train("--learning-rate-of", "*=-1", status=2).stderr


class Average(odt.Callback):
    """The moving average of one weight, by its formula in float64."""

    def on_train_begin(self, logs: odt.Logs) -> None:
        self.name = next(iter(self.trainer.weights))
        self.value, self.step = np.zeros(self.trainer.weights[self.name].shape), 0

    def on_train_batch_end(self, batch: int, logs: odt.Logs) -> None:
        self.step += 1
        decay = min(0.9, (self.step - 1) / (self.step + 19))
        self.value = decay * self.value + (1 - decay) * self.trainer.weights[self.name]


def test_the_moving_average_is_validated_and_exported(tmp_path: Path) -> None:
    average = Average()
    with trainer(ema=0.9, keep_best=False) as trained:
        history = trained.fit(X, Y, epochs=3, validation_data=(X, Y), callbacks=[average])
        losses = trained.evaluate(X, Y)["loss"], history.history["val_loss"][-1]
        np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)
        assert np.abs(trained.weights[average.name] - average.value).max() > 1e-4
        batch = [f(X[:BATCH], Y[:BATCH])["loss"] for f in (trained.evaluate, trained.test_on_batch)]
        assert batch[0] == pytest.approx(batch[1], rel=1e-6)
        outputs = trained.predict(X)
        trained.export(tmp_path / "average.circle")
    with odt.Trainer(tmp_path / "average.circle", batch_size=BATCH) as exported:
        np.testing.assert_allclose(
            exported.weights[average.name], average.value, rtol=1e-4, atol=1e-6
        )
        np.testing.assert_allclose(exported.predict(X), outputs, rtol=1e-5, atol=1e-7)
        assert exported.evaluate(X, Y)["loss"] == pytest.approx(losses[0], rel=1e-5)


def test_the_moving_average_begins_with_the_first_step() -> None:
    with trainer(ema=0.9) as trained:
        name, values = next(iter(trained.weights.items()))
        before = trained.predict(X)
        values[...] = 0
        assert np.abs(trained.predict(X) - before).max() > 1e-3
        trained.fit(X[:BATCH], Y[:BATCH], epochs=1)
        named = by_name(trained.session.build().graph, trained.session.build().weights())
        np.testing.assert_allclose(named[name], trained.weights[name], atol=1e-6)


def test_weights_set_by_name_are_those_of_the_average() -> None:
    with trainer(ema=0.9) as trained:
        trained.fit(X, Y, epochs=1)
        name, values = next(iter(trained.weights.items()))
        with pytest.raises(ValueError, match="read-only"):
            values += 1  # would not change the average
        trained.weights[name] = values + 1
        named = by_name(trained.session.build().graph, trained.session.build().weights())
        np.testing.assert_array_equal(named[name], trained.weights[name])


def test_the_best_average_is_exported(tmp_path: Path) -> None:
    with trainer(ema=0.5, keep_best=True, learning_rate=0.03) as trained:
        history = trained.fit(X, Y, epochs=5, validation_data=(X[:40], Y[:40]))
        trained.export(tmp_path / "best.circle")
    with odt.Trainer(tmp_path / "best.circle", batch_size=BATCH) as exported:
        loss = exported.evaluate(X[:40], Y[:40])["loss"]
        assert loss == pytest.approx(min(history.history["val_loss"]), rel=1e-4)


def test_a_moving_average_is_planned_and_begins_at_a_checkpoint_without_one(tmp_path: Path) -> None:
    plain, kept = (odt.plan(MODEL, ema=ema) for ema in (0.0, 0.9))
    assert kept.optimizer - plain.optimizer == kept.parameters
    with trainer() as trained:
        assert trained.session.build().memory().slots == plain.optimizer
        trained.fit(X, Y, save_to=tmp_path / "state.odt")
        loss = trained.evaluate(X, Y)["loss"]
    with trainer(ema=0.9, checkpoint=tmp_path / "state.odt") as resumed:
        assert resumed.session.build().memory().slots == kept.optimizer
        assert resumed.evaluate(X, Y)["loss"] == pytest.approx(loss, rel=1e-6)


def test_gradients_that_are_kept_are_planned() -> None:
    plain, kept = (odt.plan(MODEL, batch_size=16, workers=1, clip_norm=n) for n in (0.0, 1.0))
    assert (plain.gradients, kept.gradients) == (0, kept.parameters)
    with trainer(clip_norm=1.0, workers=1) as trained:
        assert trained.session.build().memory().gradients == kept.gradients


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clip_norm": 1.0, "clip_value": 1.0}, "must not be given together"),
        ({"clip_norm": float("nan")}, "`clip_norm=`: must be a number above 0"),
        ({"ema": 1.0}, "`ema=`: must be 0 for none, or a number below 1, but got 1"),
        ({"accumulate": 0}, "`accumulate=`: must be a whole number of at least 1, but got 0"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(odt.OptionError, match=message):
        trainer(**options)


def test_the_best_epoch_is_that_of_the_monitored_value() -> None:
    with trainer(keep_best=True, monitor="val_accuracy", learning_rate=0.02) as trained:
        history = trained.fit(X, Y, epochs=6, validation_data=(X[:40], Y[:40]), seed=2)
        best = int(np.argmax(history.history["val_accuracy"]))
        assert trained.session.build().best.epoch == best + 1
        assert trained.evaluate(X[:40], Y[:40])["accuracy"] == max(history.history["val_accuracy"])
