"""The best epoch: `keep_best=` exports its weights, and `patience=` ends training after it."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.paths import MLP_SM

from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.core.model.training_info import TrainingInfo
from odt.core.training.best_epoch import Best
from odt.core.training.trainer import Trainer
from odt.errors import OptionError

RATE = 0.03  # too large, so that the validation loss rises again
EPOCHS = 12


def train(*words: object) -> str:
    line = ["train", MLP_SM / "model.circle", "--load-input", MLP_SM / "input.bin"]
    line += ["--load-expected", MLP_SM / "expected.bin", "--validation-split", 0.34]
    line += ["--learning-rate", RATE, "--epochs", EPOCHS, "--no-shuffle", *words]
    result = CliRunner().invoke(main, list(map(str, line)))
    assert result.exit_code == 0, result.output
    return result.stdout


def val_losses(out: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"^Epoch [1-9].*val_loss: \[0\] (\S+)", out, re.M)]


def trainer(keep_best: bool, budget: int | None = None) -> Trainer:
    graph = read_model(MLP_SM / "model.circle").graph
    info = TrainingInfo(loss="categorical_crossentropy", batch_size=32)
    return Trainer(graph, info, keep_best=keep_best, budget=budget)


def test_the_first_of_the_least_losses_is_best() -> None:
    tensor = np.zeros(3, np.float32)
    best = Best({4: tensor})
    tensor[...] = 4  # trained, before a first validation
    best.restore()
    assert (best.epoch, best.nbytes, *tensor) == (0, 12, 4, 4, 4)
    for epoch, loss in enumerate((3.0, 1.0, 2.0, 1.0), 5):
        tensor[...] = epoch
        best.see(epoch, {"val_loss": loss})
    assert (best.epoch, best.monitor.best, best.waited) == (6, 1.0, 2)
    best.restore()
    assert list(tensor) == [6, 6, 6]
    resumed = Best({})
    resumed.state = best.state
    assert (resumed.epoch, resumed.monitor.best, resumed.waited) == (6, 1.0, 2)


def test_the_best_epoch_is_exported_and_the_checkpoint_is_of_the_last(tmp_path: Path) -> None:
    best, exact, last, after = (tmp_path / name for name in ("best", "exact", "last", "after"))
    out = train("--keep-best", "--export-circle", best, "--export-checkpoint", after)
    losses = val_losses(out)
    number = int(np.argmin(losses)) + 1
    assert 1 < number < EPOCHS
    assert f"\nbest: epoch {number} - val_loss: [0] {losses[number - 1]:.4f}; exported\n" in out
    train("--epochs", number, "--export-circle", exact)
    assert best.read_bytes() == exact.read_bytes()
    train("--export-checkpoint", last)
    assert after.read_bytes() == last.read_bytes()


def test_training_ends_when_patience_does() -> None:
    through, out = train(), train("--patience", 2)
    number = int(np.argmin(val_losses(through))) + 1
    assert number + 2 < EPOCHS
    assert val_losses(out) == val_losses(through)[: number + 2]
    assert f"\nbest: epoch {number} - val_loss: [0] " in out
    assert "exported" not in out
    assert "best: " not in through


def test_the_copy_is_counted() -> None:
    with trainer(keep_best=False) as plain, trainer(keep_best=True) as keeping:
        assert keeping.memory().total - plain.memory().total == plain.memory().parameters
        assert plain.memory().best == 0


def test_the_copy_is_part_of_a_budget() -> None:
    with trainer(keep_best=False) as plain:
        copy = plain.memory().parameters
    found = []
    for keep_best, beside in ((False, ""), (True, r" with a copy of the best weights of \S+")):
        rule = rf"at least (\S+)MB to train in batches of 32{beside}, but got 1B$"
        with pytest.raises(OptionError, match=rule) as refused:
            trainer(keep_best, budget=1)
        match = re.search(rule, str(refused.value))
        assert match
        found.append(float(match[1]) * 1e6)
    assert found[1] - found[0] == pytest.approx(copy, abs=1.1e5)  # both are rounded up to 0.1 MB
    with trainer(True, budget=int(found[1])) as fits:
        assert fits.memory().total < found[1]
    with pytest.raises(OptionError, match=r"\. Keep less: no `keep_best=True`\.$"):
        trainer(True, budget=int(found[1] - copy))
