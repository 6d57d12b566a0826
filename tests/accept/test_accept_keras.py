"""Keras networks, trained by odt and by Keras: after three steps of SGD they agree.

tests/support/keras_networks.py holds the networks, and runs in an environment with TensorFlow. The
difference of the outputs is compared with their movement in these steps. docs/trained-weights.md
lists the networks of DIFFERENCES, with the reasons.
"""

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.keras_networks import NAMES, RATE, STEPS
from support.paths import ROOT

import odt
from odt.kernels.rows.opdef import Array

pytestmark = pytest.mark.accept
PYTHON = ROOT / ".venv" / "keras" / "bin" / "python"  # `make accept` makes it
MOST = 0.005  # difference, as part of the movement
# Networks whose file holds something else than Keras does, and the largest difference.
DIFFERENCES = {
    "batch-norm-folded": 0.03,
    "batch-norm-of-inputs": 0.3,
    "bidirectional-gru-unrolled": 0.01,
    "bidirectional-lstm-average": 0.3,
    "masked-weights": 0.5,
    "normalization-of-outputs": 0.6,
    "tied-weights": 0.6,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not PYTHON.exists():
        pytest.fail(f"{PYTHON} must have TensorFlow. Run `make accept ONLY=keras`.")
    path = tmp_path_factory.mktemp("keras")
    script = ROOT / "tests" / "support" / "keras_networks.py"
    run = subprocess.run([PYTHON, script, path], text=True, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    return path


@pytest.mark.parametrize("name", NAMES)
def test_three_steps_follow_keras(name: str, folder: Path) -> None:
    with np.load(folder / f"{name}.npz") as file:
        arrays = dict(file)
    path = str(folder / f"{name}.tflite")
    sgd = odt.SGD(RATE)
    with odt.Trainer(path, loss="mean_squared_error", optimizer=sgd, batch_size=8) as trainer:
        samples = numbered(arrays, "sample")
        start = flat(trainer.predict(one(samples)))
        for step in range(STEPS):
            x, t = numbered(arrays, f"x{step}_"), numbered(arrays, f"t{step}_")
            trainer.train_on_batch(one(x), one(t))
        end = flat(trainer.predict(one(samples)))
    before, after = flat(numbered(arrays, "before")), flat(numbered(arrays, "after"))
    np.testing.assert_allclose(start, before, atol=1e-4 * np.abs(before).max())
    movement = float(np.linalg.norm(after - before))
    difference = float(np.linalg.norm(end - after)) / movement
    print(f"{name}: {100 * difference:.4f} % of a movement of {movement:.3g}")  # pytest -s
    assert movement > 0.01
    assert difference <= DIFFERENCES.get(name, MOST)
    assert difference > MOST or name not in DIFFERENCES, "the list of differences is out of date"


def numbered(arrays: dict[str, Array], name: str) -> list[Array]:
    """Arrays whose names are this name and a number, in order."""
    count = sum(key.removeprefix(name).isdigit() for key in arrays if key.startswith(name))
    return [arrays[f"{name}{k}"] for k in range(count)]


def one(arrays: list[Array]) -> Any:
    return arrays[0] if len(arrays) == 1 else arrays


def flat(outputs: Any) -> Array:
    """All values of one or several outputs in float64."""
    arrays = outputs if isinstance(outputs, list | tuple) else [outputs]
    return np.concatenate([np.asarray(a, np.float64).reshape(-1) for a in arrays])
