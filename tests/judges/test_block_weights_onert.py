"""onert runs files with weights in blocks of GGML; it rounds activations to 8 bits."""

from pathlib import Path

import numpy as np
import pytest
from support.block_files import dense_file
from support.judges import onert

import odt


@pytest.mark.parametrize("kind", ["GGML_Q4_0", "GGML_Q8_0"])
def test_onert_computes_dense_layers(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "m.circle"
    dense_file(path, kind, (32, 128), biased=False)  # onert refuses a bias beside blocks
    x = np.random.default_rng(0).normal(size=(4, 128)).astype(np.float32)
    (tmp_path / "onert").mkdir()
    (theirs,) = onert(path, [x], tmp_path / "onert")
    ours = odt.predict(path, x)
    error = np.linalg.norm(theirs.reshape(ours.shape) - ours) / np.linalg.norm(ours)
    assert error < 0.01
