"""`odt train --augment`: what it changes, prints and refuses."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.paths import MLP_SM, MODELS

import odt
from odt.cli.main import main
from odt.core.checkpoints.resume import read_resume

MODEL = MLP_SM / "model.circle"
FILES = ("--load-input", MLP_SM / "input.bin", "--load-expected", MLP_SM / "expected.bin")
X = np.random.default_rng(1).normal(size=(48, 784)).astype(np.float32)
Y = np.eye(10, dtype=np.float32)[np.arange(48) % 10]


def train(*words: object, status: int = 0) -> Result:
    done = CliRunner().invoke(main, ["train", str(MODEL), *map(str, (*FILES, *words))])
    assert done.exit_code == status, done.output
    return done


def epochs(done: Result) -> list[str]:
    return re.findall(r"^Epoch \d+/\d+ - .*?(loss.*)", done.stdout, re.M)


def test_training_is_augmented_and_validation_is_not(tmp_path: Path) -> None:
    """With a learning rate of nothing only the augmentation changes the losses."""
    still = ("--epochs", 2, "--learning-rate", 1e-30, "--validation-split", 0.25)
    plain, noisy = epochs(train(*still)), epochs(train(*still, "--augment", "noise:1,gain:3"))
    assert plain[0] == noisy[0]  # epoch 0 is of the data as they are
    training, validation = zip(*(line.split(" - ") for line in noisy), strict=True)
    assert len(set(training)) == 3
    assert len(set(validation)) == 1
    assert [line.split(" - ")[1] for line in plain] == list(validation)


def test_a_checkpoint_holds_the_augmentation(tmp_path: Path) -> None:
    state, whole, rest = (tmp_path / n for n in ("state.odt", "whole.circle", "rest.circle"))
    words = ("--augment", "noise", "--augment", "time_shift:0.2,mixup", "--seed", 5)
    done = train(*words, "--epochs", 3, "--export-circle", whole)
    assert re.search(r"\naugmentation: steps waited \d+\.\d % of their time\n", done.stdout)
    prepared = 4 * 32 * (784 + 10) * 4
    assert re.search(rf"- prepared +=\s+{prepared:,} bytes", done.stdout)
    train(*words, "--epochs", 1, "--export-checkpoint", state)
    assert read_resume(state).progress.augment == "noise:0.05,time-shift:0.2,mixup:0.2"
    train("--checkpoint", state, "--epochs", 3, "--export-circle", rest)
    assert rest.read_bytes() == whole.read_bytes()
    done = train("--checkpoint", state, "--epochs", 2, "--augment", "none")
    assert "augment noise:0.05,time-shift:0.2,mixup:0.2, now none\n" in done.stderr
    assert "augmentation:" not in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--augment", "nois"), "--augment: must be one of flip, shift, crop, "),
        (("--augment", "flip"), "--augment: flip: needs images (H, W), (H, W, C) or (C, H, W)"),
        (
            ("--augment", "noise", "--cache-frozen", "--num-of-trainable-ops", 2),
            "--augment: must be left out with --cache-frozen, whose values stay the same, but got "
            "noise:0.05",
        ),
        (
            ("--augment", "mixup", "--memory-budget", "3MB"),
            "with prepared batches of 0.5MB",
        ),
    ],
)
def test_impossible_requests_are_refused(words: tuple[object, ...], message: str) -> None:
    assert message in train(*words, status=1).stderr


def test_python_takes_objects_names_and_functions() -> None:
    found: list[Any] = []
    changes: tuple[Any, ...] = ("noise:0.2", [odt.augment.Noise(0.2)], odt.augment.Noise(0.2))
    for change in changes:
        with odt.Trainer(MODEL) as trainer:
            found.append(trainer.fit(X, Y, epochs=2, augment=change).history)
    assert found[0] == found[1] == found[2]
    with odt.Trainer(MODEL) as trainer:
        history = trainer.fit(X, Y, epochs=2, augment=lambda x, rng: x * rng.random()).history
    assert history != found[0]


def test_a_flat_input_has_the_shape_that_the_model_gives_it() -> None:
    """A keyword network takes 2,400 values, and reshapes them to 60 frames of 40 bands."""
    model = MODELS / "kws-yes-no-conv60x40.tflite"
    x = np.random.default_rng(1).normal(size=(16, 2400)).astype(np.float32)
    y = np.eye(2, dtype=np.float32)[np.arange(16) % 2]
    losses = []
    for rows in (x, x.reshape(16, 60, 40)):
        with odt.Trainer(model) as trainer:
            augment = ["time-mask:0.5", "frequency-mask:0.5", "noise", "mixup"]
            losses.append(trainer.fit(rows, y, epochs=2, augment=augment).history["loss"])
    assert losses[0] == losses[1]


def test_batches_of_an_iterable_are_the_callers_own() -> None:
    with (
        odt.Trainer(MODEL) as trainer,
        pytest.raises(odt.OptionError, match="`augment=`: must be left out with an iterable"),
    ):
        trainer.fit([(X, Y)], augment="noise")
