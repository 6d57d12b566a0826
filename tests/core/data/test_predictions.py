"""Files of predictions: CSV holds what the model computed, to its last digit."""

from pathlib import Path

import numpy as np
import pytest

from odt.core.data.predictions import write_csv
from odt.kernels.rows.opdef import Array


@pytest.mark.parametrize(
    ("values", "cells"),
    [
        (np.array([0.1, 1 / 3], np.float32), "0.100000001,0.333333343"),
        (np.array([0.1, 1 / 3]), "0.1,0.3333333333333333"),
        (np.array([2**31 - 1, -(2**53) - 1]), "2147483647,-9007199254740993"),
        (np.array([True, False]), "1,0"),
    ],
)
def test_cells_have_all_digits(values: Array, cells: str, tmp_path: Path) -> None:
    path = tmp_path / "predictions.csv"
    with write_csv(str(path), ["a", "b"], 0, str, classes=False) as append:
        append([values[np.newaxis]])
    assert path.read_text() == f"sample,a,b\n0,{cells}\n"
