"""Strategies against recorded results of Flower 1.41 and against formulas in float64."""

import hashlib

import numpy as np

from odt.federated import FedAvg, Update

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
