"""Losses with hyper-parameters: the same in Python and on the command line, kept in checkpoints."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.paths import MLP_SM

import odt
from odt.cli.main import main

MODEL = MLP_SM / "model.circle"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(64, 784)).astype(np.float32)
Y = np.eye(10, dtype=np.float32)[np.arange(64) % 10]


def weights(trainer: odt.Trainer) -> dict[str, bytes]:
    return {name: a.tobytes() for name, a in trainer.weights.items()}


def trained(loss: str | odt.Loss | None, epochs: int, **more: object) -> odt.Trainer:
    trainer = odt.Trainer(MODEL, loss=loss, batch_size=16, **more)  # type: ignore[arg-type]
    trainer.fit(X, Y, epochs=epochs, seed=1)
    return trainer


def test_a_loss_may_be_given_as_text_or_object() -> None:
    with trained("huber:delta=0.5", 1) as text, trained(odt.Huber(0.5), 1) as thing:
        assert weights(text) == weights(thing)
    with trained("huber", 1) as plain:
        assert weights(plain) != weights(text)


def test_a_checkpoint_keeps_the_hyper_parameters(tmp_path: Path) -> None:
    with trained(odt.Huber(0.05), 3) as whole:
        pass
    with trained(odt.Huber(0.05), 1) as first:
        first.save_checkpoint(tmp_path / "c.odt")
    with trained(None, 3, checkpoint=tmp_path / "c.odt") as resumed:
        assert resumed.session.recipe.info.loss == "huber:delta=0.05"
    assert weights(resumed) == weights(whole)


def test_a_circle_plus_holds_no_other_loss(tmp_path: Path) -> None:
    with trained(odt.Huber(0.5), 1) as trainer:
        refused = "must be .*`mean_squared_error` in a circle. file, but got `huber:delta=0.5`"
        with pytest.raises(odt.OptionError, match=refused):
            trainer.export(tmp_path / "plus.circle", training_info=True)


def test_the_command_line_takes_and_shows_hyper_parameters(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    files = ["--load-input", str(tmp_path / "x.npy"), "--load-expected", str(tmp_path / "y.npy")]
    words = ["train", str(MODEL), *files, "--epochs", "1", "--export-checkpoint"]
    words += [str(tmp_path / "c.odt"), "--loss"]
    done = CliRunner().invoke(main, [*words, "Huber:delta=0.5"])
    assert done.exit_code == 0, done.output
    assert "{loss = huber:delta=0.5, reduction = sum over batch size}" in done.output
    refused = CliRunner().invoke(main, [*words, "huber:gamma=2"])
    assert "--loss: huber has the options delta, but got gamma\n" in refused.output


def test_a_small_loss_alone_does_not_mean_that_a_model_is_trained() -> None:
    """The focal loss of an untrained model is far below the entropy of its targets."""
    with odt.Trainer(MODEL, loss="categorical_focal_crossentropy") as trainer:
        assert trainer.evaluate(X, Y)["loss"] < 0.75 * np.log(10)
        trainer.fit(X, Y)
        assert trainer.learning_rate == 0.001
