"""A run that is killed and resumed exports the same file as a run without interruption."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.option_rows import other
from support.paths import MLP_SM

import odt
from odt.core.options.option import CHECKPOINT
from odt.core.options.training_options import STEP_OPTIONS

MODEL = MLP_SM / "model.circle"
RNG = np.random.default_rng(1)
X = RNG.normal(size=(90, 784)).astype(np.float32)
Y = np.eye(10, dtype=np.float32)[RNG.integers(0, 10, 90)]
W = RNG.uniform(0, 2, 90).astype(np.float32)

# Options of the trainer and of `fit` that a checkpoint holds.
FEATURES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "order of the file": ({}, {"shuffle": False, "drop_last": True}),
    "moving average": ({"ema": 0.9}, {}),
    "rates": ({"learning_rate_of": {"*": 0.5}}, {}),
    "accumulation": ({"batch_size": 4, "accumulate": 4}, {}),
    "clipping by norm": ({"clip_norm": 0.5, "micro_batch": 8, "workers": 2}, {}),
    "clipping by value": ({"clip_value": 0.01}, {}),
    "label smoothing": ({"loss": odt.CategoricalCrossentropy(label_smoothing=0.1)}, {}),
    "8-bit Adam": ({"optimizer": "adam8bit"}, {}),
    "Adafactor": ({"optimizer": "adafactor", "sparse": {"*": 0.5}}, {}),
    "RMSprop": ({"optimizer": odt.RMSprop(0.001, momentum=0.9)}, {}),
    "Lion": ({"optimizer": odt.Lion()}, {}),
    "cosine": ({"learning_rate": odt.CosineDecay(0.01), "warmup": 3}, {}),
    "one cycle": ({"learning_rate": odt.OneCycle(0.01)}, {}),
    "plateau": (
        {"learning_rate": odt.ReduceOnPlateau(0.01, factor=0.5, patience=1, min_delta=10.0)},
        {"validation_split": 0.2},
    ),
    "validation split": ({}, {"validation_split": 0.2}),
    "last operators": ({"trainable": odt.last(2)}, {}),
    "class weights": ({}, {"class_weight": {0: 3.0, 4: 0.5}}),
    "balanced classes": ({}, {"class_weight": "balanced", "validation_split": 0.2}),
    "augmentation": ({}, {"augment": "noise:0.3,time-shift"}),
    "augmented batches of batches": (
        {"batch_size": 4, "accumulate": 4, "micro_batch": 3, "workers": 2},
        {"augment": "gain,noise"},
    ),
    "mixup": ({}, {"augment": [odt.augment.Noise(0.1), odt.augment.Mixup(0.4)]}),
}
TESTED = {"quant_ranges", "batch_norm", "precision"}  # with other models
TESTED |= {name for options, _ in FEATURES.values() for name in options}
FEATURES |= {
    name: ({name: other(row)}, {})
    for name, row in STEP_OPTIONS.items()
    if row.stored == CHECKPOINT and name not in TESTED
}
# Options whose data or functions no checkpoint holds: they are given again.
GIVEN_AGAIN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "sample weights": ({}, {"sample_weight": W}),
    "validation data": ({}, {"validation_data": (X[:20], Y[:20])}),
    "distillation": ({"teacher": odt.Teacher(MODEL, temperature=3)}, {}),
    "distillation of augmented samples": (
        {"teacher": odt.Teacher(outputs=Y, temperature=3), "trainable": odt.last(2)},
        {"augment": "noise,mixup"},
    ),
    "distillation to frozen layers": (
        {"teacher": MODEL, "trainable": odt.last(2), "cache_frozen": "ram"},
        {},
    ),
    "dropout": ({"dropout": 0.3}, {}),
    "best epoch": (
        {"keep_best": True, "learning_rate": 0.02},
        {"validation_data": (X[:20], Y[:20]), "patience": 2},
    ),
    "best metric": (
        {
            "keep_best": True,
            "learning_rate": 0.01,
            "ema": 0.8,
            "metrics": "accuracy",
            "monitor": "val_accuracy",
        },
        {"validation_split": 0.3},
    ),
    "frozen layers": ({"trainable": odt.last(2), "cache_frozen": "ram"}, {}),
    "function": ({}, {"augment": [lambda x, rng: x * rng.uniform(0.5, 2)]}),
}


class KilledError(Exception):
    """The process ends at once: what remains is the last checkpoint."""


class Kill(odt.Callback):
    """Ends training after a number of steps without any further action."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def on_train_batch_end(self, batch: int, logs: odt.Logs) -> None:
        self.left -= 1
        if not self.left:
            raise KilledError


@pytest.mark.filterwarnings("ignore::odt.OdtWarning")
@pytest.mark.parametrize("name", [*FEATURES, *GIVEN_AGAIN])
def test_a_killed_run_resumes_to_the_same_file(name: str, tmp_path: Path) -> None:
    """Killed after step 5 and again after step 13: at an end of an epoch, or within one."""
    options, fit = (FEATURES | GIVEN_AGAIN)[name]
    options = {"batch_size": 16, **options}
    state, whole, resumed = (tmp_path / n for n in ("state.odt", "whole.circle", "resumed.circle"))
    with odt.Trainer(MODEL, **options) as trainer:
        trainer.fit(X, Y, epochs=4, seed=3, **fit)
        trainer.export(whole)
    kept: dict[str, Any] = {"epochs": 4, "save_to": state, "save_every": 1}
    with odt.Trainer(MODEL, **options) as trainer, pytest.raises(KilledError):
        trainer.fit(X, Y, seed=3, callbacks=[Kill(5)], **kept, **fit)
    again = name in GIVEN_AGAIN
    kept |= fit if again else {k: v for k, v in fit.items() if k == "validation_split"}
    options = options if again else {}
    with odt.Trainer(MODEL, checkpoint=state, **options) as trainer, pytest.raises(KilledError):
        trainer.fit(X, Y, callbacks=[Kill(8)], **kept)
    with odt.Trainer(MODEL, checkpoint=state, **options) as trainer:
        trainer.fit(X, Y, **kept)
        trainer.export(resumed)
    assert resumed.read_bytes() == whole.read_bytes() != MODEL.read_bytes()


def test_other_data_need_a_word(tmp_path: Path) -> None:
    state = tmp_path / "state.odt"
    with odt.Trainer(MODEL, batch_size=16, keep_best=True) as trainer:
        trainer.fit(X, Y, epochs=2, validation_split=0.2, save_to=state)
        wanted = {n: a.copy() for n, a in trainer.weights.items()}
        step = trainer.session.build().parameters.step
    rule = r"`checkpoint=`: must be resumed with 72 training samples, but got 90. .*new_data"
    with odt.Trainer(MODEL, checkpoint=state) as trainer:
        with pytest.raises(odt.OptionError, match=rule):
            trainer.fit(X, Y, epochs=3)
        assert trainer.fit(X, Y, epochs=0).history == {}
        assert trainer.session.build().parameters.step == step
    with odt.Trainer(MODEL, checkpoint=state, learning_rate=1e-30) as trainer:
        history = trainer.fit(X[:40], Y[:40], epochs=2, new_data=True)
        assert history.epoch == [0, 1]
        assert trainer.session.build().parameters.step == step + 2 * 3
    assert wanted.keys() == trainer.weights.keys()


def test_a_callback_reduces_the_rate_on_a_plateau() -> None:
    """As the schedule of the same name does, which is tested against torch."""
    rates: dict[str, list[float]] = {"callback": [], "schedule": []}
    plateau: dict[str, Any] = {"factor": 0.5, "patience": 1, "min_delta": 10.0, "cooldown": 1}
    for name, found in rates.items():
        schedule = odt.ReduceOnPlateau(0.01, **plateau, min_learning_rate=0.003)
        callback = odt.ReduceLROnPlateau(**plateau, min_lr=0.003)
        with odt.Trainer(MODEL, learning_rate=schedule if name == "schedule" else 0.01) as trainer:
            seen = odt.LambdaCallback(
                on_epoch_begin=lambda e, logs, f=found, t=trainer: f.append(t.learning_rate)  # type: ignore[misc]
            )
            callbacks = [seen, callback] if name == "callback" else [seen]
            trainer.fit(X, Y, epochs=8, validation_split=0.2, callbacks=callbacks)
    assert rates["callback"] == rates["schedule"]
    assert rates["callback"][0] == 0.01
    assert min(rates["callback"]) == 0.003
    eager = odt.ReduceLROnPlateau("loss", factor=0.5, patience=0, mode="min")
    with odt.Trainer(MODEL, learning_rate=0.01) as trainer:
        history = trainer.fit(X, Y, epochs=2, callbacks=eager).history
        assert history["loss"][1] < history["loss"][0]
        assert trainer.learning_rate == 0.01
    with pytest.raises(odt.OptionError, match="`factor=`: must be above 0 and below 1"):
        odt.ReduceLROnPlateau(factor=2)


def test_an_interval_of_saves_without_a_path_is_refused() -> None:
    rule = "`save_every=`: must come with `save_to=`"
    with odt.Trainer(MODEL) as trainer, pytest.raises(odt.OptionError, match=rule):
        trainer.fit(X, Y, save_every=2)


def test_without_patience_only_epochs_that_do_not_improve_reduce_the_rate() -> None:
    callback = odt.ReduceLROnPlateau(factor=0.5, patience=0)
    trainer: Any = SimpleNamespace(learning_rate=1.0)
    callback.trainer = trainer
    callback.on_train_begin({})
    rates = []
    for epoch, loss in enumerate((3.0, 2.0, 2.0, 1.0)):
        callback.on_epoch_end(epoch, {"val_loss": loss})
        rates.append(trainer.learning_rate)
    assert rates == [1.0, 1.0, 0.5, 0.5]
