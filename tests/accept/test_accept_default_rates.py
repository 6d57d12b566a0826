"""Default settings do not ruin a trained model: no more than half a point is lost."""

import pytest
from measure_default_rates import TASKS, measure
from support.accept_data import complete

pytestmark = pytest.mark.accept


@pytest.mark.parametrize("name", TASKS)
def test_a_trained_model_keeps_its_accuracy(name: str) -> None:
    row = measure(name, complete("data"), seeds=1)
    print(row)
    assert min(row.after) >= row.before - 0.5
