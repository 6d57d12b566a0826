"""What training prints, much of it as onert_train does, and the helpers that write it."""

import re
import threading
import time

import pytest
from support.limits import FOREVER

from odt.cli.output import report
from odt.core.planning.schedule import Schedule
from odt.core.storage import usage as stages
from odt.core.storage.usage import StageTimer, Usage
from odt.core.training.passes import Result
from odt.core.training.results import MemoryReport
from odt.errors import OptionError
from odt.text import plural, quantity, size, table
from odt.training.memory_text import memory_block

RULE = "==================================="  # 35


def test_the_parameter_block_is_onert_trains() -> None:
    text = report.parameter_block(
        learning_rate=0.001,
        batch_size=10,
        loss="mean_squared_error",
        reduction="sum_over_batch_size",
        optimizer="adam",
        num_of_trainable_ops=-1,
    )
    assert text == (
        "== training parameter ==\n"
        "- learning_rate        = 0.001\n"
        "- batch_size           = 10\n"
        "- loss_info            = {loss = mean squared error, reduction = sum over batch size}\n"
        "- optimizer            = adam\n"
        "- num_of_trainable_ops = -1\n"
        "========================"
    )


@pytest.mark.parametrize(
    ("rate", "text"), [(0.1, "0.1"), (1e-5, "1e-05"), (1 / 3, "0.333333"), (1.0, "1")]
)
def test_numbers_are_printed_as_cpp_streams_do(rate: float, text: str) -> None:
    block = report.parameter_block(
        learning_rate=rate,
        batch_size=1,
        loss="categorical_crossentropy",
        reduction="sum",
        optimizer="sgd",
        num_of_trainable_ops=2,
    )
    assert f"- learning_rate        = {text}\n" in block
    assert "{loss = categorical crossentropy, reduction = sum}" in block


def test_the_epoch_line_is_onert_trains() -> None:
    training = Result(2.30261, {}, steps=4, seconds=0.049364)
    line = report.epoch_line(1, 5, training, {"loss": 2.30261})
    assert line == "Epoch 1/5 - time: 12.341ms/step - loss: [0] 2.3026"


def test_metrics_and_validation_follow_on_the_epoch_line() -> None:
    training = Result(0.5, {}, steps=1, seconds=0.001)
    logs = {"loss": 0.5, "accuracy": 0.75, "val_loss": 0.25, "val_accuracy": 1.0}
    assert report.epoch_line(2, 2, training, logs) == (
        "Epoch 2/2 - time: 1.000ms/step - loss: [0] 0.5000 - accuracy: [0] 0.7500"
        " - val_loss: [0] 0.2500 - val_accuracy: [0] 1.0000"
    )


def test_small_losses_and_errors_have_digits_and_shares_have_decimals() -> None:
    small = {"mean_absolute_error": 0.0005, "r2": 0.00012, "categorical_accuracy": 0.0001}
    text = (
        "loss: [0] 1.234e-05 - mean_absolute_error: [0] 5.000e-04 - r2: [0] 0.0001"
        " - categorical_accuracy: [0] 0.0001"
    )
    assert report.figures_line(1.2345e-5, small) == text
    assert report.figures_line(1.0, {"val_loss": 1.2345e-5}).endswith("val_loss: [0] 1.234e-05")
    assert report.figures_line(0.001, {}) == "loss: [0] 0.0010"
    assert report.figures_line(0.0, {}) == "loss: [0] 0.0000"


def test_lines_as_of_onert_train_have_four_decimals() -> None:
    logs = {"loss": 1.2345e-5, "mean_absolute_error": 0.0005}
    logs |= {f"val_{name}": value for name, value in logs.items()}
    training = Result(1.2345e-5, {}, steps=1, seconds=0.001)
    assert report.epoch_line(1, 1, training, logs, as_one=True) == (
        "Epoch 1/1 - time: 1.000ms/step - loss: [0] 0.0000 - mean_absolute_error: [0] 0.0005"
        " - val_loss: [0] 0.0000 - val_mean_absolute_error: [0] 0.0005"
    )


def test_epochs_of_a_resumed_training_keep_their_numbers() -> None:
    assert "- Epoch 13      takes 1.0000 ms" in report.timing_table({}, [1.0], first=13)


def test_the_timing_table_is_onert_trains() -> None:
    times = {"MODEL_LOAD": 0.244, "PREPARE": 1.713, "EXECUTE": 829.235}
    assert report.timing_table(times, [160.187, 167.443]) == (
        f"{RULE}\n"
        "MODEL_LOAD   takes 0.2440 ms\n"
        "PREPARE      takes 1.7130 ms\n"
        "EXECUTE      takes 829.2350 ms\n"
        "- Epoch 1      takes 160.1870 ms\n"
        "- Epoch 2      takes 167.4430 ms\n"
        f"{RULE}"
    )


def test_the_memory_tables_are_onert_trains() -> None:
    usages = {"MODEL_LOAD": Usage(1, 2, 3), "PREPARE": Usage(4, 5, 6), "EXECUTE": Usage(7, 8, 9)}
    assert report.memory_tables(usages) == (
        "RSS\n- MODEL_LOAD   takes 1 kb\n- PREPARE      takes 4 kb\n- EXECUTE      takes 7 kb\n"
        f"{RULE}\n"
        "HWM\n- MODEL_LOAD   takes 2 kb\n- PREPARE      takes 5 kb\n- EXECUTE      takes 8 kb\n"
        f"{RULE}\n"
        "PSS\n- MODEL_LOAD   takes 3 kb\n- PREPARE      takes 6 kb\n- EXECUTE      takes 9 kb\n"
        f"{RULE}"
    )


def test_the_memory_block_gives_bytes() -> None:
    memory = MemoryReport(parameters=1000, slots=2000, gradients=500, arena=2500, separate=10000)
    text = memory_block(memory, Schedule(64, 16, 2, 1))
    assert re.search(r"^- arena +=  +2,500 bytes  2 workers, micro-batch 16; 25 %", text, re.M)
    assert re.search(r"^- gradients +=  +500 bytes  accumulated", text, re.M)
    assert re.search(r"^- total +=  +6,000 bytes$", text, re.M)


def test_the_memory_block_says_why_a_batch_is_not_split() -> None:
    memory = MemoryReport(parameters=8, slots=0, gradients=0, arena=8, separate=8)
    text = memory_block(memory, Schedule(4, 4, 1, 2, "MEAN (node 3) mixes samples"))
    assert "1 worker, micro-batch 4" in text
    assert "the batch is not split: MEAN (node 3) mixes samples" in text
    assert "immediate update of each weight" in text


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1600, "1.6 kB"), (14_200_000, "14 MB"), (3 * 10**9, "3.0 GB")],
)
def test_sizes_read_well(nbytes: int, text: str) -> None:
    assert size(nbytes) == text


def test_tables_are_aligned() -> None:
    rows = [("a", "NAME", "N"), ("long", "b", "12,000")]
    assert table(rows, right=(2,)) == ["a     NAME       N", "long  b     12,000"]
    assert table([]) == []


def test_stages_are_timed() -> None:
    run = StageTimer()
    with run.stage("PREPARE"):
        time.sleep(0.02)
    assert list(run.times_ms) == ["PREPARE"]
    assert run.times_ms["PREPARE"] >= 20
    assert run.usages == {}


def test_polling_sees_memory_that_a_stage_gives_back(monkeypatch: pytest.MonkeyPatch) -> None:
    polled = threading.Semaphore(0)

    def usage() -> Usage:
        now = measure()
        polled.release()
        return now

    measure, before = stages.usage, stages.usage()
    monkeypatch.setattr(stages, "usage", usage)
    run = StageTimer(poll_memory=True)
    with run.stage("EXECUTE"):
        block = bytearray(b"\1") * (64 << 20)
        while polled.acquire(blocking=False):
            pass
        for _ in range(2):  # the first may have begun before there was the block
            assert polled.acquire(timeout=FOREVER)
        del block
    grown = run.usages["EXECUTE"]
    assert grown.rss - before.rss > 60 << 10
    assert grown.pss - before.pss > 60 << 10
    assert grown.hwm - before.rss > 60 << 10


def test_polling_without_proc_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "STATUS", "/proc/self/no-such-file")
    with pytest.raises(OptionError, match=r"`mem_poll=`: needs /proc/self, but got: .*no-such"):
        StageTimer(poll_memory=True)


@pytest.mark.parametrize(("count", "text"), [(0, "files"), (1, "file"), (2, "files")])
def test_nouns_behind_numbers(count: int, text: str) -> None:
    assert plural(count, "file") == text
    assert quantity(count, "class", "classes") == f"{count} class{'es' * (count != 1)}"
