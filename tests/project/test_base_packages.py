"""Commands work with only the base packages, and those that need an extra name it."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
from model_builder import ModelBuilder
from support import base_packages
from support.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def run(folder: Path, *commands: str) -> list[tuple[str, str]]:
    """Exit status and all that was printed, of each command."""
    lines = "".join(json.dumps(command.split()) + "\n" for command in commands)
    done = subprocess.run(
        [sys.executable, base_packages.__file__],
        input=lines,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    ends = re.split(r"\nexit (\w+)\n", done.stdout)
    return list(zip(ends[1::2], ends[0::2], strict=False))


def small_model(folder: Path) -> None:
    """Writes m.tflite, 6 inputs and 3 classes, with samples x and targets t in three formats."""
    model = ModelBuilder("tflite")
    y = model.add_dense(model.add_input((1, 6)), 3)
    model.write(folder / "m.tflite", model.add_operator("SOFTMAX", [y], (1, 3), beta=1.0))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(32, 6)).astype(np.float32)
    t = np.eye(3, dtype=np.float32)[rng.integers(0, 3, 32)]
    for name, values in (("x", x), ("t", t)):
        values.tofile(folder / f"{name}.bin")
        np.save(folder / f"{name}.npy", values)
        np.savez(folder / f"{name}.npz", values)


def test_the_base_packages_are_those_that_are_declared() -> None:
    declared = {re.split(r"\W", name)[0] for name in PROJECT["dependencies"]}
    assert declared == base_packages.BASE - {"odt"}


def test_commands_need_only_the_base_packages(tmp_path: Path) -> None:
    small_model(tmp_path)
    train = "train m.tflite --batch-size 8 --epochs 2"
    found = run(
        tmp_path,
        f"{train} --load-input x.bin --load-expected t.bin --export-circle new.circle",
        f"{train} --load-input x.npy --load-expected t.npy --export-checkpoint state.odt",
        f"{train} --load-input x.npz --load-expected t.npz --run-dir run --tensorboard",
        "runs --svg runs.svg",
        "report run --load-input x.npz --load-expected t.npz",
        "eval new.circle --load-input x.npy --load-expected t.npy",
        "predict m.tflite --load-input x.bin --output p.npy",
        "inspect m.tflite --svg graph.svg",
        "plan m.tflite --loss categorical-crossentropy",
        "check m.tflite",
        "circle-plus-gen new.circle plus.circle --loss categorical-crossentropy",
        "replace-head m.tflite --classes 5 --output five.tflite",
        "checkpoint convert state.odt state.npz",
        "artifacts m.tflite --load-input x.npy --load-expected t.npy --output device",
        "artifacts --check device",
        "train --config device/recipe.toml --load-input x.npy --load-expected t.npy --epochs 1",
        "--version",
        "train --help",
    )
    assert [(text, status) for status, text in found if status != "0"] == []
    assert len(found) == 18
    assert np.load(tmp_path / "p.npy").shape == (32, 3)


def test_extras_name_themselves(tmp_path: Path) -> None:
    small_model(tmp_path)
    (tmp_path / "x.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    train = "train m.tflite --batch-size 8 --epochs 1 --load-expected t.bin"
    found = run(
        tmp_path,
        f"{train} --load-input x.bin --export-checkpoint state.odt",
        f"{train} --load-input x.h5",
        "checkpoint convert state.odt state.h5",
        "checkpoint show x.h5",
    )
    assert [status for status, _ in found] == ["0", "1", "1", "1"]
    for (_, text), name in zip(found[1:], ("x.h5", "state.h5", "x.h5"), strict=True):
        assert text.endswith(
            f"{name}: HDF5 files need h5py, which is not installed. "
            "Install it: pip install 'odt[hdf5]'.\n"
        ), text
