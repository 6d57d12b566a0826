"""MobileNetV2 under budgets from the smallest to ten times that, measured from outside."""

import re

import pytest
from click.testing import CliRunner
from support.accept_data import complete
from support.growth import grown

from odt.cli.main import main

pytestmark = pytest.mark.accept

FOLDER = complete("golden", "mbv2_96")
MODEL = (FOLDER / "model.circle", "--loss", "categorical-crossentropy", "--batch-size", 8)
FILES = ("--load-input", FOLDER / "input.bin", "--load-expected", FOLDER / "expected.bin")
SAMPLES = 40


@pytest.mark.parametrize("factor", [1, 1.2, 1.5, 2, 4, 10])
def test_the_process_grows_by_what_was_predicted(factor: float) -> None:
    """Within 5 % or 4 MB, above a process that has imported the same modules."""
    refused = CliRunner().invoke(main, ["plan", *map(str, MODEL), "--memory-budget", "1MB"])
    (least,) = re.findall(r"at least ([\d.]+)MB", refused.stderr)
    budget = round(float(least) * factor * 1e6)
    _, before = grown("train", "--help")
    text, most = grown("train", *MODEL, *FILES, "--epochs", 2, "--memory-budget", budget)
    (said,) = re.findall(r"predicted peak: ([\d,]+) bytes", text)
    predicted = int(said.replace(",", ""))
    assert predicted <= budget
    print(f"budget {budget:,}: predicted {predicted:,}, grown {most - before:,}")
    assert abs(most - before - predicted) < max(4e6, 0.05 * predicted)


@pytest.mark.parametrize("trained", [3, 20, 60])
@pytest.mark.parametrize("factor", [1, 1.5, 10])
def test_so_it_does_beside_a_cache(trained: int, factor: float) -> None:
    cached = ("--num-of-trainable-ops", trained, "--cache-frozen", "--memory-budget")
    line = ["plan", *MODEL, *cached, "1MB", "--data-length", SAMPLES]
    refused = CliRunner().invoke(main, [str(word) for word in line])
    (least,) = re.findall(r"at least ([\d.]+)MB", refused.stderr)
    budget = round(float(least) * factor * 1e6)
    _, before = grown("train", "--help")
    text, most = grown("train", *MODEL, *FILES, "--epochs", 2, *cached, budget)
    (said,) = re.findall(r"predicted peak: ([\d,]+) bytes", text)
    predicted = int(said.replace(",", ""))
    assert predicted <= budget
    print(f"budget {budget:,}: predicted {predicted:,}, grown {most - before:,}")
    over = most - before - predicted
    assert over < max(4e6, 0.05 * predicted)
    # Epoch 0 caches all 40 samples before the arenas of training are in memory.
    assert -over < max(4e6, 0.15 * predicted)
