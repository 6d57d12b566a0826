"""odt.federated.flower where Flower is not installed."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from odt.errors import OdtError
from odt.federated.flower.saved_round import SavedRound

WITHOUT = """
import sys
sys.modules["flwr"] = None
import odt.federated.flower as flower
try:
    flower.client_app
except Exception as e:
    print(f"{type(e).__name__}: {e}")
"""


def test_an_app_without_flower_says_what_to_install() -> None:
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT], text=True, capture_output=True, check=True
    )
    assert run.stdout == (
        "MissingPackageError: odt.federated.flower: Flower must be installed, but is not. Install "
        "it with pip install 'odt[flower]'.\n"
    )


def test_the_accountant_is_an_extra() -> None:
    code = WITHOUT.replace('"flwr"', '"dp_accounting"')
    code = code.replace("odt.federated.flower as flower", "odt")
    code = code.replace("flower.client_app", "odt.federated.privacy_loss(1, 1.0)")
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, text=True, capture_output=True, check=True)
    assert run.stdout == (
        "MissingPackageError: privacy_loss: dp-accounting must be installed, but is not. Install "
        "it with pip install 'odt[privacy]'.\n"
    )


def test_a_saved_round_comes_back_from_its_file(tmp_path: Path) -> None:
    path = str(tmp_path / "state")
    tensors = {"b/weights;1": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.ones(1, "f4")}
    strategy = {"0:m_t:a": np.zeros(3), "0:clipping_norm:": 0.5}
    SavedRound(7, tensors, strategy, {"x": [1]}).write(path)
    saved = SavedRound.read(path, tensors)
    assert (saved.round, saved.accountant, list(saved.tensors)) == (7, {"x": [1]}, list(tensors))
    np.testing.assert_array_equal(saved.tensors["b/weights;1"], tensors["b/weights;1"])
    assert set(saved.strategy) == set(strategy)


def test_a_changed_state_file_is_an_answer_or_one_line(tmp_path: Path) -> None:
    path = tmp_path / "state"
    tensors = {"a": np.ones((4, 5), np.float32)}
    SavedRound(7, tensors, {"0:m_t:a": np.zeros(3)}).write(str(path))
    whole, rng = path.read_bytes(), np.random.default_rng(1)
    lines = []
    for _ in range(500):
        damaged = bytearray(whole)
        for at in rng.integers(0, len(whole), rng.integers(1, 9)):
            damaged[at] = rng.integers(256)
        path.write_bytes(damaged[: rng.integers(1, 2 * len(whole))])
        try:
            SavedRound.read(str(path), tensors)
        except OdtError as e:
            lines.append(str(e))
    assert len(lines) > 250
    assert not any("\n" in line for line in lines)
    path.write_bytes(whole)
    with pytest.raises(OdtError, match="must have the tensor b"):
        SavedRound.read(str(path), {"b": tensors["a"]})
