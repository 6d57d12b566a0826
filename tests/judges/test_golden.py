"""Training as onert 1.30.0 trains, on fixed weights and data.

Tolerances are those of its own agreement with PyTorch, times ten or more.
"""

from pathlib import Path

import numpy as np
import pytest
from support.golden_runs import Case, cases, run, title, update_error
from support.paths import GOLDEN

LOSS = {"sgd": 1e-5, "adam": 1e-4}
WEIGHTS = {"sgd": 1e-3, "adam": 1e-2}  # Adam divides by |g|: almost no gradient, any direction


@pytest.mark.parametrize("options", [{}, {"micro_batch": 8, "workers": 2}], ids=["auto", "cut"])
@pytest.mark.parametrize(("folder", "case"), cases(GOLDEN), ids=map(title, cases(GOLDEN)))
def test_losses_and_weights_are_those_recorded(
    folder: Path, case: Case, options: dict[str, int]
) -> None:
    result = run(folder, case, **options)
    np.testing.assert_allclose(result.losses, case["losses"], rtol=LOSS[case["optimizer"]])
    if "file_after_step_1" in case:
        recorded = dict(np.load(folder / case["file_after_step_1"]))
        error = update_error(result, recorded, result.after_first)
        assert error < WEIGHTS[case["optimizer"]]
