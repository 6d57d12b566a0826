"""A run killed at any moment loses no more than what came after its last checkpoint."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.paths import MLP_SM

from odt.core.checkpoints.resume import read_resume
from odt.core.storage.atomic_files import UNFINISHED

EPOCHS = 5
TRAIN = (
    *(sys.executable, "-m", "odt", "train", str(MLP_SM / "model.circle")),
    *("--load-input", str(MLP_SM / "input.bin"), "--load-expected", str(MLP_SM / "expected.bin")),
    *("--batch-size", "8", "--workers", "2", "--shuffle", "--epochs", str(EPOCHS)),
)


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Goes on from the checkpoint, if there is one."""
    more = ["--export-checkpoint", "c.odt", "--export-checkpoint-every", "step"]
    if (folder / "c.odt").exists():
        more += ["--checkpoint", "c.odt"]
    command = [*TRAIN, *more, "--export-circle", "out.circle"]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )


def first_line(run: subprocess.Popen[bytes]) -> float:
    """Waits for the first line of output; gives the time."""
    assert run.stdout is not None
    assert run.stdout.readline().startswith(b"Model Filename")
    return time.monotonic()


def finish(run: subprocess.Popen[bytes], folder: Path, wanted: bytes) -> None:
    """Waits for the end, which must be the same bits; leaves the folder as at the beginning."""
    _, errors = run.communicate()
    assert run.returncode == 0, errors
    assert (folder / "out.circle").read_bytes() == wanted
    assert sorted(p.name for p in folder.iterdir()) == ["c.odt", "out.circle"]
    for path in folder.iterdir():
        path.unlink()


def kill(times: int, seed: int, folder: Path) -> None:
    there = folder / "through"
    there.mkdir()
    with start(there) as run:
        seconds = -first_line(run)
        assert run.wait() == 0
        seconds += time.monotonic()
    wanted = (there / "out.circle").read_bytes()
    here = folder / "killed"
    here.mkdir()
    rng, killed, leftovers = random.Random(seed), 0, 0
    steps: set[int] = set()
    while killed < times or (len(steps) < 2 and killed < 10 * times):
        with start(here) as run:
            first_line(run)
            time.sleep(rng.uniform(0, 1.5 * seconds))
            if run.poll() is not None:
                finish(run, here, wanted)
                seconds *= 0.8
                continue
            run.kill()
        killed += 1
        leftovers += sum(p.name.startswith(UNFINISHED) for p in here.iterdir())
        known = len(steps)
        if (here / "c.odt").exists():
            steps.add(read_resume(here / "c.odt").progress.step)
        if len(steps) == known:
            seconds *= 1.2  # the machine may have become slower
    with start(here) as run:
        finish(run, here, wanted)
    print(f"{times} kills at steps {sorted(steps)}, {leftovers} of them in a file")
    assert len(steps) > 1  # the kills were not all at one place


def test_twenty_kills_lose_nothing(tmp_path: Path) -> None:
    kill(20, 1, tmp_path)


@pytest.mark.accept
def test_two_hundred_kills_lose_nothing(tmp_path: Path) -> None:
    kill(200, 2, tmp_path)
