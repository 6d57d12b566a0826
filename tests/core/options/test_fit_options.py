"""Options of `Trainer.fit`: what is made from their rows, in Python and in `odt train`."""

from inspect import Parameter, signature

import click
import pytest
from support.option_rows import invalid, kind_of
from support.paths import MLP_SM

import odt
from odt.cli.commands import train
from odt.core.options.fit_options import FIT_OPTIONS
from odt.core.options.option import Number, Option, Switch, Whole
from odt.errors import OptionError

KEYWORDS = signature(odt.Trainer.fit).parameters
LEFT_OUT = train.command.make_context("train", ["model"]).params
PYTHON_ONLY = {"self", "x", "y", "callbacks", "validation_data", "fine_tune"}  # no options
ROWS = pytest.mark.parametrize(("name", "row"), FIT_OPTIONS.items(), ids=FIT_OPTIONS)
CHECKED = {
    name: row
    for name, row in FIT_OPTIONS.items()
    if isinstance(kind_of(row), Number | Whole | Switch)
}


@ROWS
def test_fit_has_a_keyword_with_the_default_of_the_row(name: str, row: Option) -> None:
    keyword = KEYWORDS.get(name)
    assert keyword is not None, f"give odt.Trainer.fit a keyword {name}"
    assert keyword.kind is Parameter.KEYWORD_ONLY
    assert keyword.default == row.default


def test_every_keyword_of_fit_is_a_row() -> None:
    assert KEYWORDS.keys() - PYTHON_ONLY == FIT_OPTIONS.keys()


@pytest.mark.parametrize(("name", "row"), CHECKED.items(), ids=CHECKED)
def test_values_out_of_bounds_are_refused_by_name(name: str, row: Option) -> None:
    with (
        odt.Trainer(MLP_SM / "model.circle", loss="categorical_crossentropy") as trainer,
        pytest.raises(OptionError) as caught,
    ):
        trainer.fit(None, **{name: invalid(row)})
    assert caught.value.field == name, f"odt.Trainer.fit: pass {name} on to FitOptions"


@ROWS
def test_train_has_the_option_of_the_row(name: str, row: Option) -> None:
    (option,) = (p for p in train.command.params if p.name == name)
    assert isinstance(option, click.Option)
    assert set(row.flags) <= {*option.opts}
    assert option.is_flag == isinstance(row.kind, Switch)
    assert bool(option.secondary_opts) == (isinstance(row.kind, Switch) and row.kind.off)
    default = row.default if row.of_train is None else row.of_train
    assert LEFT_OUT[name] == default
