"""Damaged data files and checkpoints give an answer or one line, within 2 s and 500 MB.

20 of each kind here; 20,000 in process and 150 through the command line in accept.
"""

import os
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from support.bounded import GROWTH, answers
from support.fuzzed_files import KINDS, Kind, build_model, prepare
from support.limits import SECONDS

from odt.errors import MAX_MESSAGE


def reads(kind: Kind, path: Path) -> list[bool]:
    """Whether each way of reading gives an answer; else it is one short line."""
    return [answers(partial(read, path)) for read in kind.read]


def fuzz(kind: Kind, folder: Path, count: int, seed: int) -> None:
    path = prepare(folder, kind)
    data = path.read_bytes()
    assert all(reads(kind, path)), "the sound file must be read"
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        path.write_bytes(kind.damage(data, rng))
        try:
            found.append(all(reads(kind, path)))
        except BaseException as e:
            kept = Path(os.environ.get("ODT_FUZZ_KEEP", folder)) / f"{number}-{path.name}"
            kept.write_bytes(path.read_bytes())
            e.add_note(f"mutation {number}, seed {seed}, kept as {kept}")
            raise
    assert count < 200 or 0 < sum(found) < count, "damage must be neither harmless nor all fatal"


@pytest.mark.parametrize("name", KINDS)
def test_damaged_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fuzz(KINDS[name], tmp_path, 20, seed=0)


@pytest.mark.accept
@pytest.mark.parametrize("name", KINDS)
def test_damaged_files_at_length(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    count = 20_000 if name == "features" else 20_000 // len(KINDS) + 1
    fuzz(KINDS[name], tmp_path, count, seed=1)


@pytest.mark.accept
@pytest.mark.parametrize("name", KINDS)
def test_damaged_files_on_the_command_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kind = KINDS[name]
    path = prepare(tmp_path, kind)
    build_model(tmp_path / "m.circle")
    data, rng = path.read_bytes(), np.random.default_rng(2)
    for number in range(150 // len(KINDS) + 1):
        path.write_bytes(kind.damage(data, rng))
        line = kind.commands[number % len(kind.commands)]
        words = line.format(f=path, d=tmp_path, m=tmp_path / "m.circle").split()
        begin = resource.getrusage(resource.RUSAGE_CHILDREN)
        run = subprocess.run(
            [sys.executable, "-m", "odt", *words], capture_output=True, text=True, check=False
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert run.returncode in (0, 1), (line, number, run.stderr)
        assert "Traceback" not in run.stderr, (line, number, run.stderr)
        errors = [each for each in run.stderr.splitlines() if each.startswith("Error: ")]
        if "data show" not in line:  # which also ends with 1 for NaN
            assert len(errors) == run.returncode, (line, number, run.stderr)
        assert all(len(each) <= MAX_MESSAGE + len("Error: ") for each in errors)
        assert after.ru_utime - begin.ru_utime < SECONDS + 2, (line, number)  # 2 s to start
        assert after.ru_maxrss << 10 < GROWTH + (300 << 20), (line, number)
