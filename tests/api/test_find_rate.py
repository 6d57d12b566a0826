"""The learning rate range test: it finds a rate that works, and leaves nothing behind."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.paths import MLP_SM

import odt
from odt.cli.main import main
from odt.core.checkpoints import checkpoint
from odt.core.checkpoints.progress import Progress

MODEL = MLP_SM / "model.circle"
RNG = np.random.default_rng(2)
LABELS = RNG.integers(0, 10, 320)
X = (RNG.normal(size=(10, 784))[LABELS] / 4 + RNG.normal(size=(320, 784))).astype(np.float32)
LABELS[::3] = RNG.integers(0, 10, len(LABELS[::3]))  # which nothing learns quickly
Y = np.eye(10, dtype=np.float32)[LABELS]


def state(trainer: odt.Trainer) -> list[bytes]:
    core = trainer.session.build()
    found = checkpoint.capture(core.graph, core.parameters, Progress())
    return [*(a.tobytes() for a in found.arrays), repr(found.hyper_parameters).encode()]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"optimizer": odt.SGD(0.01, momentum=0.9), "workers": 1, "micro_batch": 16},
        {"ema": 0.9, "batch_size": 8, "accumulate": 4},
        {"learning_rate": odt.CosineDecay(0.01, 100), "sparse": {"*": 0.5}},
        {"trainable": odt.last(2), "cache_frozen": "ram"},
    ],
)
def test_weights_and_state_are_untouched(options: dict[str, Any]) -> None:
    with odt.Trainer(MODEL, **options) as trainer:
        if "cache_frozen" in options:
            trainer.session.build(len(X))
        else:
            trainer.train_on_batch(X[:8], Y[:8])
        before, rate, step = (
            state(trainer),
            trainer.learning_rate,
            trainer.session.build().parameters.step,
        )
        found = trainer.find_rate(X, Y, steps=20)
        assert len(found.rates) > 5
        assert state(trainer) == before
        assert (trainer.learning_rate, trainer.session.build().parameters.step) == (rate, step)


def test_progress_ends_at_its_total() -> None:
    seen: list[tuple[int, int]] = []
    with odt.Trainer(MODEL) as trainer:
        trainer.session.build().seen = lambda done, total: seen.append((done, total))
        trainer.find_rate(X, Y, highest=0.01, steps=20)
    assert seen == [(k, 41) for k in range(1, 42)]  # 21 losses before, and 20 after a step


def test_only_a_loss_that_is_not_finite_ends_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> float:
        raise odt.TrainingError("workers: must not have been closed")

    with odt.Trainer(MODEL) as trainer:
        monkeypatch.setattr(trainer.session.build(), "step", refuse)
        with pytest.raises(odt.TrainingError, match="workers: must not"):
            trainer.find_rate(X, Y, steps=5)


def test_training_afterwards_has_the_same_bits() -> None:
    weights = []
    for tested in (False, True):
        with odt.Trainer(MODEL, clip_norm=1.0) as trainer:
            if tested:
                trainer.find_rate(X, Y, steps=15)
            trainer.fit(X, Y, epochs=1)
            weights.append([a.tobytes() for a in trainer.weights.values()])
    assert weights[0] == weights[1]


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_suggestion_trains_well(optimizer: str) -> None:
    """Better than rates 30 times smaller or larger."""
    with odt.Trainer(MODEL, optimizer=optimizer) as trainer:
        found = trainer.find_rate(X, Y)
    assert found.suggestion is not None
    assert found.losses[-1] > 2 * found.losses[0]  # it went on until the loss rose
    losses = []
    for factor in (1, 1 / 30, 30):
        rate = found.suggestion * factor
        with odt.Trainer(MODEL, optimizer=optimizer, learning_rate=rate) as trainer:
            try:
                losses.append(trainer.fit(X, Y, epochs=2).history["loss"][-1])
            except odt.TrainingError:
                losses.append(np.inf)
    assert losses[0] == min(losses)


def test_the_rates_grow_and_changes_are_those_of_the_same_batch() -> None:
    """At rates of nothing, no batch changes, although batches differ."""
    with odt.Trainer(MODEL) as trainer:
        found = trainer.find_rate(X, Y, lowest=1e-30, highest=1e-20, steps=12)
    np.testing.assert_allclose(np.diff(np.log10(found.rates)), 10 / 11)
    assert len(found.losses) == 12
    assert np.ptp(found.losses) > 0.01
    np.testing.assert_allclose(found.changes, 0, atol=1e-6)


def test_few_samples_are_used_again() -> None:
    with odt.Trainer(MODEL) as trainer:
        assert len(trainer.find_rate(X[:5], Y[:5], highest=1e-3, steps=9).rates) == 9


def test_rates_must_be_in_order() -> None:
    with (
        odt.Trainer(MODEL) as trainer,
        pytest.raises(
            odt.OptionError, match=r"must be rates above 0, in order, but got 1 and 0\.1"
        ),
    ):
        trainer.find_rate(X, Y, lowest=1, highest=0.1)


def test_the_command_prints_a_table_and_writes_a_plot(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    words = ["--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "y.npy"]
    export = ("--export-circle", tmp_path / "out.circle")

    def train(*more: object) -> Any:
        return CliRunner().invoke(main, ["train", str(MODEL), *map(str, (*words, *more))])

    done = train("--find-rate", "--png", tmp_path / "plot.png")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[1].split() == ["LEARNING", "RATE", "LOSS", "CHANGE"]
    with odt.Trainer(MODEL) as trainer:
        found = trainer.find_rate(X, Y)
    assert lines[1:-1] == str(found).splitlines()
    assert lines[-1] == f"suggestion: --learning-rate {found.suggestion:g}"
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert "--png: must come with --find-rate" in train("--png", "a.png").stderr
    for files in (export, ("--run-dir", tmp_path / "run"), ("--log", tmp_path / "log.csv")):
        refused = train("--find-rate", *files).stderr
        assert f"{files[0]}: must be given without --find-rate, which trains no model" in refused
    assert {p.suffix for p in tmp_path.iterdir()} == {".npy", ".png"}
