"""Resampling: sines beside their formula, what would be folded back, blocks and ends."""

import tracemalloc

import numpy as np
import pytest

from odt.datasets import resample as module
from odt.datasets.resample import reach, resample, resampled_length
from odt.errors import DataError
from odt.kernels.rows.opdef import Array

RATES = [(44100, 16000), (48000, 16000), (8000, 16000), (22050, 16000), (16000, 44100),
         (44100, 48000), (96000, 8000), (11127, 16000), (16000, 15999)]  # fmt: skip


def resampled(x: Array, old: int, new: int) -> Array:
    length = resampled_length(len(x), old, new)
    return resample(lambda start, stop: x[start:stop], len(x), old, new, length)


def sine(hertz: float, rate: int, count: int) -> Array:
    return np.sin(2 * np.pi * hertz * np.arange(count) / rate + 0.3)


def inner(y: Array, old: int, new: int) -> slice:
    """Output samples that do not depend on what is before or after the sound."""
    edge = -(-reach(old, new) * new // old) + 1
    return slice(edge, len(y) - edge)


@pytest.mark.parametrize(("old", "new"), RATES)
def test_a_sine_is_the_same_sine(old: int, new: int) -> None:
    for part in (0.01, 0.2, 0.44):
        hertz = part * min(old, new)
        y = resampled(sine(hertz, old, old // 4), old, new)
        at = inner(y, old, new)
        assert abs(y - sine(hertz, new, len(y)))[at].max() < 2e-5


@pytest.mark.parametrize(("old", "new"), [r for r in RATES if r[0] > 1.1 * r[1]])
def test_nothing_above_half_of_the_new_rate_is_folded_back(old: int, new: int) -> None:
    for hertz in (new * 0.5001, new * 0.6, old * 0.49):
        y = resampled(sine(hertz, old, old // 4), old, new)
        assert 20 * np.log10(abs(y[inner(y, old, new)]).max()) < -90


def test_a_constant_stays_and_the_length_is_that_of_the_sound() -> None:
    y = resampled(np.ones(4410), 44100, 16000)
    assert len(y) == 1600
    assert abs(y[inner(y, 44100, 16000)] - 1).max() < 1e-6
    assert resampled_length(1, 44100, 16000) == 1
    assert len(resampled(np.ones(1), 44100, 16000)) == 1


def test_blocks_and_tables_of_weights_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal(3000)
    whole = {rates: resampled(x, *rates) for rates in RATES}
    asked: list[int] = []

    def read(start: int, stop: int) -> Array:
        asked.append(stop - start)
        return x[start:stop]

    monkeypatch.setattr(module, "BLOCK", 256)
    monkeypatch.setattr(module, "MAX_WEIGHTS", 0)
    monkeypatch.setattr(module, "MAX_GROUP", 3000)
    for (old, new), y in whole.items():
        asked.clear()
        got = resample(read, len(x), old, new, len(y))
        assert abs(got - y).max() < 1e-6
        assert max(asked) <= 256 + 2 * reach(old, new) + 2 * old / new + 2


def test_memory_is_bounded_and_far_rates_are_refused() -> None:
    with pytest.raises(DataError, match="at most 1000 samples per second to become 1"):
        resampled(np.ones(10), 1001, 1)
    tracemalloc.start()
    y = resample(lambda start, stop: np.zeros(stop - start), 1_000_000, 192_000, 193, 1000)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert not y.any()
    assert most < 60 << 20


def test_the_beginning_of_a_long_sound_is_that_of_the_whole() -> None:
    x = np.random.default_rng(1).standard_normal(9000)
    y = resampled(x, 44100, 16000)
    part = resample(lambda start, stop: x[start:stop], len(x), 44100, 16000, 1000)
    assert abs(part - y[:1000]).max() < 1e-6
