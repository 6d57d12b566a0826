"""Options that are keywords of one function: what Python and commands make of their rows."""

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

import click
import pytest
from support.option_rows import invalid, kind_of
from support.paths import MLP_SM

import odt
import odt.federated
from odt.cli.commands import check, personalize, plan, train
from odt.cli.commands.fed import simulate
from odt.core.options.analysis_options import CHECK_OPTIONS, PLAN_OPTIONS
from odt.core.options.federation_options import FEDERATION_OPTIONS
from odt.core.options.fit_options import FIT_OPTIONS
from odt.core.options.model_options import MODEL_OPTIONS
from odt.core.options.option import Form, Number, Option, Switch, Whole, Word
from odt.core.options.personalize_options import PERSONALIZE_OPTIONS
from odt.core.options.session_options import SESSION_OPTIONS
from odt.errors import OdtError, OptionError

MODEL = MLP_SM / "model.circle"
NAMES: dict[Callable[..., Any], str] = {
    odt.Trainer.fit: "odt.Trainer.fit",
    odt.Trainer: "odt.Trainer",
    odt.load_model: "odt.load_model",
    odt.federated.simulate: "odt.federated.simulate",
    odt.plan: "odt.plan",
    odt.check: "odt.check",
    odt.personalize: "odt.personalize",
}
TABLES: dict[Callable[..., Any], Any] = {
    odt.Trainer.fit: FIT_OPTIONS,
    odt.Trainer: SESSION_OPTIONS,
    odt.load_model: MODEL_OPTIONS,
    odt.federated.simulate: FEDERATION_OPTIONS,
    odt.plan: PLAN_OPTIONS,
    odt.check: CHECK_OPTIONS,
    odt.personalize: PERSONALIZE_OPTIONS,
}
ALL = [(function, row) for function, rows in TABLES.items() for row in rows.values()]
IDS = [f"{NAMES[function]}({row.name})" for function, row in ALL]
ROWS = pytest.mark.parametrize(("function", "row"), ALL, ids=IDS)
PYTHON_ONLY = {"self", "x", "y", "callbacks", "validation_data", "verbose", "fine_tune"}
CONTEXTS: dict[Callable[..., Any], click.Context] = {
    odt.federated.simulate: simulate.make_context("simulate", []),
    odt.plan: plan.command.make_context("plan", ["model"]),
    odt.check: check.command.make_context("check", ["model"]),
    odt.personalize: personalize.command.make_context("personalize", ["model"]),
}
TRAIN = train.command.make_context("train", ["model"])


def calls(function: Callable[..., Any], **keywords: Any) -> None:
    """Calls a function with keywords that it refuses."""
    if function is odt.personalize:
        odt.personalize(MODEL, (None, None), **keywords)
    if function not in (odt.Trainer.fit, odt.federated.simulate):
        function(MODEL, **keywords)
    with odt.Trainer(MODEL, loss="categorical_crossentropy") as trainer:
        if function is odt.federated.simulate:
            odt.federated.simulate(trainer, None, **keywords)
        trainer.fit(None, **keywords)


@ROWS
def test_the_function_has_a_keyword_with_the_default_of_the_row(
    function: Callable[..., Any], row: Option
) -> None:
    keyword = signature(function).parameters.get(row.name)
    assert keyword is not None, f"give {NAMES[function]} a keyword {row.name}"
    assert keyword.kind is Parameter.KEYWORD_ONLY or row.name == "adapters"
    assert keyword.default == row.default


def test_every_keyword_of_fit_is_a_row() -> None:
    keywords = signature(odt.Trainer.fit).parameters.keys()
    assert keywords - PYTHON_ONLY == FIT_OPTIONS.keys()


@ROWS
def test_values_out_of_bounds_are_refused_by_name(
    function: Callable[..., Any], row: Option
) -> None:
    if not isinstance(kind_of(row), Number | Whole | Word | Switch):
        return  # checked by the code that reads the value
    with pytest.raises(OdtError) as caught:
        calls(function, **{row.name: invalid(row)})
    remedy = f"{NAMES[function]}: pass {row.name} on to be checked"
    assert isinstance(caught.value, OptionError), remedy
    assert caught.value.field == row.name, remedy


@ROWS
def test_the_command_has_the_option_of_the_row(function: Callable[..., Any], row: Option) -> None:
    context = CONTEXTS.get(function, TRAIN)
    (option,) = (p for p in context.command.params if p.name == row.name)
    assert isinstance(option, click.Option)
    assert set(row.flags) <= {*option.opts}
    assert option.is_flag == isinstance(row.kind, Switch)
    assert bool(option.secondary_opts) == (isinstance(row.kind, Switch) and row.kind.off)
    assert option.multiple == (isinstance(row.kind, Form) and bool(row.kind.several))
    default = row.default if row.of_train is None else row.of_train
    if isinstance(default, str):  # such as 1MB
        default = option.type.convert(default, option, context)
    assert context.params[row.name] == default
