"""Options of a recipe: keywords in Python, options of commands, and what is stored of them."""

from dataclasses import fields
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from support.option_rows import invalid, kind_of
from support.paths import MLP_SM

import odt
from odt.cli.commands import train
from odt.cli.commands.fed import init, simulate
from odt.core.checkpoints.resume import read_resume
from odt.core.model.training_info import StoredInfo, TrainingInfo
from odt.core.options.option import (
    CHECKPOINT,
    CIRCLE_PLUS,
    ByOutput,
    ByPattern,
    Form,
    Number,
    Option,
    Switch,
    Whole,
    Word,
)
from odt.core.options.schedule_options import DIVISION_OPTIONS
from odt.core.options.training_options import (
    HYPER_OPTIONS,
    RECIPE_OPTIONS,
    RESOLVED_OPTIONS,
    SELECTION_OPTIONS,
    STEP_OPTIONS,
    TEACHER_OPTIONS,
    TRAINING_OPTIONS,
)
from odt.errors import OptionError
from odt.federated.flower.settings import KEYS, trainer_of

MODEL = MLP_SM / "model.circle"
LOSS = "categorical_crossentropy"
ALL = {**RECIPE_OPTIONS, **DIVISION_OPTIONS, **SELECTION_OPTIONS, **HYPER_OPTIONS}
OF_TEACHER = {"temperature": "temperature", "teacher_weight": "weight"}
WEIGHT = "FULLY_CONNECTED"  # a pattern
# Option → value of its keyword, field of TrainingInfo, and value there.
VALUES: dict[str, tuple[Any, str, Any]] = {
    "loss": ("huber:delta=0.5", "loss", "huber:delta=0.5"),
    "reduction": ("sum", "reduction", "sum"),
    "optimizer": ("rmsprop", "optimizer", "rmsprop"),
    "learning_rate": (0.25, "learning_rate", 0.25),
    "schedule": (odt.CosineDecay(alpha=0.5), "schedule", odt.CosineDecay(alpha=0.5)),
    "warmup": (7, "schedule", odt.ConstantRate(warmup_steps=7)),
    "batch_size": (4, "batch_size", 4),
}


def test_each_option_is_a_keyword() -> None:
    keywords = signature(odt.Trainer).parameters
    assert OF_TEACHER.keys() == TEACHER_OPTIONS.keys()
    for name in (*RECIPE_OPTIONS, *DIVISION_OPTIONS):
        if name in OF_TEACHER:
            shown = RECIPE_OPTIONS[name].shown_default
            assert signature(odt.Teacher).parameters[OF_TEACHER[name]].default == float(shown or 0)
        else:
            assert name in keywords, f"give odt.Trainer a keyword {name}, and request_of its value"
            assert keywords[name].default is None, name
    for name, row in SELECTION_OPTIONS.items():
        assert name in signature(odt.Trainable).parameters, f"give odt.Trainable a field {name}"
        assert signature(odt.Trainable).parameters[name].default == row.default


@pytest.mark.parametrize("row", ALL.values(), ids=ALL)
def test_each_option_is_one_of_commands(row: Option) -> None:
    commands: list[click.Command] = [train.command, *([simulate, init] if row.federated else [])]
    for command in commands:
        options = [p for p in command.params if p.name == row.name]
        assert options, f"cli/options: give {command.name} {row.flags[0]}"
        assert set(row.flags) <= {*options[0].opts}
        several = isinstance(row.kind, Form) and bool(row.kind.several)
        assert options[0].multiple == (several or isinstance(row.kind, ByOutput | ByPattern))
    assert (row.word in KEYS) == row.federated


# Without options of a teacher and by pattern, which the next tests check, and without texts.
BOUNDED = {
    name: row
    for name, row in TRAINING_OPTIONS.items()
    if name not in OF_TEACHER and isinstance(kind_of(row), Number | Whole | Word | Switch)
}


@pytest.mark.parametrize("row", BOUNDED.values(), ids=BOUNDED)
def test_values_out_of_bounds_are_refused_by_name(row: Option) -> None:
    with pytest.raises(OptionError) as caught:
        odt.Trainer(MODEL, **{"loss": LOSS, row.name: invalid(row)})
    assert caught.value.field == row.name


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("loss_weights", {"0": -1}, "must be numbers of at least 0, but got 0=-1"),
        ("loss_weights", {"0": "much"}, "must be numbers of at least 0, but got 0=much"),
        ("learning_rate_of", {WEIGHT: 0}, "must be factors above 0, but got 0. Freeze with"),
        ("learning_rate_of", {WEIGHT: "much"}, "must be factors above 0, but got much"),
        ("sparse", {WEIGHT: 1.5}, "must be fractions above 0 and at most 1, but got 1.5"),
        ("dropout", {WEIGHT: 1.0}, "must be a number from 0 to less than 1, but got 1.0"),
        ("optimizer", "momentum", "must be one of `sgd`, `adam`, "),
    ],
)
def test_values_by_output_and_by_pattern_are_checked(name: str, value: Any, words: str) -> None:
    with pytest.raises(OptionError) as caught:
        odt.Trainer(MODEL, loss=LOSS, **{name: value})
    assert caught.value.field == name
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("temperature", 0), ("temperature", float("nan")), ("weight", 1.5), ("weight", 0)],
)
def test_the_options_of_a_teacher_are_checked(name: str, value: float) -> None:
    with pytest.raises(OptionError) as caught:
        odt.Teacher(MODEL, **{name: value})
    assert OF_TEACHER[caught.value.field] == name


def test_a_circle_plus_stores_the_options_that_its_rows_say() -> None:
    stored = {name for name, row in TRAINING_OPTIONS.items() if row.stored == CIRCLE_PLUS}
    others = {"hyper_parameters", "from_logits", "trainable_ops"}
    assert stored == {f.name for f in fields(StoredInfo)} - others
    assert {f.name for f in fields(TrainingInfo)} > TRAINING_OPTIONS.keys()


def test_there_is_an_example_value_of_each_stored_option() -> None:
    rows = {**TRAINING_OPTIONS, "warmup": RESOLVED_OPTIONS["warmup"]}
    stored = {n for n, row in rows.items() if row.stored in (CIRCLE_PLUS, CHECKPOINT)}
    assert stored - STEP_OPTIONS.keys() == VALUES.keys(), "add a line to VALUES"


@pytest.mark.parametrize("name", VALUES)
def test_a_resumed_run_has_the_options_of_its_checkpoint(name: str, tmp_path: Path) -> None:
    value, field, expected = VALUES[name]
    with odt.Trainer(MODEL, **{"loss": LOSS, name: value}) as trainer:
        assert getattr(trainer.session.recipe.info, field) == expected
        trainer.save_checkpoint(tmp_path / "state.odt")
        graph = trainer.session.recipe.graph
    assert read_resume(tmp_path / "state.odt").training_info(graph)[field] == expected
    with odt.Trainer(MODEL, checkpoint=tmp_path / "state.odt") as resumed:
        assert getattr(resumed.session.recipe.info, field) == expected
        assert resumed.session.recipe.origins[field] == "checkpoint"


@pytest.mark.parametrize("name", [n for n, v in VALUES.items() if RECIPE_OPTIONS[n].federated])
def test_a_setting_of_flower_apps_reaches_the_trainer(name: str) -> None:
    value, field, expected = VALUES[name]
    run = {"model": str(MODEL), "loss": LOSS, RECIPE_OPTIONS[name].word: value}
    app: Any = SimpleNamespace(run_config=run, node_config={})
    with trainer_of(app) as trainer:
        assert getattr(trainer.session.recipe.info, field) == expected


def test_the_selection_of_flower_apps_reaches_the_trainer() -> None:
    run: dict[str, Any] = {
        "model": str(MODEL),
        "loss": LOSS,
        "metric": "accuracy, mean-squared-error",
    }
    run |= {
        "optimizer": "sgd",
        "momentum": 0.5,
        "trainable": "fc1*, fc2*",
        "freeze": "fc1*",
        "num-of-trainable-ops": 2,
    }
    app: Any = SimpleNamespace(run_config=run, node_config={"bias-only": True})
    with trainer_of(app) as trainer:
        info = trainer.session.recipe.info
        names = [trainer.session.recipe.graph.tensors[i].name for i in info.trainable_tensors or ()]
        assert len(trainer.session.metrics) == 2
    assert names == ["fc2_b"]
    assert info.hyper_parameters == {"momentum": 0.5}
