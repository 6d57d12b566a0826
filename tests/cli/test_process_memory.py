"""`odt plan` predicts the resident size of the whole process of `odt train`."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.paths import GOLDEN

MODEL = str(GOLDEN / "mnist/model.circle")
RUN = """
import sys
from odt.cli.main import main

try:
    main(sys.argv[1:])
except SystemExit as e:
    assert e.code == 0
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")][0])
"""
TOLERANCE = 0.1  # as docs/devices.md says
TRIES = 3  # workers that wait for a core on a busy machine touch fewer pages at once


def run(*words: object) -> tuple[str, int]:
    """What a command prints, and the most that was resident in its process, in bytes."""
    line = [sys.executable, "-c", RUN, *map(str, words)]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    return done.stdout, int(done.stdout.split()[-1]) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux has /proc")
@pytest.mark.parametrize("batch", [32, 256])
def test_the_process_of_training_has_the_predicted_size(batch: int, tmp_path: Path) -> None:
    count = 2 * batch
    np.save(tmp_path / "x.npy", np.zeros((count, 28, 28, 1), np.float32))
    np.save(tmp_path / "y.npy", np.eye(10, dtype=np.float32)[np.arange(count) % 10])
    data = ("--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "y.npy")
    options = ("--loss", "categorical-crossentropy", "--batch-size", batch)
    found = []
    for _ in range(TRIES):
        text, _ = run("plan", MODEL, *options)
        (predicted,) = re.findall(r"^process +([\d,]+) bytes", text, re.MULTILINE)
        expected = int(predicted.replace(",", ""))
        _, most = run("train", MODEL, *data, *options, "--epochs", 1)
        found.append(most / expected)
        if abs(found[-1] - 1) < TOLERANCE:
            return
    raise AssertionError(f"the process took these multiples of what was predicted: {found}")
