"""Adapters of a shipped language model: losses, memory and time beside PEFT, and resuming.

Both train the 4-bit SmolLM2-135M on odt's pages: rank 8 on all linear layers, AdamW, one window of
tokens a step. PEFT dequantizes its weights to float32.
"""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from support.language import gguf_file, run
from support.paths import ROOT

import odt

pytestmark = pytest.mark.accept

SUPPORT = ROOT / "tests" / "support"
BUDGETS = {256: "368MB", 512: "415MB", 1024: "520MB"}  # of the whole process, by tokens
HELD_OUT = 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Converted models, adapters of rank 8 and data, by number of tokens."""
    folder = tmp_path_factory.mktemp("language")
    pages = folder / "pages"
    pages.mkdir()
    for page in sorted((ROOT / "docs").glob("*.md")):
        (pages / page.name).write_bytes(page.read_bytes())
    for tokens in BUDGETS:
        name = folder / f"{tokens}"
        odt.convert_gguf(gguf_file(), f"{name}.circle", context=tokens)
        odt.lora(f"{name}.circle", 8, alpha=16).save_adapters(f"{name}.npz")
        line = ["gen-datafile", "--source", pages, "--tokenizer", f"{name}.circle"]
        command("odt", *line, "--out-dir", name)
        x, y, held_x, held_y = (
            np.fromfile(name / f"{part}.bin", np.int32).reshape(-1, tokens)
            for part in ("train.input", "train.output", "test.input", "test.output")
        )
        for part, steps, held in (("whole", 200, HELD_OUT), ("steps", 12, 0)):
            windows = {"x": x[:steps], "y": y[:steps]}
            windows |= {"held_x": held_x[:held], "held_y": held_y[:held]}
            np.savez(f"{name}-{part}.npz", **windows)  # type: ignore[arg-type]  # names of arrays
    (folder / "peft").mkdir()
    line = ["lora", folder / "256.circle", "--adapters", folder / "256.npz"]
    command("odt", *line, "--output", folder / "peft" / "adapter_model.safetensors")
    return folder


def command(program: str, *words: object) -> str:
    """Runs a program and returns what it prints."""
    line = [sys.executable, "-m", "odt"] if program == "odt" else [program]
    done = subprocess.run([*line, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def ours(folder: Path, tokens: int, data: str, steps: int, budget: str = "") -> dict[str, Any]:
    name = folder / f"{tokens}"
    words = [f"{name}.circle", f"{name}.npz", f"{name}-{data}.npz", steps, budget]
    printed = command(sys.executable, SUPPORT / "train_language.py", *words)
    return dict(json.loads(printed.splitlines()[-1]))


def theirs(
    folder: Path, tokens: int, data: str, steps: int, precision: str = "float32"
) -> dict[str, Any]:
    words = [gguf_file(), folder / "peft", folder / f"{tokens}-{data}.npz", steps, precision]
    printed = run("peft_language.py", *words)
    return dict(json.loads(printed.splitlines()[-1]))


def test_losses_are_those_of_peft(folder: Path) -> None:
    """Ten losses, and the loss of samples held out after 200 steps."""
    here, there = ours(folder, 256, "whole", 200), theirs(folder, 256, "whole", 200)
    print("losses", here["losses"][:10], there["losses"][:10])
    print("held out", here["held_out"], there["held_out"])
    np.testing.assert_allclose(here["losses"][:10], there["losses"][:10], rtol=0, atol=1e-4)
    np.testing.assert_allclose(here["held_out"][0], there["held_out"][0], rtol=1e-4)
    assert here["held_out"][1] < 0.95 * here["held_out"][0]
    assert here["held_out"][1] < 1.01 * there["held_out"][1]


def test_memory_and_time(folder: Path) -> None:
    peaks, seconds = {}, {}
    for tokens, share in ((256, 0.20), (1024, 0.12)):
        runs = [
            (ours(folder, tokens, "steps", 4, BUDGETS[tokens]), theirs(folder, tokens, "steps", 4))
            for _ in range(3 if tokens == 256 else 1)
        ]
        peaks[tokens] = max(here["peak"] for here, _ in runs)
        least = min(there["peak"] for _, there in runs)
        steps = [
            [s for run in part for s in run["seconds"][1:]] for part in zip(*runs, strict=True)
        ]
        seconds[tokens] = median(steps[0]) / median(steps[1])
        print(tokens, "peak", peaks[tokens], least, "step", median(steps[0]), median(steps[1]))
        print(tokens, "seconds until the first step", [here["planned"] for here, _ in runs])
        assert peaks[tokens] <= share * least
    peaks[512] = ours(folder, 512, "steps", 2, BUDGETS[512])["peak"]
    fast = theirs(folder, 256, "steps", 4, "bfloat16")["seconds"]
    print("512 peak", peaks[512], "bfloat16 step", median(fast[1:]))
    assert peaks[256] <= 350e6
    assert peaks[512] - peaks[256] < 60e6
    assert peaks[1024] <= 500e6
    assert seconds[256] <= 0.70


def test_planning_takes_three_seconds(folder: Path) -> None:
    line = ["-m", "odt", "plan", folder / "256.circle", "--adapters", folder / "256.npz"]
    line += ["--loss", "sparse_categorical_crossentropy", "--optimizer", "adamw"]
    line += ["--batch-size", 1, "--memory-budget", BUDGETS[256]]
    script = "import os, sys, subprocess\nassert not subprocess.call(sys.argv[1:])\n"
    script += "times = os.times()\nprint(times.children_user + times.children_system)"
    printed = command(sys.executable, "-c", script, sys.executable, *line)
    assert float(printed.splitlines()[-1]) < 3, printed


def test_a_killed_run_resumes_with_the_same_bits(folder: Path, tmp_path: Path) -> None:
    name = folder / "256"
    line: list[object] = [sys.executable, "-m", "odt", "train", f"{name}.circle"]
    line += ["--adapters", f"{name}.npz", "--data", name, "--data-length", 6, "--epochs", 4]
    line += ["--loss", "sparse_categorical_crossentropy", "--optimizer", "adamw"]
    line += ["--learning-rate", 0.001, "--batch-size", 1, "--seed", 3]

    def line_of(part: str, *words: object) -> list[str]:
        exports = ["--export-checkpoint", tmp_path / f"{part}.odt"]
        exports += ["--export-adapters", tmp_path / f"{part}.npz"]
        return [str(word) for word in (*line, *exports, *words)]

    command(*line_of("whole"))
    checkpoint = tmp_path / "killed.odt"
    process = subprocess.Popen(line_of("killed"), stdout=subprocess.DEVNULL)
    while not checkpoint.exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    command(*line_of("killed", "--checkpoint", checkpoint))
    with np.load(tmp_path / "whole.npz") as whole, np.load(tmp_path / "killed.npz") as resumed:
        assert all(np.array_equal(whole[key], resumed[key]) for key in whole)
