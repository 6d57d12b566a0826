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


@pytest.mark.usefixtures("training_alone")
@pytest.mark.parametrize(
    ("options", "words", "python", "command_line"),
    [
        (
            {"learning_rate": -1.0},
            "--learning-rate -1",
            "`learning_rate=`: must be a number above 0",
            "--learning-rate: must be a number above 0",
        ),
        (
            {"trainable": odt.last(9)},
            "--num-of-trainable-ops 9",
            "`last=`: must be at most 3",
            "--num-of-trainable-ops: must be at most 3",
        ),
        (
            {"trainable": odt.select("nothing")},
            "--trainable nothing",
            "`patterns=`: must match the name",
            "--trainable: must match the name",
        ),
        (
            {"optimizer": "sgd", "hyper_parameters": {"nesterov": True}},
            "--optimizer sgd --nesterov",
            "`nesterov=`: needs a momentum above 0, but got 0. Give `momentum=`.",
            "--nesterov: needs a momentum above 0, but got 0. Give --momentum.",
        ),
        (
            {"memory_budget": 10},
            "--memory-budget 10",
            "`memory_budget=`: must be at least",
            "--memory-budget: must be at least",
        ),
        (
            {"loss": "huber:delta=-1"},
            "--loss huber:delta=-1",
            "`loss=`: `delta` of `huber` must be",
            "--loss: delta of huber must be",
        ),
    ],
)
def test_a_mistake_is_told_in_the_words_of_whoever_makes_it(
    options: dict[str, Any], words: str, python: str, command_line: str
) -> None:
    with pytest.raises(OptionError) as refused:
        odt.plan(MODEL, **options)
    assert str(refused.value).startswith(python)
    assert python.startswith(f"`{refused.value.field}=`: ")
    result = CliRunner().invoke(main, ["plan", str(MODEL), *words.split()])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {command_line}")
    assert result.stderr == f"Error: {spell(str(refused.value))}\n"


def test_a_warning_is_told_in_the_words_of_whoever_gets_it() -> None:
    inputs, targets = str(MLP_SM / "input.bin"), str(MLP_SM / "expected.bin")
    with (
        odt.Trainer(MODEL, batch_size=32) as trainer,
        pytest.warns(
            odt.OdtWarning, match="never trained. `shuffle=True` leaves out different samples"
        ),
    ):
        trainer.fit(inputs, targets, data_length=60, drop_last=True, shuffle=False)
    words = ["--load-input", inputs, "--load-expected", targets, "--epochs", "1"]
    words += ["--data-length", "60", "--drop-last", "--no-shuffle"]
    result = CliRunner().invoke(main, ["train", str(MODEL), *words])
    assert result.exit_code == 0, result.output
    assert "never trained. --shuffle leaves out different samples" in result.stderr


def test_an_option_error_keeps_its_parts() -> None:
    error = OptionError("micro_batch, workers", "must be 4 and 1", "2 and 2", "Leave them out.")
    assert str(error) == (
        "`micro_batch=`, `workers=`: must be 4 and 1, but got 2 and 2. Leave them out."
    )
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert str(twin) == str(error)
        assert (twin.field, twin.rule, twin.got) == (error.field, error.rule, error.got)
        assert twin.remedy == error.remedy
