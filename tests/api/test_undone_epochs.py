"""With the default learning rate, an epoch after which the model is worse is undone."""

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from measure_default_rates import rate_of
from support.paths import MLP_SM

import odt
from odt.cli.main import main
from odt.core.checkpoints import checkpoint
from odt.core.checkpoints.progress import Progress
from odt.core.formats.reader import read_model
from odt.core.runtime.parameters import Parameters
from odt.core.training.undo import Undo, worst

MODEL = MLP_SM / "model.circle"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 784)).astype(np.float32)
Y = np.eye(10, dtype=np.float32)[RNG.integers(0, 10, 160)]
LARGE = X * np.float32(1000)  # with which the default rate of SGD diverges
STEPS = 8  # of an epoch: 120 samples train in batches of 16


def trainer(**options: Any) -> odt.Trainer:
    given: dict[str, Any] = {"optimizer": "sgd", "hyper_parameters": {"momentum": 0.9}}
    return odt.Trainer(MODEL, **({"batch_size": 16} | given | options))


def state(trained: odt.Trainer) -> list[bytes]:
    """All bytes that a step changes, the learning rate and the number of updates."""
    core = trained.session.build()
    found = checkpoint.capture(core.graph, core.parameters, Progress())
    arrays = [a.tobytes() for a in found.arrays]
    return [*arrays, repr((found.hyper_parameters, found.progress.step)).encode()]


def fit(trained: odt.Trainer, x: Any = LARGE, **options: Any) -> tuple[odt.History, list[str]]:
    """Trains; returns the history and the warnings about epochs that were undone."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        history = trained.fit(x, Y, **({"validation_split": 0.25} | options))
    return history, [str(w.message) for w in seen if "undone" in str(w.message)]


@pytest.mark.parametrize(
    ("loss", "spread", "most"), [(2.0, 0.5, 2.5), (2.0, np.nan, 3.0), (-2.0, np.nan, -1.0)]
)
def test_the_largest_loss_is_that_before_and_its_spread_or_half(
    loss: float, spread: float, most: float
) -> None:
    assert worst(loss, spread) == most


def test_an_epoch_without_validation_is_judged_by_the_mean_loss_of_its_samples() -> None:
    one, resumed = (Undo(Parameters(read_model(MODEL).graph)) for _ in range(2))
    one.running, one.loss, one.worst = True, 1.0, 2.0
    one.keep()
    one.see(9.0, 30)
    one.keep()  # the next epoch
    one.see(1.0, 30)
    assert one.state
    resumed.set_state(one.state)
    for undo in (one, resumed):
        undo.see(5.0, 10)
        assert not undo.is_worse(None)
        assert undo.after == 2.0
        undo.see(2.1, 1)
        assert undo.is_worse(None)


class KilledError(Exception):
    pass


class Kill(odt.Callback):
    """Ends training as a kill does, after a step of an epoch."""

    def __init__(self, epoch: int, step: int) -> None:
        self._at, self._epoch = (epoch, step), 0

    def on_epoch_begin(self, epoch: int, logs: odt.Logs) -> None:
        self._epoch = epoch + 1

    def on_train_batch_end(self, batch: int, logs: odt.Logs) -> None:
        if (self._epoch, batch + 1) == self._at:
            raise KilledError


@pytest.mark.parametrize("split", [0.0, 0.25])
def test_weights_and_optimizer_return_to_the_state_before(split: float) -> None:
    with trainer() as one:
        before = state(one)
        history, undone = fit(one, validation_split=split)
        assert len(undone) == 1
        assert state(one)[:-1] == before[:-1]
        assert one.session.build().parameters.step == 0
        assert one.learning_rate == 0.001 / 10
        name = "val_loss" if split else "loss"
        assert history.history[name][0] > 10 * history.start[name]


def test_the_line_names_losses_and_rates() -> None:
    with trainer() as one:
        _, (line,) = fit(one)
    assert line.startswith("Warning: epoch 1 is undone: the loss ")
    assert "the loss before training, by more than its spread over batches" in line
    assert "The learning rate is 0.0001 from now on, not 0.001; `learning_rate=` sets" in line
    assert rate_of(f"- learning_rate        = 0.001 or lower\n{line}") == "0.001"
    assert rate_of(f"The learning rate is 3e-05, not 0.001; …\n{line}") == "3e-05"


def test_training_goes_on_with_lower_rates() -> None:
    with trainer() as one:
        history, undone = fit(one, epochs=6)
    assert 1 < len(undone) < 6
    assert history.history["val_loss"][-1] < history.start["val_loss"]


def test_training_without_the_undone_epochs_has_the_same_bits() -> None:
    """Epochs after an undone one begin with the weights before it."""
    with trainer(hyper_parameters={}) as one, trainer(hyper_parameters={}) as other:
        _, undone = fit(one, epochs=2, shuffle=False, validation_split=0)
        assert len(undone) == 1
        assert one.learning_rate == 0.001 / 10
        other.learning_rate = 0.001 / 10
        fit(other, epochs=1, shuffle=False, validation_split=0)
        assert state(one)[:-1] == state(other)[:-1]


@pytest.mark.parametrize(
    "given",
    [
        {"learning_rate": 0.001},
        {"optimizer": odt.SGD(0.001, momentum=0.9), "hyper_parameters": None},
        {"learning_rate": odt.CosineDecay(0.001, 100)},
    ],
)
def test_a_given_rate_gets_a_warning_alone(given: dict[str, Any]) -> None:
    with trainer(**given) as one, warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        before = state(one)
        one.fit(LARGE, Y, epochs=1, validation_split=0.25)
        assert state(one)[0] != before[0]
        assert one.session.build().parameters.step == STEPS
    texts = [str(w.message) for w in seen]
    assert not [t for t in texts if "undone" in t]
    (line,) = [t for t in texts if "is above" in t]
    assert line.endswith("Give a smaller `learning_rate=` than 0.001; `find_rate=` suggests one.")
    assert not [t for t in texts if "class_weight" in t]  # classes of a diverged run say nothing


def test_a_rate_that_is_set_is_kept() -> None:
    with trainer() as one:
        one.learning_rate = 0.001
        _, undone = fit(one)
        assert not undone
        assert one.learning_rate == 0.001
    with trainer() as one:
        _, undone = fit(one, fine_tune=False)
        assert not undone


@pytest.mark.parametrize("split", [0.0, 0.25])
@pytest.mark.parametrize(("epoch", "step"), [(1, 3), (2, 5), (3, 1), (3, 8)])
def test_a_resumed_run_has_the_same_bits(
    split: float, epoch: int, step: int, tmp_path: Path
) -> None:
    """The state before the epoch is in a checkpoint that is written in the middle of it."""
    options: dict[str, Any] = {"epochs": 5, "validation_split": split, "seed": 3}
    with trainer() as whole:
        history, undone = fit(whole, **options)
        assert undone
    with trainer() as first, pytest.raises(KilledError):
        fit(first, **options, save_to=tmp_path / "c.odt", save_every=1, callbacks=Kill(epoch, step))
    with trainer(hyper_parameters=None, optimizer=None, checkpoint=tmp_path / "c.odt") as second:
        rest, _ = fit(second, **{**options, "seed": None})
        assert state(second) == state(whole)
        loss = "val_loss" if split else "loss"
        assert rest.history[loss][1:] == history.history[loss][-len(rest.history[loss]) :][1:]


@pytest.mark.parametrize("writable", [False, True])
def test_a_large_state_is_copied_to_a_file(
    writable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the folder of temporary files has no room, the copy is in memory."""
    options: dict[str, Any] = {"epochs": 3, "seed": 3}
    with trainer() as whole:
        fit(whole, **options)
    opened = []
    make = tempfile.TemporaryFile

    def watched(**given: Any) -> Any:
        if not writable:
            raise OSError("no room")
        opened.append(make(**given))
        return opened[-1]

    monkeypatch.setattr("odt.core.training.snapshot.SMALL", 1000)
    monkeypatch.setattr("tempfile.TemporaryFile", watched)
    with trainer() as first, pytest.raises(KilledError):
        fit(first, **options, save_to=tmp_path / "c.odt", save_every=1, callbacks=Kill(2, 5))
    with trainer(checkpoint=tmp_path / "c.odt") as second:
        fit(second, epochs=3)
        assert state(second) == state(whole)
    assert bool(opened) == writable


def test_a_loss_that_is_not_finite_undoes_the_epoch() -> None:
    with trainer(hyper_parameters={}) as one:
        before = state(one)
        history, (line,) = fit(one, X * np.float32(1e20), validation_split=0)
        assert "epoch 1 is undone: its loss is not finite" in line
        assert state(one)[:-1] == before[:-1]
        assert len(history.epoch) == 1
        _, undone = fit(one, X * np.float32(1e20), epochs=4, validation_split=0)
        assert len(undone) == 4


def test_data_whose_loss_is_not_finite_end_training() -> None:
    """A lower rate would not help. At most 256 samples are read before the first step."""
    x = np.concatenate([X, X, X])
    x[1] = 3e38  # 480 samples: this one, whose products overflow, is not among them
    with trainer() as one, pytest.raises(odt.TrainingError, match="must be finite"):
        one.fit(x, np.concatenate([Y, Y, Y]), epochs=3)


def test_the_best_epoch_is_none_that_was_undone() -> None:
    with trainer(keep_best=True) as one:
        before = state(one)
        _, undone = fit(one, epochs=1, patience=3)
        assert undone
        assert one.session.build().best.epoch == 0
        assert state(one)[:-1] == before[:-1]
    with trainer() as one:
        history, undone = fit(one, epochs=6, patience=1)
        assert len(history.epoch) == 1  # an undone epoch is one without an improvement


def test_quantized_weights_return_too(tmp_path: Path) -> None:
    quantized = odt.quantize(MODEL, X).model
    for options in ({"quant_ranges": "follow"}, {"qas": True}):
        given: dict[str, Any] = {"optimizer": "sgd", "batch_size": 16, **options}
        with odt.Trainer(quantized, **given) as one:
            before = state(one)
            core = one.session.build()
            one.fit(X, Y, epochs=1, max_steps=1)
            assert core.undo is not None
            assert state(one) != before
            core.undo.before.restore()
            assert state(one) == before


def test_the_command_prints_the_same_line_and_resumes(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", LARGE)
    np.save(tmp_path / "y.npy", Y)
    words = ["train", MODEL, "--load-input", tmp_path / "x.npy", "--load-expected"]
    words += [tmp_path / "y.npy", "--optimizer", "sgd", "--momentum", "0.9", "--batch-size", "16"]
    words += ["--validation-split", "0.25", "--epochs", "3", "--export-checkpoint"]

    def train(*more: object) -> Any:
        done = CliRunner().invoke(main, [*map(str, (*words, *more))])
        assert done.exit_code == 0, done.output
        return done

    done = train(tmp_path / "c.odt")
    with trainer() as one:
        _, undone = fit(one, epochs=3)
        assert [line for line in done.stderr.splitlines() if "undone" in line] == [
            line.replace("`learning_rate=`", "--learning-rate") for line in undone
        ]
        with odt.Trainer(MODEL, checkpoint=tmp_path / "c.odt") as other:
            assert state(other) == state(one)
    given = train(tmp_path / "d.odt", "--learning-rate", "0.001")
    assert "undone" not in given.stderr
    one_style = train(tmp_path / "e.odt", "--loss", "1", "--epoch", "3")
    assert "undone" not in one_style.stderr
