"""Signals and a lost standard output cost nothing of what was to be written."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.limits import FOREVER
from support.paths import MLP_SM
from support.processes import start, wait_for

from odt.cli.output.signals import stop_on_signals

MODEL, X = MLP_SM / "model.circle", MLP_SM / "input.bin"
ODT = (sys.executable, "-m", "odt")
DATA = ("--load-input", str(X), "--load-expected", str(MLP_SM / "expected.bin"))
TRAIN = (*ODT, "train", str(MODEL), *DATA)
FULL = Path("/dev/full")
posix = pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="signals are POSIX's")
full = pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
LOST = (
    "Error: standard output: must accept all output, but got: {}. "
    "All requested files are written.\n"
)


def closed(process: subprocess.Popen[str], beginning: str) -> tuple[int, str]:
    """Exit status and errors of a process whose reader goes after a line."""
    wait_for(process, beginning)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    return process.wait(timeout=FOREVER), errors


@posix
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_after_the_step_and_exports(name: str, tmp_path: Path) -> None:
    out, state = tmp_path / "out.circle", tmp_path / "state.odt"
    exports = ("--export-circle", str(out), "--export-checkpoint", str(state))
    process = start(*TRAIN, "--epochs", "1000000", *exports)
    wait_for(process, "Epoch 3/")
    number = getattr(signal, name)
    process.send_signal(number)
    _, errors = process.communicate(timeout=FOREVER)
    assert process.returncode == 128 + number  # what shells report for the signal
    said = "Ctrl-C" if name == "SIGINT" else name
    assert errors == f"Stopped by {said}; all requested files are written.\n"
    assert out.read_bytes() != MODEL.read_bytes()
    assert state.exists()


@posix
def test_signals_ignored_by_nohup_stay_ignored() -> None:
    process = start(*TRAIN, "--epochs", "1000000", ignored=signal.SIGHUP)
    wait_for(process, "Epoch 1/")
    process.send_signal(signal.SIGHUP)
    time.sleep(0.1)
    wait_for(process, "Epoch 2")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=FOREVER)
    assert process.returncode == 128 + signal.SIGTERM


@posix
def test_a_second_signal_terminates_the_process() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with stop_on_signals() as caught:
            signal.raise_signal(signal.SIGTERM)
            assert (caught, seen) == ([signal.SIGTERM], [])
            signal.raise_signal(signal.SIGTERM)
        assert (caught, seen) == ([signal.SIGTERM], [signal.SIGTERM])
    finally:
        signal.signal(signal.SIGTERM, before)


@posix
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_leaves_no_file_of_gen_datafile(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow.py").write_text(
        "import time\n"
        "def samples(part):\n"
        "    for k in range(100):\n"
        "        yield [float(k)], k % 2\n"
        "        print(k, flush=True)\n"
        "        time.sleep(0.1 if k > 5 else 0)\n"
    )
    words = ["--source", "slow:samples", "--split", "train", "-o", "out", "--output-format", "npz"]
    process = start(sys.executable, "-m", "odt", "gen-datafile", *words)
    wait_for(process, "8")
    process.send_signal(getattr(signal, name))
    _, errors = process.communicate(timeout=FOREVER)
    assert not (tmp_path / "out").exists()
    if name == "SIGINT":
        assert process.returncode != 0
    else:
        assert process.returncode == 128 + getattr(signal, name)
        assert errors == f"Stopped by {name}; no file is written.\n"


@posix
def test_training_continues_when_stdout_is_closed(tmp_path: Path) -> None:
    through, out, state = (tmp_path / name for name in ("a.circle", "b.circle", "c.odt"))
    subprocess.run(
        [*TRAIN, "--epochs", "3", "--export-circle", str(through)], check=True, capture_output=True
    )
    exports = ("--export-circle", str(out), "--export-checkpoint", str(state))
    process = start(*TRAIN, "--epochs", "3", *exports)
    assert closed(process, "Model Filename") == (1, LOST.format("broken pipe"))
    assert out.read_bytes() == through.read_bytes()
    assert state.exists()


@full
def test_training_continues_when_stdout_is_full(tmp_path: Path) -> None:
    out = tmp_path / "out.circle"
    with FULL.open("wb") as nowhere:
        done = subprocess.run(
            [*TRAIN, "--epochs", "1", "--export-circle", str(out)],
            stdout=nowhere,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, LOST.format("no space left on device"))
    assert out.read_bytes() != MODEL.read_bytes()


@posix
def test_training_needs_neither_output(tmp_path: Path) -> None:
    """As with `>&- 2>&-`: both are closed before it begins."""
    out = tmp_path / "out.circle"
    words = [*TRAIN, "--epochs", "1", "--export-circle", str(out)]
    closing = "import os, sys; os.close(1); os.close(2); os.execv(sys.argv[1], sys.argv[1:])"
    assert subprocess.run([sys.executable, "-c", closing, *words], check=False).returncode == 0
    assert out.read_bytes() != MODEL.read_bytes()


@posix
def test_training_that_writes_nothing_ends_with_its_reader() -> None:
    status, errors = closed(start(*TRAIN, "--epochs", "1000000"), "Model Filename")
    assert status == 1
    assert errors.startswith("Warning: nothing will be written.")
    assert errors.count("\n") == 1


@full
@pytest.mark.parametrize("words", [["inspect", str(MODEL)], ["--help"], ["inspect", "--help"]])
def test_a_full_output_is_one_line(words: list[str]) -> None:
    with FULL.open("wb") as nowhere:
        done = subprocess.run(
            [*ODT, *words],
            stdout=nowhere,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (
        1,
        LOST.partition(". ")[0].format("no space left on device") + "\n",
    )


@posix
def test_predictions_are_written_when_their_reader_goes(tmp_path: Path) -> None:
    rows = np.tile(np.fromfile(X, "<f4"), 60)
    rows.tofile(tmp_path / "x.bin")
    words = ("--load-input", str(tmp_path / "x.bin"), "--top", "3")
    process = start(*ODT, "predict", str(MODEL), *words, "--output", str(tmp_path / "p.npy"))
    assert closed(process, "0: ") == (1, LOST.format("broken pipe"))
    assert len(np.load(tmp_path / "p.npy")) == rows.size // 784
