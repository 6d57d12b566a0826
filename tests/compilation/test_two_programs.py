"""Two C programs in one executable."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.c_programs import COMPILER, Program, batches, compile_objects, one
from support.paths import ROOT

import odt
from odt.kernels.native.library import is_available

pytestmark = pytest.mark.skipif(not (COMPILER and is_available()), reason="no C compiler")
MODEL = ROOT / "tests/models/planestrike-policy-dense.tflite"
BATCH = 4
PROGRAMS: dict[str, dict[str, Any]] = {
    "one": {"loss": "huber", "optimizer": odt.Adam(1e-3), "batch_size": BATCH},
    "other": {"loss": "mean_squared_error", "optimizer": odt.SGD(0.01), "batch_size": BATCH},
}
# Calls both from C++.
CALLER = """#include "one.h"
#include "other.h"

extern "C" void init_both() {
  one_init();
  other_init();
}
"""


def test_two_programs_in_one_executable_train_to_the_bits_of_the_base_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They call some kernels alike, and each has its own."""
    monkeypatch.setenv("ODT_KERNELS", "base")
    objects: list[Path] = []
    for name, options in PROGRAMS.items():
        folder = tmp_path / name
        odt.compile(MODEL, folder, name=name, **options)
        flags = json.loads((folder / "manifest.json").read_text())["flags"]
        compile_objects([*folder.glob(f"{name}*.c"), *folder.glob("kernels/*.c")], flags, folder)
        objects += folder.glob("*.o")
    if compiler := shutil.which("g++"):
        (tmp_path / "caller.cpp").write_text(CALLER)
        objects.append(tmp_path / "caller.o")
        headers = "-I", tmp_path / "one", "-I", tmp_path / "other"
        words = "-Wall", "-Wextra", "-Werror", "-fPIC", *headers
        subprocess.run(
            [compiler, *words, "-c", tmp_path / "caller.cpp", "-o", objects[-1]], check=True
        )
    program = tmp_path / "program.so"
    subprocess.run([COMPILER, "-shared", *objects, "-lm", "-o", program], check=True)
    for name in PROGRAMS:
        shutil.copy(program, tmp_path / name)
    programs = {name: Program(tmp_path / name) for name in PROGRAMS}
    trainers = {
        name: odt.Trainer(MODEL, **options, workers=1, micro_batch=BATCH)
        for name, options in PROGRAMS.items()
    }
    data = {name: batches(t, PROGRAMS[name]["loss"], BATCH, 3) for name, t in trainers.items()}
    for each in programs.values():
        each.init()
    for step in range(3):
        for name, trainer in trainers.items():
            x, y = data[name][step]
            expected = float(np.float32(trainer.train_on_batch(one(x), one(y))["loss"]))
            assert programs[name].loss("train", x, y) == (0, expected)
    for name, trainer in trainers.items():
        weights = [w["name"] for w in programs[name].manifest["weights"]]
        expected_bytes = b"".join(trainer.weights[n].tobytes() for n in weights)
        assert programs[name].weights() == expected_bytes
        trainer.close()
