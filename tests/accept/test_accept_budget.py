"""MobileNetV2 under budgets from the smallest to ten times that, measured from outside."""

import re

import pytest
from click.testing import CliRunner
from support.accept_data import complete
from support.growth import grown, start_nbytes

from odt.cli.main import main
from odt.core.storage.free_memory import in_process_of

pytestmark = pytest.mark.accept

FOLDER = complete("golden", "mbv2_96")
MODEL = (FOLDER / "model.circle", "--loss", "categorical-crossentropy", "--batch-size", 8)
FILES = ("--load-input", FOLDER / "input.bin", "--load-expected", FOLDER / "expected.bin")
SAMPLES = 40


@pytest.mark.parametrize("factor", [1, 1.2, 1.5, 2, 4, 10])
def test_the_process_takes_what_was_predicted(factor: float) -> None:
    """Within 5 % or 4 MB."""
    with in_process_of(0):
        refused = CliRunner().invoke(main, ["plan", *map(str, MODEL), "--memory-budget", "1MB"])
    (least,) = re.findall(r"at least ([\d.]+)MB", refused.stderr)
    budget = start_nbytes() + round(float(least) * factor * 1e6)
    text, most = grown("train", *MODEL, *FILES, "--epochs", 2, "--memory-budget", budget)
    (said,) = re.findall(r"predicted peak: ([\d,]+) bytes", text)
    predicted = int(said.replace(",", ""))
    assert predicted <= budget
    print(f"budget {budget:,}: predicted {predicted:,}, took {most:,}")
    assert abs(most - predicted) < max(4e6, 0.05 * predicted)


@pytest.mark.parametrize("trained", [3, 20, 60])
@pytest.mark.parametrize("factor", [1, 1.5, 10])
def test_so_it_does_beside_a_cache(trained: int, factor: float) -> None:
    cached = ("--num-of-trainable-ops", trained, "--cache-frozen", "--memory-budget")
    line = ["plan", *MODEL, *cached, "1MB", "--data-length", SAMPLES]
    with in_process_of(0):
        refused = CliRunner().invoke(main, [str(word) for word in line])
    (least,) = re.findall(r"at least ([\d.]+)MB", refused.stderr)
    budget = start_nbytes() + round(float(least) * factor * 1e6)
    text, most = grown("train", *MODEL, *FILES, "--epochs", 2, *cached, budget)
    (said,) = re.findall(r"predicted peak: ([\d,]+) bytes", text)
    predicted = int(said.replace(",", ""))
    assert predicted <= budget
    print(f"budget {budget:,}: predicted {predicted:,}, took {most:,}")
    over = most - predicted
    assert over < max(4e6, 0.05 * predicted)
    # Epoch 0 caches all 40 samples before the arenas of training are in memory.
    assert -over < max(4e6, 0.15 * predicted)
