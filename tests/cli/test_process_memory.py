"""`odt plan` predicts the resident size of the whole process of `odt train`."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from support.paths import GOLDEN

import odt
from odt.training.session import COUNTED, process_nbytes

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
# Prints the modules that training imports after a budget has counted those before.
LATE = """
import sys
from odt.cli.main import main
from odt.training import session

count, before = session.process_nbytes, set()
def counted(*models):
    before.update(sys.modules)
    return count(*models)
session.process_nbytes = counted
try:
    main(sys.argv[1:])
except SystemExit as e:
    assert e.code == 0
assert before
print(sorted(set(sys.modules) - before))
"""
TOLERANCE = 0.1  # as docs/devices.md says
ROOM = 1_000_000  # bytes by which processes of one command differ
NO_PROC = not Path("/proc/self/status").exists()
TRIES = 3  # workers that wait for a core on a busy machine touch fewer pages at once


def run(*words: object) -> tuple[str, int]:
    """What a command prints, and the most that was resident in its process, in bytes."""
    line = [sys.executable, "-c", RUN, *map(str, words)]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    return done.stdout, int(done.stdout.split()[-1]) * 1024


@pytest.mark.skipif(NO_PROC, reason="only Linux has /proc")
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


@pytest.mark.skipif(NO_PROC, reason="only Linux has /proc")
@pytest.mark.parametrize("stored", ["float32", "int8"])
def test_a_budget_holds_the_export(stored: str, tmp_path: Path) -> None:
    """Of a model whose file has several MB, at nearly the smallest possible budget."""
    x, y, model = tmp_path / "x.npy", tmp_path / "y.npy", tmp_path / "m.tflite"
    np.save(x, np.random.default_rng(0).random((32, 784), np.float32))
    np.save(y, np.eye(10, dtype=np.float32)[np.arange(32) % 10])
    shape = ("--input-shape", 784, "--outputs", 10, "--hidden", "1500,300")
    run("new", "mlp", *shape, "--seed", 1, "-o", model)
    if stored == "int8":
        run("quantize", model, "--calibrate", x, "-o", tmp_path / "int8.tflite")
        model = tmp_path / "int8.tflite"
    line = ["train", model, "--load-input", x, "--load-expected", y, "--batch-size", 16]
    line += ["--epochs", 1, "--export-tflite", tmp_path / "out.tflite", "--memory-budget"]
    refused = subprocess.run(
        [sys.executable, "-m", "odt", *map(str, line), "1MB"],
        capture_output=True,
        text=True,
        check=False,
    )
    (least,) = re.findall(r"must be at least ([\d.]+)MB", refused.stderr)
    budget = round(float(least) * 1e6) + ROOM
    found = []
    for _ in range(TRIES):
        _, most = run(*line, budget)
        found.append(most)
        if most <= budget + ROOM:
            return
    raise AssertionError(f"the process took these bytes of {budget}: {found}")


@pytest.mark.parametrize(
    ("option", "name"), [("--run-dir", "run"), ("--export-tflite", "m.tflite"), ("--log", "l.csv")]
)
def test_a_budget_counts_all_modules(option: str, name: str, tmp_path: Path) -> None:
    """Those of a run's folder took 0.8 MB more than the budget."""
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, np.zeros((8, 28, 28, 1), np.float32))
    np.save(y, np.eye(10, dtype=np.float32)[np.arange(8)])
    line = ["train", MODEL, "--load-input", x, "--load-expected", y, "--epochs", 2]
    line += ["--loss", "categorical-crossentropy", "--batch-size", 4, "--memory-budget", "200MB"]
    line += [option, tmp_path / name]
    done = subprocess.run(
        [sys.executable, "-c", LATE, *map(str, line)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.skipif(NO_PROC, reason="only Linux has /proc")
def test_pages_of_the_model_are_counted_once(tmp_path: Path) -> None:
    """Those that were read before are not in the process and in the forecast, too."""
    path = tmp_path / "m.tflite"
    odt.new_model("mlp", input_shape=(784,), outputs=10, hidden=(4000,)).save(path)
    size = path.stat().st_size
    for name in COUNTED:
        import_module(name)
    with odt.Trainer(path, loss="mse", batch_size=1, memory_budget=10**9) as t:
        before = process_nbytes(t.session.recipe.model)
        assert all(np.isfinite(values).all() for values in t.model.parameters.values())
        assert process_nbytes() > before + 0.9 * size
        assert t.session.build().process < before + 0.2 * size
        assert all(np.isfinite(values).all() for values in t.model.parameters.values())
        forecast = odt.plan(t.model, loss="mse", batch_size=1)
        after = process_nbytes(t.session.recipe.model)
        assert forecast.process - forecast.peak < after + 0.2 * size
