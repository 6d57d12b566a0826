"""onert goes on from odt's checkpoints, and odt from onert's."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from model_builder import ModelBuilder
from support.accept_data import complete
from support.onert_training import Case, side_by_side
from support.paths import GOLDEN

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("onert") is None,
    reason="onert has wheels for Linux on x86-64 and aarch64, Python 3.10 to 3.12",
)

RULES = ("sgd", "adam")


def check(case: Case, folder: Path, tolerance: float = 1e-4) -> None:
    """Holds the outcome against onert's uninterrupted run.

    Args:
        tolerance: of losses after steps in odt, relative.
    """
    found = side_by_side(case, folder)
    last = found.through[-len(found.onert_then_odt) :]
    np.testing.assert_allclose(found.onert_then_odt, last, rtol=1e-4)
    np.testing.assert_allclose(found.odt_then_onert, last, rtol=tolerance)
    assert found.our_begin == found.begin
    assert found.again == (found.begin, found.first)
    assert found.begin != found.first


@pytest.mark.parametrize("last", [-1, 2])
@pytest.mark.parametrize("optimizer", RULES)
def test_a_perceptron(optimizer: str, last: int, tmp_path: Path) -> None:
    check(Case(GOLDEN / "mlp_sm" / "model.circle", optimizer, last), tmp_path)


@pytest.mark.parametrize("last", [-1, 3])
@pytest.mark.parametrize("optimizer", RULES)
def test_a_network_of_convolutions(optimizer: str, last: int, tmp_path: Path) -> None:
    check(Case(GOLDEN / "mnist" / "model.circle", optimizer, last), tmp_path)


def two_inputs(path: Path) -> Path:
    """Dense layers of two inputs, added up; onert does not train CONCATENATION."""
    model = ModelBuilder(seed=5)
    hidden = [
        model.add_dense(model.add_input((1, n)), 6, fused_activation_function=1) for n in (5, 7)
    ]
    both = model.add_operator("ADD", hidden, (1, 6))
    for units in (9, 8, 7):
        both = model.add_dense(both, units)
    model.write(path, model.add_dense(both, 3))
    return path


@pytest.mark.parametrize("last", [-1, 2])
@pytest.mark.parametrize("optimizer", RULES)
def test_two_inputs(optimizer: str, last: int, tmp_path: Path) -> None:
    path = two_inputs(tmp_path / "two.circle")
    check(Case(path, optimizer, last, loss="mean_squared_error"), tmp_path)


@pytest.mark.accept
@pytest.mark.parametrize("last", [-1, 4])
@pytest.mark.parametrize("optimizer", RULES)
def test_resnet8(optimizer: str, last: int, tmp_path: Path) -> None:
    check(Case(complete("golden", "resnet8", "model.circle"), optimizer, last), tmp_path)


# A pre-activation within rounding of 0 or 6 flips its mask, which moves all earlier gradients by
# 1e-3; steps a hundredth or a thousandth as long show that nothing else differs.
@pytest.mark.accept
@pytest.mark.parametrize("last", [-1, 4])
@pytest.mark.parametrize(
    ("optimizer", "rate", "tolerance"),
    [("sgd", 1e-2, 2e-2), ("sgd", 1e-4, 1e-4), ("adam", 1e-3, 2e-2), ("adam", 1e-6, 1e-4)],
)
def test_mobilenet_v2(
    optimizer: str, rate: float, tolerance: float, last: int, tmp_path: Path
) -> None:
    path = complete("golden", "mbv2_96", "model.circle")
    check(Case(path, optimizer, last, given_rate=rate), tmp_path, tolerance)
