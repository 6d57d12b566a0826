"""What Windows and macOS lack is not needed: each is taken away here."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.paths import MODELS

from odt.core.formats.reader import read_model
from odt.core.planning.schedule import available_cores
from odt.core.storage import mapped_files
from odt.core.storage.atomic_files import write_atomically

SINE = MODELS / "tflm-hello-world-sine-float.tflite"


def test_files_are_written_without_fchmod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fchmod")
    write_atomically(tmp_path / "f", [b"ab", b"c"])
    assert (tmp_path / "f").read_bytes() == b"abc"


def test_all_cores_are_used_where_there_is_no_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert available_cores() == 7


def test_models_are_read_where_a_map_would_hold_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = read_model(SINE)
    monkeypatch.setattr(mapped_files, "MAPPED_CAN_BE_REPLACED", False)
    read = read_model(SINE)
    assert isinstance(read.data.obj, bytes)
    assert not isinstance(mapped.data.obj, bytes)
    assert read.data == mapped.data
    read.check_file()


def test_a_terminal_of_few_characters_is_printed_to(tmp_path: Path) -> None:
    model = tmp_path / "m→.tflite"
    shutil.copy(SINE, model)
    command = [sys.executable, "-m", "odt", "inspect", str(model)]
    env = {**os.environ, "PYTHONIOENCODING": "cp1252"}
    done = subprocess.run(command, env=env, capture_output=True, check=True)
    assert b"m?.tflite" in done.stdout
