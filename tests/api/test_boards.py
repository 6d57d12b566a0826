"""Runs on other machines: rates, their file, and the time that follows from them."""

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.paths import GOLDEN, MODELS

import odt
from odt.cli.main import main
from odt.training import run_time
from odt.training.boards import BOARDS, find_board
from odt.training.run_time import RunSize, RunTime, measured_time
from odt.training.session import process_nbytes

RESNET = MODELS / "mlperf-tiny-resnet8-cifar10.tflite"
MNIST = GOLDEN / "mnist" / "model.circle"
OPTIONS: dict[str, Any] = {"data_length": 640, "epochs": 5, "batch_size": 32}
BOARD = BOARDS["pi-4"]


def row(folder: Path, **changes: Any) -> Path:
    """Writes the row of a board with changes."""
    path = folder / "board.json"
    path.write_text(json.dumps({**asdict(BOARD), **changes}))
    return path


def planned(board: Path | str, **options: Any) -> RunTime:
    found = odt.plan(RESNET, board=board, **{**OPTIONS, **options}).time
    assert found is not None
    return found


def test_nothing_is_measured_for_a_board(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise AssertionError("a step ran")

    monkeypatch.setattr("odt.training.planning.measured_time", fail)
    forecast = odt.plan(RESNET, board="pi-4", **OPTIONS)
    assert odt.plan(RESNET, board=BOARD, **OPTIONS).time == forecast.time
    assert forecast.limit == BOARD.ram
    assert forecast.process == BOARD.process + forecast.peak
    assert "Fits: peak about " in forecast.verdict
    assert forecast.verdict.endswith(", from estimated rates of pi-4.")


def test_a_machine_twice_as_fast_takes_half_the_time(tmp_path: Path) -> None:
    """Twice as many operations and bytes per second; half the seconds of start, calls and steps."""
    slow = planned("pi-4")
    rates = {
        name: 2 * getattr(BOARD, name) for name in ("dense", "convolution", "depthwise", "memory")
    }
    seconds = {name: getattr(BOARD, name) / 2 for name in ("start", "call", "numpy_call", "step")}
    fast = planned(row(tmp_path, **rates, **seconds))
    # Calls of 100 us and more are shared by cores: some are not any more.
    assert slow.step / fast.step == pytest.approx(2, rel=0.2)
    assert slow.total / fast.total == pytest.approx(2, rel=0.2)


def test_more_cores_and_fewer_epochs_take_less_time(tmp_path: Path) -> None:
    one = row(tmp_path, threads=1)
    assert planned("pi-4").step < planned(one).step
    assert planned("pi-4", epochs=1).total < planned("pi-4").total
    cached = planned("pi-4", trainable=odt.last(2), cache_frozen="ram")
    assert cached.first_epoch > 3 * cached.epoch


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dense": 0}, "dense must be a number above 0, but got 0"),
        ({"memory": "fast"}, "memory must be a number above 0"),
        ({"name": 4}, "name must be text"),
        ({"clock": 1e9}, "must be JSON with the fields name, processor, "),
    ],
)
def test_a_row_with_other_values_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(odt.OptionError, match=message):
        find_board(row(tmp_path, **changes))


def test_what_is_no_board_is_refused(tmp_path: Path) -> None:
    with pytest.raises(odt.OptionError, match=r"must be one of pi-zero-2, pi-3, .* but got pi-9"):
        odt.plan(RESNET, board="pi-9")
    with pytest.raises(odt.OptionError, match=r"but got Pi4\. Did you mean pi-4\?"):
        odt.plan(RESNET, board="Pi4")
    with pytest.raises(odt.OptionError, match=r"but got esp32$"):
        odt.plan(RESNET, board="esp32")
    with pytest.raises(odt.OptionError, match="`board=`: must be left out with `target=`"):
        odt.plan(RESNET, board="pi-4", target="generic")
    with pytest.raises(odt.OptionError, match=r"must be an `odt\.Board` or a path, but got 4"):
        odt.plan(RESNET, board=4)  # type: ignore[arg-type]
    with pytest.raises(odt.OptionError, match="Board: dense must be a number above 0"):
        odt.plan(RESNET, board=replace(BOARD, dense=0))
    with pytest.raises(odt.OptionError, match="Board: threads must be a whole number above 0"):
        odt.plan(RESNET, board=replace(BOARD, threads=1.5))  # type: ignore[arg-type]
    with pytest.raises(odt.OptionError, match="Board: memory must be a number above 0"):
        odt.plan(RESNET, board=replace(BOARD, memory=float("inf")))
    path = tmp_path / "board.json"
    path.write_text("rates")
    with pytest.raises(odt.ModelError, match=r"board\.json: must be JSON of `odt benchmark-board`"):
        find_board(path)


def test_a_measured_row_predicts_steps_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a factor of 2.5 on one core, in time of the processor."""
    monkeypatch.setattr(run_time, "TRAINING", 0.1)
    monkeypatch.setattr(run_time, "EVALUATION", 0.01)
    path = tmp_path / "here.json"
    result = CliRunner().invoke(main, ["benchmark-board", "--name", "here", "-o", str(path)])
    assert result.exit_code == 0, result.output
    board = find_board(path)
    assert (board.name, board.basis) == ("here", "measured")
    assert json.loads(str(board)) == json.loads(path.read_text())
    # Of a new process: not of this one, which has run tests and imported more.
    assert board.start < time.process_time()
    assert board.process < process_nbytes()
    options: dict[str, Any] = {"batch_size": 16, "workers": 1, "loss": "categorical_crossentropy"}
    for model in (RESNET, MNIST):
        alone = row(tmp_path, **asdict(replace(board, threads=1)))
        there = odt.plan(model, board=alone, data_length=160, **options)
        assert there.time is not None
        assert there.time.basis == "from measured rates of here"
        micro_batch = there.micro_batch
        with odt.Trainer(model, **options, micro_batch=micro_batch) as trainer:
            size = RunSize(160, 0, 1, False)
            here = measured_time(trainer, None, size, 0.0, time.process_time)
        assert 0.4 < there.time.step / here.step < 2.5


def test_the_command_says_what_does_not_fit(tmp_path: Path) -> None:
    words = ["plan", str(RESNET), "--data-length", "640", "--board"]
    result = CliRunner().invoke(main, [*words, str(row(tmp_path, ram=40_000_000))])
    assert result.exit_code == 0, result.output
    last = result.stdout.splitlines()[-1]
    assert last.startswith("Does not fit: peak about ")
    assert "but there are 40 MB. --memory-budget trains in less." in last
    numbers = json.loads(CliRunner().invoke(main, [*words, "pi-zero-2", "--json"]).stdout)
    assert numbers["limit"] == 512 * 2**20
    assert numbers["time"]["basis"] == "from estimated rates of pi-zero-2"
