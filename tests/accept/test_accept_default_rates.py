"""Default settings do not ruin a trained model: two epochs lose no more than half a point."""

from importlib.util import find_spec

import numpy as np
import pytest
from measure_default_rates import TASKS, measure
from support.accept_data import complete

pytestmark = pytest.mark.accept


@pytest.mark.parametrize("name", TASKS)
def test_a_trained_model_keeps_its_accuracy(name: str) -> None:
    """In points of accuracy, or in percent of the loss of an autoencoder."""
    folder = complete("data")
    if not folder.is_dir():
        pytest.fail("give the folder with the data sets: make accept DATA=…")
    if TASKS[name].make and "ResNet" in name and find_spec("torch") is None:
        pytest.fail("torch trains the residual networks: pip install torch")
    row = measure(name, folder, seeds=3)
    print(row)
    assert np.mean(row.gains) >= -0.5
    assert min(row.gains) >= -1.5
