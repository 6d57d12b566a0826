"""MobileNetV2 under budgets from the smallest to ten times that, measured from outside."""

import re

import pytest
from support.accept_data import complete
from support.growth import grown, least_budget

pytestmark = pytest.mark.accept

FOLDER = complete("golden", "mbv2_96")
RUN = (
    *(FOLDER / "model.circle", "--loss", "categorical-crossentropy", "--batch-size", 8),
    *("--load-input", FOLDER / "input.bin", "--load-expected", FOLDER / "expected.bin"),
    *("--epochs", 2),
)


@pytest.mark.parametrize("factor", [1, 1.2, 1.5, 2, 4, 10])
def test_the_process_takes_what_was_predicted(factor: float) -> None:
    """Within 5 % or 4 MB."""
    budget = least_budget(factor, *RUN)
    text, most = grown("train", *RUN, "--memory-budget", budget)
    (said,) = re.findall(r"predicted peak: ([\d,]+) bytes", text)
    predicted = int(said.replace(",", ""))
    assert predicted <= budget
    print(f"budget {budget:,}: predicted {predicted:,}, took {most:,}")
    assert abs(most - predicted) < max(4e6, 0.05 * predicted)


@pytest.mark.parametrize("trained", [3, 20, 60])
@pytest.mark.parametrize("factor", [1, 1.5, 10])
def test_so_it_does_beside_a_cache(trained: int, factor: float) -> None:
    line = (*RUN, "--num-of-trainable-ops", trained, "--cache-frozen")
    budget = least_budget(factor, *line)
    text, most = grown("train", *line, "--memory-budget", budget)
    (said,) = re.findall(r"predicted peak: ([\d,]+) bytes", text)
    predicted = int(said.replace(",", ""))
    assert predicted <= budget
    print(f"budget {budget:,}: predicted {predicted:,}, took {most:,}")
    over = most - predicted
    assert over < max(4e6, 0.05 * predicted)
    # Epoch 0 caches all 40 samples before the arenas of training are in memory.
    assert -over < max(4e6, 0.15 * predicted)
