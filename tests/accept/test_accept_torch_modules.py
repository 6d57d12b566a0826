"""Modules of PyTorch that ONNX Runtime 1.19.2 cannot train, through odt.compat.ort.

tests/support/torch_modules.py exports them, and trains them by autograd in float64; it runs in the
environment of ONNX Runtime's training examples, which has torch.
"""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from support.paths import ROOT
from support.torch_modules import NAMES, RATE

import odt
from odt.compat.ort import artifacts
from odt.compat.ort.api import CheckpointState, Module, Optimizer

pytestmark = pytest.mark.accept
PYTHON = ROOT / ".venv" / "tutorials" / "bin" / "python"  # `make accept` makes it


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not PYTHON.exists():
        pytest.fail(f"{PYTHON} must have torch. Run `make accept ONLY=torch_modules`.")
    path = tmp_path_factory.mktemp("modules")
    script = ROOT / "tests" / "support" / "torch_modules.py"
    ran = subprocess.run([PYTHON, script, path], text=True, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return path


@pytest.mark.parametrize("name", NAMES)
def test_ten_losses_are_those_of_autograd(name: str, folder: Path) -> None:
    """All parameters train: those that odt finds are those of the module."""
    made = folder / name
    artifacts.generate_artifacts(
        folder / f"{name}.onnx",
        requires_grad=list(odt.load_model(folder / f"{name}.onnx").parameters),
        loss=artifacts.LossType.MSELoss,
        optimizer=artifacts.OptimType.SGD,
        artifact_directory=made,
    )
    state = CheckpointState.load_checkpoint(made / "checkpoint")
    recorded, losses = np.load(folder / f"{name}.npz"), []
    with Module(made / "training_model.onnx", state, made / "eval_model.onnx") as module:
        optimizer = Optimizer(made / "optimizer_model.onnx", module)
        optimizer.set_learning_rate(RATE)
        for x, t in zip(recorded["x"], recorded["t"], strict=True):
            losses.append(module(x, t))
            optimizer.step()
            module.lazy_reset_grad()
    np.testing.assert_allclose(losses, recorded["losses"], rtol=0, atol=1e-5)
