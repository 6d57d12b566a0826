"""The same mistake is told in Python's words in Python, and in options on the command line."""

import copy
import pickle
from typing import Any

import pytest
from click.testing import CliRunner
from support.paths import MLP_SM

import odt
from odt.cli.main import main
from odt.cli.output.spelling import spell
from odt.errors import OptionError

MODEL = MLP_SM / "model.circle"


@pytest.mark.parametrize(
    ("python", "command_line"),
    [
        ("`learning_rate=`: must be above 0", "--learning-rate: must be above 0"),
        ("Give `micro_batch=1`.", "Give --micro-batch 1."),
        ('`cache_frozen="disk"`, `keep_best=True`', "--cache-frozen disk, --keep-best"),
        ("Give `last=-1`.", "Give --num-of-trainable-ops -1."),
        ("train with `float_weights=True`", "train with --export-weights float"),
        ("`Model.summary()` lists all", "odt inspect lists all"),
        ("`ODT_KERNELS=`: must be numpy", "ODT_KERNELS: must be numpy"),
        ("Give `mean_squared_error` or `r2`.", "Give mean-squared-error or r2."),
        ("a`b … of x. Give `workers=1`.", "a`b … of x. Give --workers 1."),
        ("tensor `a b`: `", "tensor `a b`: `"),
    ],
)
def test_spelling(python: str, command_line: str) -> None:
    assert spell(python) == command_line


@pytest.mark.parametrize(
    ("options", "words", "field", "message"),
    [
        (
            {"learning_rate": -1.0},
            ("--learning-rate", "-1"),
            "learning_rate",
            "`learning_rate=`: must be a number above 0, but got -1",
        ),
        (
            {"trainable": odt.last(9)},
            ("--num-of-trainable-ops", "9"),
            "last",
            "`last=`: must be at most 3, the model's operators, but got 9. Give -1 for all.",
        ),
        (
            {"trainable": odt.freeze("no such")},
            ("--freeze", "no such"),
            "freeze",
            "`freeze=`: must match the name or the operator of a weight, but got no such, which",
        ),
        (
            {"optimizer": "sgd", "hyper_parameters": {"nesterov": True}},
            ("--optimizer", "sgd", "--nesterov"),
            "nesterov",
            "`nesterov=`: needs a momentum above 0, but got 0. Give `momentum=`.",
        ),
        (
            {"memory_budget": 10},
            ("--memory-budget", "10"),
            "memory_budget",
            "`memory_budget=`: must be at least ",
        ),
        (
            {"batch_size": 4, "micro_batch": 5},
            ("--batch-size", "4", "--micro-batch", "5"),
            "micro_batch",
            "`micro_batch=`: must be at most the batch size, 4, but got 5",
        ),
    ],
)
def test_a_mistake_is_told_in_the_words_of_whoever_makes_it(
    options: dict[str, Any], words: tuple[str, ...], field: str, message: str
) -> None:
    with pytest.raises(OptionError) as refused:
        odt.plan(MODEL, **options)
    assert refused.value.field == field
    assert str(refused.value).startswith(message)
    result = CliRunner().invoke(main, ["plan", str(MODEL), *words])
    assert result.exit_code == 1
    assert result.stderr == f"Error: {spell(str(refused.value))}\n"
    assert result.stderr.startswith(f"Error: {words[-2 if words[-1][0] != '-' else -1]}: ") or (
        result.stderr.startswith(f"Error: {words[0]}: ")
    )


def test_an_option_error_keeps_its_parts() -> None:
    error = OptionError("micro_batch, workers", "must be 4 and 1", "2 and 2", "Leave them out.")
    assert str(error) == (
        "`micro_batch=`, `workers=`: must be 4 and 1, but got 2 and 2. Leave them out."
    )
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert str(twin) == str(error)
        assert (twin.field, twin.rule, twin.got) == (error.field, error.rule, error.got)
        assert twin.remedy == error.remedy
