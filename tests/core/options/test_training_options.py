"""Options of training steps: what is made from their rows, in Python, checkpoints and commands."""

import json
import re
from dataclasses import fields
from inspect import getdoc, signature
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from support.option_rows import invalid, other
from support.paths import MLP_SM, ROOT
from write_step_keywords import MODULE, module

import odt
from odt.cli.commands import artifacts, plan, train
from odt.cli.commands.fed import init, simulate
from odt.core.checkpoints.checkpoint import FRONT
from odt.core.checkpoints.progress import Progress, parse_progress
from odt.core.checkpoints.resume import read_resume
from odt.core.model.training_info import StoredInfo, TrainingInfo
from odt.core.options.option import (
    CHECKPOINT,
    CIRCLE_PLUS,
    NOWHERE,
    Option,
    Switch,
    Word,
)
from odt.core.options.schedule_options import SCHEDULE_OPTIONS
from odt.core.options.training_options import STEP_OPTIONS
from odt.errors import OptionError
from odt.federated.flower.settings import KEYS
from odt.kernels.native.library import lacks_bf16
from odt.kernels.rows.opdef import Array

MODEL = MLP_SM / "model.circle"
ROWS = pytest.mark.parametrize(("name", "row"), STEP_OPTIONS.items(), ids=STEP_OPTIONS)
INTEGERS = "must come with a model whose activations are int"
REFUSED = {  # options of other models than MODEL → what the error says
    "quant_ranges": INTEGERS,
    "qas": INTEGERS,
    "batch_norm": "must be fixed for a model without BatchNormalization",
}
if lacks_bf16():
    REFUSED["precision"] = "must be float32 here"
EARLIER = ROOT / "tests/written_by_db08282"


@ROWS
def test_the_trainer_has_a_keyword_that_reaches_the_recipe(name: str, row: Option) -> None:
    assert signature(odt.Trainer).parameters[name].default is None
    values = {name: other(row)}
    if name in REFUSED:
        with pytest.raises(OptionError, match=REFUSED[name]):
            odt.Trainer(MODEL, loss="categorical_crossentropy", **values)
        return
    with odt.Trainer(MODEL, loss="categorical_crossentropy", **values) as trainer:
        assert getattr(trainer.session.recipe.info, name) == other(row)


@ROWS
def test_code_uses_the_value(name: str, row: Option) -> None:
    use = re.compile(rf"\binfo\.{name}\b")
    modules = (path for folder in ("core", "src") for path in (ROOT / folder).rglob("*.py"))
    assert any(use.search(path.read_text(encoding="utf-8")) for path in modules), (
        f"{name} has no effect: let its code read info.{name}"
    )


@ROWS
def test_an_option_changes_training_in_the_same_way_for_all_micro_batches(
    name: str, row: Option
) -> None:
    """Also where an update would follow each gradient at once, but for `info.keeps_gradients`."""
    if name in REFUSED or name == "precision":  # products of MODEL are too small for bf16
        return
    divisions = [(8, 1), (3, 1), (3, 2)]  # sizes of micro-batches, and workers
    whole, *parts = (outputs({name: other(row)}, *division) for division in divisions)
    for division, y in zip(divisions, (whole, *parts), strict=True):
        change = np.abs(y - outputs({}, *division)).max()
        assert change > 1e-3, f"{name} has no effect on micro-batches and workers {division}"
    for y in parts:
        np.testing.assert_allclose(y, whole, rtol=1e-3, atol=1e-4)


def outputs(options: dict[str, Any], micro_batch: int, workers: int) -> Array:
    """Outputs of MODEL after five steps."""
    rng = np.random.default_rng(1)
    x = rng.normal(0, 5, (40, 784)).astype(np.float32)
    y = np.eye(10, dtype=np.float32)[rng.integers(0, 10, 40)]
    options = {**options, "micro_batch": micro_batch, "workers": workers, "batch_size": 8}
    with odt.Trainer(
        MODEL, loss="categorical_crossentropy", optimizer=odt.SGD(1e-3), **options
    ) as trainer:
        trainer.fit(x, y, epochs=1, seed=3)
        predicted: Array = trainer.predict(x)
    return predicted


def test_types_of_keywords_are_written_from_the_rows() -> None:
    assert MODULE.read_text(encoding="utf-8") == module(), "run `make pages`"


def test_help_describes_each_keyword() -> None:
    text = getdoc(odt.Trainer.__init__) or ""  # without the indentation, as in Python 3.13
    for name in signature(odt.Trainer).parameters:
        assert len(re.findall(rf"^ {{4}}{name}: ", text, re.MULTILINE)) == 1, name


@ROWS
def test_values_out_of_bounds_are_refused_by_name(name: str, row: Option) -> None:
    with pytest.raises(OptionError) as caught:
        odt.Trainer(MODEL, loss="categorical_crossentropy", **{name: invalid(row)})
    assert caught.value.field == name


@pytest.mark.parametrize(("name", "row"), SCHEDULE_OPTIONS.items(), ids=SCHEDULE_OPTIONS)
def test_how_a_batch_is_divided_is_checked_as_its_rows_say(name: str, row: Option) -> None:
    assert signature(odt.Trainer).parameters[name].default is None
    values: tuple[Any, ...] = (invalid(row), "many")
    for value in values:
        with pytest.raises(OptionError) as caught:
            odt.Trainer(MODEL, loss="categorical_crossentropy", **{name: value})
        assert caught.value.field == name
    assert (name in {f.name for f in fields(StoredInfo)}) == (row.stored == CIRCLE_PLUS)
    assert (name in Progress().stored()) == (row.stored == CHECKPOINT)
    assert name.replace("_", "-") in KEYS


@ROWS
def test_commands_and_federations_have_the_options_of_the_rows(name: str, row: Option) -> None:
    commands: list[click.Command] = [train.command, artifacts.command, plan.command]
    commands += [simulate, init] if row.federated else []
    for command in commands:
        (option,) = (p for p in command.params if p.name == name)
        assert isinstance(option, click.Option)
        assert option.process_value(click.Context(command), None) is None
        assert option.is_flag == isinstance(row.kind, Switch)
    assert (name.replace("_", "-") in KEYS) == row.federated


@ROWS
def test_checkpoints_hold_what_the_row_says(name: str, row: Option, tmp_path: Path) -> None:
    assert getattr(TrainingInfo(), name) == row.default
    progress = Progress(**{name: other(row)})
    stored = json.loads(json.dumps(progress.stored()))
    assert (name in stored) == (row.stored != NOWHERE)
    if row.stored != NOWHERE:
        assert getattr(parse_progress(stored), name) == other(row)
        del stored[name]
        assert getattr(parse_progress(stored), name) == row.default
    if row.stored == CHECKPOINT and not isinstance(row.kind, Word):
        path = tmp_path / "state.odt"
        with odt.Trainer(MODEL, loss="categorical_crossentropy", **{name: other(row)}) as trainer:
            trainer.save_checkpoint(path)
            stored_fields = read_resume(path).training_info(trainer.session.recipe.graph)
        assert stored_fields[name] == other(row)


def test_a_whole_number_is_stored_as_a_float(tmp_path: Path) -> None:
    with odt.Trainer(MODEL, loss="categorical_crossentropy", clip_norm=1) as trainer:
        trainer.save_checkpoint(tmp_path / "state.odt")
    assert read_resume(tmp_path / "state.odt").progress.clip_norm == 1


def test_the_header_has_its_fields_in_the_order_of_earlier_files() -> None:
    paths = sorted(EARLIER.glob("**/*.odt"))
    assert paths
    for path in paths:
        data = path.read_bytes()
        _, _, size = FRONT.unpack_from(data)
        names = [*json.loads(data[FRONT.size :][:size])["progress"]]
        mine = [*Progress().stored()]
        assert [name for name in mine if name in names] == names
