"""Adapters that odt writes open in PEFT, and those of PEFT in odt, with equal outputs.

tests/support/peft_modules.py runs in an environment with torch, peft and safetensors.
"""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from model_builder import ModelBuilder
from support.paths import ROOT

import odt
from odt.kernels.rows.opdef import Array

pytestmark = pytest.mark.accept
PYTHON = ROOT / ".venv" / "tutorials" / "bin" / "python"  # `make accept` makes it
RNG = np.random.default_rng(8)
SHAPES = {"blocks.0.up": (12, 7), "blocks.0.down": (7, 12), "head": (4, 7)}
RELU = 1


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A network of three dense layers as network.tflite, and its values as network.npz."""
    if not PYTHON.exists():
        pytest.fail(f"{PYTHON} must have PEFT. Run `make accept ONLY=adapters`.")
    arrays: dict[str, Array] = {"x": RNG.normal(size=(20, 7)).astype(np.float32)}
    model = ModelBuilder("tflite")
    y = model.add_input((1, 7))
    for name, shape in SHAPES.items():
        for part, size in (("weight", shape), ("bias", shape[:1])):
            arrays[f"{name}.{part}"] = RNG.normal(size=size).astype(np.float32) / 3
        w, b = (
            model.add_constant(arrays[f"{name}.{p}"], f"{name}.{p}") for p in ("weight", "bias")
        )
        activation = RELU if name.endswith("up") else 0
        y = model.add_operator(
            "FULLY_CONNECTED", (y, w, b), (1, shape[0]), fused_activation_function=activation
        )
    model.write(tmp_path / "network.tflite", y)
    np.savez(tmp_path / "network.npz", **arrays)  # type: ignore[arg-type]  # names of arrays
    return tmp_path


def outputs_of_peft(folder: Path, action: str, name: str) -> Array:
    script = ROOT / "tests" / "support" / "peft_modules.py"
    command = [str(PYTHON), str(script), str(folder), action, name]
    ran = subprocess.run(command, text=True, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return np.asarray(np.load(folder / f"{name}.npy"))


def test_trained_adapters_open_in_peft(folder: Path) -> None:
    x = np.load(folder / "network.npz")["x"]
    (folder / "trained").mkdir()
    model = odt.lora(folder / "network.tflite", 2, alpha=5)
    with odt.Trainer(model, loss="mse", optimizer=odt.SGD(0.2), batch_size=10) as trainer:
        before = trainer.predict(x)
        trainer.fit(x, RNG.normal(size=(20, 4)).astype(np.float32), epochs=5)
        trainer.export_adapters(folder / "trained" / "adapter_model.safetensors")
        after = trainer.predict(x)
    assert np.abs(after - before).max() > 0.1
    theirs = outputs_of_peft(folder, "open", "trained")
    np.testing.assert_allclose(theirs, after, atol=1e-5)


@pytest.mark.parametrize("name", ["plain", "rslora", "bfloat16"])
def test_adapters_of_peft_open_in_odt(name: str, folder: Path) -> None:
    x = np.load(folder / "network.npz")["x"]
    theirs = outputs_of_peft(folder, "write", name)
    base = odt.predict(folder / "network.tflite", x)
    ours = odt.predict(odt.load_model(folder / "network.tflite", folder / name), x)
    assert np.abs(np.asarray(ours) - base).max() > 0.1
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
