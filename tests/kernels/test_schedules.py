"""Learning rate schedules: as torch recorded them, and as their text says."""

import json
from dataclasses import FrozenInstanceError, dataclass, replace
from typing import Any

import numpy as np
import pytest
from support.paths import TESTS

import odt
from odt.errors import OptionError
from odt.kernels.rows.schedule_text import parse_schedule
from odt.kernels.rows.scheduledef import Schedule
from odt.kernels.rows.schedules import SCHEDULES, CosineDecay, ReduceOnPlateau

RECORDED: dict[str, Any] = json.loads((TESTS / "golden_updates/schedules.json").read_text())
RATE = RECORDED["learning_rate"]


@pytest.mark.parametrize("text", RECORDED["schedules"])
def test_rates_are_torchs(text: str) -> None:
    schedule = parse_schedule(text).resolve(RATE)
    rates = RECORDED["schedules"][text]
    assert [schedule(t) for t in range(len(rates))] == pytest.approx(rates, rel=1e-9, abs=1e-12)


def test_every_schedule_is_recorded() -> None:
    texts = (*RECORDED["schedules"], *RECORDED["plateaus"])
    recorded = {text.partition(":")[0] for text in texts}
    assert recorded == SCHEDULES.keys(), "add its rates to tools/record_updates.py, and run it"


def test_every_schedule_is_a_public_name() -> None:
    missing = {kind.__name__ for kind in SCHEDULES.values()} - {*odt.PUBLIC}
    assert not missing, f"src/odt/__init__.py: add {missing}"


@pytest.mark.parametrize("text", [*RECORDED["schedules"], *RECORDED["plateaus"]])
def test_text_is_parsed_and_printed(text: str) -> None:
    schedule = parse_schedule(text)
    assert parse_schedule(str(schedule)) == schedule
    assert parse_schedule(text.replace("_", "-").upper()) == schedule


def test_values_may_have_exponents() -> None:
    schedule = parse_schedule("exponential:decay-rate=9E-1")
    assert schedule == parse_schedule(" exponential : decay-rate = 0.9, ")
    assert schedule == parse_schedule("exponential:decay_rate=0.9")
    small = CosineDecay(alpha=1e-5)  # printed as 1e-05
    assert parse_schedule(str(small)) == small


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cosin", r"^`schedule=`: must be one of `constant`, `step`, .*, but got cosin$"),
        ("cosine:gamma=2", r"`cosine` has .*`alpha`, but got gamma$"),
        ("cosine:=2", r"`cosine` has .*`alpha`, but got nothing$"),
        ("cosine:alpha", r"^`alpha=`: must be a number, but got nothing$"),
        ("cosine:alpha=0,ALPHA=1", r"^`schedule=`: must have `alpha` only once, but got cosine:"),
        ("cosine:alpha=2", r"^`alpha=`: must be from 0 to 1, but got 2.0$"),
        ("cosine:decay-steps=0", r"^`decay_steps=`: must be from 1 up, but got 0$"),
        (
            "cosine:initial-learning-rate=fast",
            r"^`initial_learning_rate=`: must be a number, but got fast$",
        ),
        ("constant:decay-steps=9", r"^`decay_steps=`: must be left out for `constant`, .* got 9$"),
        (
            "plateau:decay-steps=9",
            r"^`decay_steps=`: must be left out for `plateau`, .* but got 9$",
        ),
        ("cosine:decay-steps=1.5", r"^`decay_steps=`: must be a whole number, but got 1.5$"),
        ("cosine-restarts:t-mul=0.5", r"^`t_mul=`: must be from 1 up"),
        ("exponential:staircase=maybe", r"^`staircase=`: must be true or false, but got maybe$"),
        ("exponential:staircase=2.5", r"^`staircase=`: must be true or false, but got 2.5$"),
        ("exponential:decay-rate=nan", r"^`decay_rate=`: must be from 0 up, but got nan$"),
        ("exponential:decay-rate=inf", r"^`decay_rate=`: must be from 0 up, but got inf$"),
    ],
)
def test_invalid_schedules_are_refused(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_schedule(text)


def test_steps_are_whole_numbers_of_any_type() -> None:
    schedule = CosineDecay(decay_steps=1e4, warmup_steps=np.float64(2))  # type: ignore[arg-type]
    assert str(schedule) == "cosine:decay_steps=10000,warmup_steps=2"
    assert parse_schedule(str(schedule)) == schedule
    with pytest.raises(OptionError, match=r"^`warmup_steps=`: must be a whole number, but got 2.5"):
        CosineDecay(warmup_steps=2.5)  # type: ignore[arg-type]


def test_steps_left_open_are_those_of_the_run_after_the_warmup() -> None:
    assert CosineDecay(warmup_steps=10).resolve(0.1, 50).decay_steps == 40
    assert CosineDecay(0.5, 7).resolve(0.1, 50) == CosineDecay(0.5, 7)
    assert parse_schedule("step").resolve(0.1, 100).decay_steps == 34  # two changes
    assert parse_schedule("cosine-restarts").resolve(0.1, 70).decay_steps == 10  # three periods


def test_a_schedule_without_steps_or_rate_is_an_error() -> None:
    with pytest.raises(OptionError, match=r"^`decay_steps=`: must be given"):
        CosineDecay(0.1)(0)
    with pytest.raises(OptionError, match=r"^`initial_learning_rate=`: must be given"):
        CosineDecay(None, 10)(0)


def test_a_plateau_keeps_its_rate_until_it_is_reduced() -> None:
    assert ReduceOnPlateau(0.1, warmup_steps=2)(0) == pytest.approx(0.05)
    assert ReduceOnPlateau(0.1)(1000) == 0.1


def test_a_schedule_of_the_user_may_have_fields() -> None:
    @dataclass(frozen=True)
    class Halved(Schedule):
        every: int = 10

        def rate(self, step: int) -> float:
            return self.peak * 0.5 ** (step // self.every)

    schedule = replace(Halved(0.4), every=2, warmup_steps=1)
    assert [schedule(step) for step in range(5)] == [0.4, 0.4, 0.4, 0.2, 0.2]
    with pytest.raises(FrozenInstanceError):
        schedule.every = 3  # type: ignore[misc]
