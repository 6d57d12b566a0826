"""Progress bars: on a terminal only, after two seconds, with loss and time left."""

import io
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.paths import MLP_SM
from support.terminal import on_terminal

from odt import progress
from odt.progress import Progress

MODEL = str(MLP_SM / "model.circle")
DATA = ["--load-input", str(MLP_SM / "input.bin")]
LABELED = [*DATA, "--load-expected", str(MLP_SM / "expected.bin")]
TRAIN = ["train", MODEL, *LABELED, "--epochs", "2", "--validation-split", "0.25"]


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def timeless(text: str) -> str:
    return re.sub(r"time: [\d.]+ms|takes [\d.]+ ms", "", text)


def test_training_shows_epoch_loss_and_time_left() -> None:
    """On the terminal alone: standard output stays as it is."""
    shown = on_terminal(*TRAIN, "--export-circle", "/dev/null/x")
    assert shown.status == 1
    assert "epoch" not in shown.errors, "refused before training"
    shown = on_terminal(*TRAIN)
    assert shown.status == 0
    assert re.search(r"epoch 1/2: .*\| \d/6 \[\d\d:\d\d<\d\d:\d\d, .*loss=\d", shown.errors)
    assert re.search(r"epoch 2/2: .*\| \d/6 ", shown.errors)
    assert re.search(r"epoch 0: .*\| ", shown.errors)
    assert re.search(r"validation: 100%.* 24/24 ", shown.errors)
    command = [sys.executable, "-m", "odt", *TRAIN]
    plain = subprocess.run(command, capture_output=True, text=True, check=True)
    assert timeless(shown.stdout) == timeless(plain.stdout)
    assert plain.stderr.count("\n") == 1  # the warning that nothing is written


def test_the_loss_beside_the_bar_is_the_mean_of_the_epoch() -> None:
    shown = on_terminal(*TRAIN, "--batch-size", "24")
    (loss,) = re.findall(r"Epoch 1/2 .* - loss: \[0\] ([\d.]+)", shown.stdout)
    *_, last = re.findall(r"epoch 1/2: [^\r]*loss=([\d.]+)", shown.errors)
    assert last == loss


@pytest.mark.parametrize("command", ["eval", "predict", "verify"])
def test_passes_over_the_data_show_a_bar(command: str, tmp_path: Path) -> None:
    more = {"eval": LABELED[2:], "predict": ["--output", str(tmp_path / "y.npy")]}
    model = [MODEL, MODEL] if command == "verify" else [MODEL]
    shown = on_terminal(command, *model, *DATA, *more.get(command, []))
    assert shown.status == 0
    assert re.search(rf"{command}: 100%.* 96/96 .*samples/s\]", shown.errors)


def test_the_search_for_a_rate_shows_a_bar() -> None:
    shown = on_terminal("train", MODEL, *LABELED, "--find-rate")
    assert re.search(r"find rate:  50%.* 101/201 .*step/s\]", shown.errors)


def test_a_warning_has_a_line_of_its_own() -> None:
    shown = on_terminal(*TRAIN, "--learning-rate", "9")
    (line,) = (x for x in shown.errors.split("\n") if "is above" in x and "epoch 1:" in x)
    *_, cleared, text, end = line.split("\r")
    assert cleared.strip() == ""
    assert text.startswith("Warning: epoch 1: ")
    assert end == ""


def test_predictions_that_are_printed_need_no_bar() -> None:
    assert on_terminal("predict", MODEL, *DATA, "--top", "1").errors == ""


def test_a_bar_appears_after_two_seconds_and_counts_from_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream, now = Terminal(), [100.0]
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    bar = Progress()
    bar.begin("train", 100)
    now[0] = 101.9
    bar.move(19)
    assert stream.getvalue() == ""
    now[0] = 102.1
    bar.move(21)
    time.sleep(0.15)  # tqdm draws at most every 0.1 seconds
    bar.move(100)
    bar.close()
    assert "train: 100%|" in stream.getvalue()
    assert re.search(r"100/100 \[00:0[2-9]<", stream.getvalue())


def test_no_terminal_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "DELAY", -1.0)
    bar = Progress()
    bar("train", 1, 2)
    bar.rename("epoch 2")
    bar.close()
    assert stream.getvalue() == ""
