"""Values of shared options: words in any spelling, onert_train's numbers, sizes."""

from dataclasses import fields
from inspect import signature
from typing import Any

import click
import pytest
from click.testing import CliRunner

import odt
from odt.cli.commands import train
from odt.cli.options import shared, types
from odt.cli.options.exports import ExportOptions
from odt.cli.options.find_rate import RateTestOptions
from odt.cli.options.onert import ReportOptions
from odt.cli.options.run_dir import RunOptions
from odt.cli.options.sample_files import SampleFiles
from odt.cli.options.teacher import TeacherOptions
from odt.cli.options.train_options import TrainOptions
from odt.core.options.fit_options import FitOptions
from odt.core.options.model_options import ModelOptions
from odt.core.options.session_options import SessionOptions
from odt.errors import OdtError
from odt.kernels.registry import LOSSES, OPTIMIZERS
from odt.kernels.rows.row_index import HYPER_PARAMETERS


def parse(kind: click.ParamType[Any], value: str) -> Any:
    return kind.convert(value, None, None)


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("mean-squared-error", "mean_squared_error"),
        ("Mean_Squared_Error", "mean_squared_error"),
        ("categorical crossentropy", "categorical_crossentropy"),
        ("1", "mean_squared_error"),
        ("2", "categorical_crossentropy"),
    ],
)
def test_a_loss_is_a_word_in_any_spelling_or_onert_trains_number(value: str, word: str) -> None:
    assert parse(types.Word(LOSSES), value) == word


def test_an_unknown_word_is_refused_with_the_choices_and_the_nearest() -> None:
    kind = types.Word(("sgd", "adam"))
    with pytest.raises(click.BadParameter, match=r"^must be one of sgd, adam, but got adma\. Did"):
        parse(kind, "adma")
    with pytest.raises(click.BadParameter, match=r"but got 7\.$"):
        parse(kind, "7")


def test_metrics_may_be_several() -> None:
    seen = []

    @click.command()
    @shared.metric_option
    def command(metrics: tuple[str, ...]) -> None:
        seen.append(metrics)

    words = ["--metric", "0", "--metric", "mean-absolute-error"]
    assert CliRunner().invoke(command, words).exit_code == 0
    assert seen == [("categorical_accuracy", "mean_absolute_error")]


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("1500000", 1_500_000),
        ("64MB", 64_000_000),
        ("64MiB", 67_108_864),
        ("1.5 gb", 1_500_000_000),
        ("3kB", 3000),
    ],
)
def test_sizes_are_bytes(text: str, nbytes: int) -> None:
    assert parse(types.Size(), text) == nbytes


@pytest.mark.parametrize("text", ["", "MB", "64 parsecs", "-1MB", "1e3"])
def test_invalid_sizes_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="such as 64MB or 64MiB"):
        parse(types.Size(), text)


def test_a_missing_option_is_one_line_that_names_it() -> None:
    assert shared.require("--load-input", "a.bin", "the inputs") == "a.bin"
    with pytest.raises(OdtError, match=r"^--load-input: must be given: the inputs\.$"):
        shared.require("--load-input", None, "the inputs")


def test_help_lists_options_in_the_order_of_the_stack() -> None:
    @click.command()
    @shared.schedule_options
    @shared.training_options
    def command(**_: object) -> None:
        """Nothing."""

    text = CliRunner().invoke(command, ["--help"]).output
    words = ["--batch-size", "--micro-batch", "--workers", "--loss", "--optimizer", "--learning"]
    places = [text.index(f"  {word}") for word in words]
    assert places == sorted(places)
    assert "[categorical-crossentropy|" in text


def test_minus_one_is_a_value_and_not_an_option() -> None:
    seen = []

    @click.command()
    @shared.training_options
    def command(last: int, **_: object) -> None:
        seen.append(last)

    assert CliRunner().invoke(command, ["--num-of-trainable-ops", "-1"]).exit_code == 0
    assert seen == [-1]
    assert CliRunner().invoke(command, ["--num-of-trainable-ops", "-2"]).exit_code == 2


GROUPS = (
    *(ModelOptions, SessionOptions, FitOptions),
    *(SampleFiles, TeacherOptions, ExportOptions, RunOptions, ReportOptions, RateTestOptions),
)


def test_every_option_of_train_has_a_reader() -> None:
    """It is a field of a group of TrainOptions, or an argument of odt.Trainer."""
    names = {f.name for kind in (TrainOptions, *GROUPS) for f in fields(kind)}
    names |= {*signature(odt.Trainer).parameters, *signature(odt.Trainable).parameters}
    names |= HYPER_PARAMETERS.keys() | {"print_config"}
    for parameter in train.command.params:
        assert parameter.name in names or not parameter.expose_value, (
            f"give a class in cli/options/train_options.py a field {parameter.name}"
        )


@pytest.mark.parametrize("kind", GROUPS)
def test_every_field_of_the_groups_is_an_option_of_train(kind: type) -> None:
    names = {parameter.name for parameter in train.command.params}
    assert {f.name for f in fields(kind)} <= names


def test_help_of_hyper_parameters_is_put_together_from_the_rows() -> None:
    helps = {str(o.name): str(o.help) for o in train.command.params if isinstance(o, click.Option)}
    assert not [name for name, text in helps.items() if "  " in text]
    for rule in OPTIMIZERS.values():
        for h in rule.hyper_parameters:
            where = f"{rule.name}: the help of {h.name}"
            assert not h.help.endswith("."), f"{where} ends in a full stop"
            assert h.help in helps[h.name], where
            assert h.note in helps[h.name], where
