"""Values by which epochs are compared, and the learning rate that follows them."""

import json
from typing import Any

import pytest
from support.paths import TESTS

from odt.core.runtime.optimizer import Optimizer
from odt.core.training.monitor import Monitor, Plateau
from odt.errors import OptionError
from odt.kernels.registry import OPTIMIZERS
from odt.kernels.rows.schedule_text import parse_schedule
from odt.kernels.rows.schedules import ReduceOnPlateau

RECORDED: dict[str, Any] = json.loads((TESTS / "golden_updates/schedules.json").read_text())


@pytest.mark.parametrize("text", RECORDED["plateaus"])
def test_rates_on_a_plateau_are_torchs_also_after_a_resume(text: str) -> None:
    schedule = parse_schedule(text)
    assert isinstance(schedule, ReduceOnPlateau)
    rule = OPTIMIZERS["sgd"]
    optimizer = Optimizer(rule, rule.attrs(), RECORDED["learning_rate"], schedule)
    rates = []
    state: tuple[float, ...] = ()
    for loss in RECORDED["losses"]:
        plateau = Plateau(schedule, "val_loss")
        plateau.state = state
        plateau.see({"val_loss": loss}, optimizer)
        state = plateau.state
        assert optimizer.schedule is not None
        rates.append(optimizer.learning_rate)
    assert rates == pytest.approx(RECORDED["plateaus"][text], rel=1e-12)
    assert optimizer.rate(1) == rates[-1]


@pytest.mark.parametrize(
    ("name", "values", "better"),
    [
        ("val_loss", (2.0, 1.0, 1.0, 3.0), (True, True, False, False)),
        ("val_accuracy", (0.5, 0.4, 0.6), (True, False, True)),
        ("mean_absolute_error", (0.5, 0.4, 0.6), (True, True, False)),
        ("val_perplexity", (float("inf"), 9.0, 12.0, 8.0), (False, True, False, True)),
    ],
)
def test_losses_and_errors_fall_and_other_values_grow(
    name: str, values: tuple[float, ...], better: tuple[bool, ...]
) -> None:
    monitor = Monitor(name)
    assert tuple(monitor.improves({name: value}) for value in values) == better


@pytest.mark.parametrize(
    ("mode", "values", "better"),
    [
        ("min", (0.5, 0.4, 0.6), (True, True, False)),
        ("max", (0.5, 0.4, 0.7), (True, False, True)),
        ("auto", (0.5, 0.6, 0.64, 0.75), (True, False, False, True)),
    ],
)
@pytest.mark.parametrize("min_delta", [0.15, -0.15])
def test_the_mode_and_the_least_change_are_those_of_keras(
    mode: str, values: tuple[float, ...], better: tuple[bool, ...], min_delta: float
) -> None:
    """Keras takes the magnitude of `min_delta`."""
    monitor = Monitor("val_accuracy", mode, min_delta if mode == "auto" else 0.0)
    assert tuple(monitor.improves({"val_accuracy": value}) for value in values) == better


def test_another_mode_is_refused() -> None:
    with pytest.raises(OptionError, match=r"^`mode=`: must be auto, min or max, but got least$"):
        Monitor(mode="least")


@pytest.mark.parametrize("min_delta", [float("nan"), float("inf")])
def test_a_change_that_nothing_exceeds_is_refused(min_delta: float) -> None:
    with pytest.raises(OptionError, match=r"^`min_delta=`: must be a finite number, but got"):
        Monitor(min_delta=min_delta)


def test_a_value_that_is_not_there_is_refused() -> None:
    with pytest.raises(OptionError, match=r"^`monitor=`: must be one of loss, but got val_loss\."):
        Monitor().improves({"loss": 1.0})
