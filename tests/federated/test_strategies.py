"""Strategies against recorded results of Flower 1.41 and against formulas in float64."""

import hashlib

import numpy as np
import pytest

import odt
from odt.federated import FedAvg, Update, parse_strategy
from odt.federated.strategies.strategy import whole_share
from odt.federated.update import Array

SHAPES: dict[str, tuple[int, ...]] = {"w": (50, 30), "b": (50,), "s": ()}
SAMPLES = (17, 3, 101, 64, 1, 29, 77)
# SHA-256 of the bytes of w, b and s that Flower 1.41.0's aggregate_arrayrecords returned for
# `updates()`.
FLOWER_FEDAVG = "a64ce8b777c984aaefed39bc8744d1abde173550ad1bd7c07fa815b783d0e8f1"


def updates() -> list[Update]:
    rng = np.random.default_rng(7)
    return [
        Update({n: np.asarray(rng.normal(size=s), np.float32) for n, s in SHAPES.items()}, k, {})
        for k in SAMPLES
    ]


def test_fedavg_gives_the_bits_of_flower() -> None:
    mean = FedAvg().aggregate(1, {}, updates())
    assert all(mean[n].shape == s and mean[n].dtype == np.float32 for n, s in SHAPES.items())
    digest = hashlib.sha256(b"".join(mean[n].tobytes() for n in SHAPES)).hexdigest()
    assert digest == FLOWER_FEDAVG


def test_fedavg_is_the_weighted_mean() -> None:
    given = updates()
    mean = FedAvg().aggregate(1, {}, given)
    for name in SHAPES:
        stacked = np.stack([u.tensors[name].astype(np.float64) for u in given])
        expected = np.average(stacked, axis=0, weights=SAMPLES)
        np.testing.assert_allclose(mean[name], expected, rtol=1e-5, atol=1e-6)
    again = updates()
    for before, after in zip(again, given, strict=True):
        for name in SHAPES:
            np.testing.assert_array_equal(before.tensors[name], after.tensors[name])


def reference(strategy: str, rounds: int) -> dict[str, Array]:
    """Server optimizers of Reddi et al., algorithm 2, in float64; eta etc. as in `OPTIONS`."""
    rng = np.random.default_rng(3)
    given, w = updates(), {n: rng.normal(size=s) for n, s in SHAPES.items()}
    m, v = ({n: np.zeros(s) for n, s in SHAPES.items()} for _ in range(2))
    for t in range(1, rounds + 1):
        for name in SHAPES:
            stacked = np.stack([u.tensors[name].astype(np.float64) for u in given])
            delta = np.average(stacked, axis=0, weights=SAMPLES) - w[name]
            m[name] = 0.8 * m[name] + 0.2 * delta
            if strategy == "fedadam":
                v[name] = 0.9 * v[name] + 0.1 * delta**2
                rate = 0.3 * np.sqrt(1 - 0.9 ** (t + 1)) / (1 - 0.8 ** (t + 1))
            else:
                v[name] = v[name] - 0.1 * delta**2 * np.sign(v[name] - delta**2)
                rate = 0.3
            w[name] = w[name] + rate * m[name] / (np.sqrt(v[name]) + 0.01)
    return w


OPTIONS = "eta=0.3,beta-1=0.8,beta-2=0.9,tau=1e-2"


@pytest.mark.parametrize("name", ["fedadam", "fedyogi"])
def test_server_optimizers_follow_their_formulas(name: str) -> None:
    rng = np.random.default_rng(3)
    w = {n: np.asarray(rng.normal(size=s), np.float32) for n, s in SHAPES.items()}
    strategy, given = parse_strategy(f"{name}:{OPTIONS}"), updates()
    for t in range(1, 5):
        if t == 3:  # a resumed strategy goes on the same way
            kept, strategy = strategy.state, parse_strategy(f"{name}:{OPTIONS}")
            strategy.state = kept
        w = strategy.aggregate(t, w, given)
    for key, expected in reference(name, 4).items():
        assert w[key].dtype == np.float32
        np.testing.assert_allclose(w[key], expected, rtol=2e-4, atol=2e-5)


def test_the_median_and_the_trimmed_mean_leave_extremes_out() -> None:
    given = updates()
    rank = {n: np.sort(np.stack([u.tensors[n] for u in given]), axis=0) for n in SHAPES}
    median = parse_strategy("fedmedian").aggregate(1, given[0].tensors, given)
    even = parse_strategy("fedmedian").aggregate(1, given[0].tensors, given[:6])
    trimmed = parse_strategy("trimmed-mean:beta=0.4").aggregate(1, given[0].tensors, given)
    for name, values in rank.items():
        np.testing.assert_array_equal(median[name], values[3])
        np.testing.assert_allclose(trimmed[name], values[2:5].mean(axis=0), rtol=1e-6)
        middle = np.sort(np.stack([u.tensors[name] for u in given[:6]]), axis=0)[2:4]
        np.testing.assert_allclose(even[name], middle.mean(axis=0), rtol=1e-6)
        assert median[name].dtype == trimmed[name].dtype == np.float32


@pytest.mark.parametrize(("share", "of", "whole"), [(0.29, 100, 29), (0.4, 7, 2), (0.3, 3, 0)])
def test_shares_are_rounded_down_as_exact_numbers(share: float, of: int, whole: int) -> None:
    assert whole_share(share, of) == whole


def test_krum_takes_a_client_in_the_middle() -> None:
    def chosen(text: str, *values: float) -> float:
        given = [Update({"w": np.full(4, v, np.float32)}, 1, {}) for v in values]
        tensor = parse_strategy(text).aggregate(1, {}, given)["w"]
        return values[[u.tensors["w"][0] for u in given].index(tensor[0])]

    # Sums of the 6 − 2 − 2 smallest squares: of 0.1: 0.1² + 0.15², of 0.25: 0.15² + 0.2².
    assert chosen("krum:malicious=2", 50.0, 50.001, 0.0, 0.1, 0.25, 0.45) == 0.1
    # Of 0.8: 0.3² + 0.3², of 0.05: 0.05² + 0.45², though 0.05 + 0.45 is less than 0.3 + 0.3.
    assert chosen("krum:malicious=2", 50.0, 0.0, 0.05, 0.5, 0.8, 1.1) == 0.8
    assert chosen("krum:malicious=2", 10.5, 10.0, 7.0) == 10.5  # at least one other counts
    assert chosen("krum", 0.25) == 0.25


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("average", "must be one of `fedavg`.*but got average"),
        ("fedavg:eta=1", "`fedavg` has no options, but got eta"),
        ("fedprox:nu=1", "`fedprox` has `mu`, but got nu"),
        ("fedprox:mu=much", "`mu` must be a number, but got much"),
        ("fedprox:mu=-1", "`mu` must be at least 0, but got -1"),
        ("trimmed-mean:beta=0.5", "`beta` must be at least 0 and below 0.5, but got 0.5"),
        ("fedadam:beta-1=0.9,beta_1=0.8", "must have `beta_1` only once, but got fedadam:"),
        ("krum:malicious=1.5", "`malicious` must be a whole number, but got 1.5"),
        ("fedyogi:tau=0", "`tau` must be above 0, but got 0"),
        ("fedadam:beta-1=nan", "`beta_1` must be at least 0 and below 1, but got nan"),
    ],
)
def test_wrong_strategies_are_refused(text: str, message: str) -> None:
    with pytest.raises(odt.OptionError, match=f"`strategy=`: {message}"):
        parse_strategy(text)
