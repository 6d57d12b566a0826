"""Checkpoints and circle+ files of commit db08282 load, and training goes on as it did then.

Kernels have changed the order of their sums since then, so that last bits may differ.
"""

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.paths import TESTS

from odt.core.checkpoints.resume import read_resume
from odt.kernels.native.library import instruction_sets

FILES = TESTS / "written_by_db08282"
CASES: dict[str, dict[str, Any]] = json.loads((FILES / "cases.json").read_text(encoding="utf-8"))
SHAPES = {"mlp": ((12,), 3), "cnn": ((3, 12, 12), 5)}
# The files were computed by the compiled kernels for any x86-64 processor.
NUMBER = r"\d\.\d{4}"
SAME_KERNELS = platform.machine() in ("x86_64", "AMD64") and "base" in instruction_sets()


def write_samples(model: str, folder: Path) -> list[str]:
    """Writes the data of all runs; returns the options that name it."""
    shape, classes = SHAPES[model]
    k = np.arange(22 * np.prod(shape))
    x = ((k * 7919 % 31 - 15) / 16).astype(np.float32).reshape(22, *shape)
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", np.eye(classes, dtype=np.float32)[np.arange(22) * 5 % 7 % classes])
    return ["--load-input", "x.npy", "--load-expected", "y.npy"]


def odt(folder: Path, *words: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "odt", *map(str, words)],
        cwd=folder,
        env={**os.environ, "ODT_KERNELS": "base" if SAME_KERNELS else "numpy"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (SAME_KERNELS and "results will differ" in done.stderr)
    return done.stdout


def train(
    folder: Path, case: dict[str, Any], model: Path, words: Sequence[str | Path]
) -> list[str]:
    """Trains as db08282 did; returns the epoch lines without times."""
    data = write_samples(case["model"], folder)
    if "--checkpoint" not in words or case["checkpoint"].endswith(".ckpt"):
        words = [*words, "--drop-last", "--no-shuffle"]  # as db08282, whose .odt files say so
    printed = odt(folder, "train", model, *data, *words, "--export-checkpoint", "after.odt")
    lines = [line for line in printed.splitlines() if re.match("Epoch [1-9]", line)]
    return [re.sub(r" - time: [\d.]+ms/step", "", line) for line in lines]


def compare_lines(found: list[str], recorded: list[str]) -> None:
    """Epoch lines, whose losses have four decimals."""
    if SAME_KERNELS:
        assert found == recorded
    ours, theirs = ([float(w) for w in re.findall(NUMBER, "".join(t))] for t in (found, recorded))
    assert ours == pytest.approx(theirs, abs=1e-3)


def compare(found: Path, recorded: Path) -> None:
    """Two checkpoints: all settings and arrays."""
    ours, theirs = read_resume(found).checkpoint, read_resume(recorded).checkpoint
    assert ours is not None
    assert theirs is not None
    assert (ours.optimizer, ours.hyper_parameters) == (theirs.optimizer, theirs.hyper_parameters)
    assert (ours.entries, ours.properties) == (theirs.entries, theirs.properties)
    # db08282 tied all tensors of one buffer, and did not store the best epoch.
    tied = replace(ours.progress, tied_by_buffer=True, best=(), monitor="")
    assert replace(tied, kernels=theirs.progress.kernels) == theirs.progress
    for entry, a, b in zip(ours.entries, ours.arrays, theirs.arrays, strict=True):
        rtol, atol = (2e-6, 2e-8) if SAME_KERNELS else (1e-3, 1e-5)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=str(entry))


@pytest.mark.parametrize("name", CASES["checkpoints"])
def test_training_resumes_from_an_earlier_checkpoint(name: str, tmp_path: Path) -> None:
    case = CASES["checkpoints"][name]
    model = TESTS / "golden_torch" / f"{case['model']}.circle"
    words = ["--epochs", "4", "--checkpoint", FILES / case["checkpoint"], *case["resumed"].split()]
    compare_lines(train(tmp_path, case, model, words), case["epochs"])
    compare(tmp_path / "after.odt", FILES / f"{name}.after.odt")


@pytest.mark.parametrize("name", CASES["circle_plus"])
def test_an_earlier_circle_plus_file_trains_as_it_did(name: str, tmp_path: Path) -> None:
    case = CASES["circle_plus"][name]
    file = FILES / f"{name}_plus.circle"
    assert odt(tmp_path, "circle-plus-gen", file).splitlines() == case["training_info"]
    words = ["--epochs", "2", "--micro-batch", "2", "--workers", "1"]
    compare_lines(train(tmp_path, case, file, words), case["epochs"])
    compare(tmp_path / "after.odt", FILES / f"{name}_plus.after.odt")
