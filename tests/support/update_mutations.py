"""Damages updates of clients as faults and attackers do, with a seed."""

from typing import Any

import numpy as np

import odt
from odt.federated import Update, broadcast, check_update, decode, encode, received
from odt.federated.checks import distance
from odt.federated.payloads import PAYLOADS, SCALES
from odt.federated.update import Tensors

BOUND = 50.0
NUMBERS = (np.nan, np.inf, -np.inf, 1e38, -1e38, 1e5, 0.0, -0.0, 1e-45)
OTHERS: tuple[Any, ...] = (
    None, 3, "text", b"bytes", [], [1.0, 2.0], {}, object(), np.float32(1), np.zeros(0),
    np.array(["a"]), np.array([None]), np.zeros(3, "M8[s]"), np.zeros((2, 2), [("a", "f4")]),
    np.ma.masked_array([1.0], mask=[True]),
)  # fmt: skip
DTYPES = ("f2", "f4", "f8", "i1", "i4", "u1", "c8", "?", ">f4", "O", "S4")
SAMPLES: tuple[Any, ...] = (
    0, -1, 1, 10**9, 2**53, 2**53 + 1, 10**400, 1.5, float("nan"), True, None, "7", np.int64(3),
)  # fmt: skip
METRICS: tuple[Any, ...] = (
    {}, {"loss": 0.5}, {"loss": float("nan")}, {"loss": "low"}, {"loss": True}, {3: 1.0}, None,
    {"loss": np.float32(2)}, {"loss": [1.0]}, [("loss", 1.0)], {"loss": 1 + 2j}, {"x" * 5000: 1.0},
)  # fmt: skip


def tensors_with(rng: np.random.Generator) -> Tensors:
    shapes: dict[str, tuple[int, ...]] = {"conv/w": (4, 3, 3, 2), "w": (5, 7), "b": (5,), "s": ()}
    return {n: np.asarray(rng.normal(size=s), np.float32) for n, s in shapes.items()}


def damaged(payload: dict[Any, Any], rng: np.random.Generator) -> dict[Any, Any]:
    """Returns a payload with one change."""
    names = list(payload)
    name = names[int(rng.integers(len(names)))]
    a = payload[name]
    shape = (*a.shape, int(rng.integers(4)))
    changes = (
        lambda: {**payload, name: OTHERS[int(rng.integers(len(OTHERS)))]},
        lambda: {n: v for n, v in payload.items() if n != name},
        lambda: {**payload, ("other", "", "w\x1b[2J\n", 7, None, SCALES)[int(rng.integers(6))]: a},
        lambda: {**payload, name: np.resize(a, shape)},
        lambda: {**payload, name: a.reshape(-1)[: int(rng.integers(max(a.size, 1)))]},
        lambda: {**payload, name: _as(a, DTYPES[int(rng.integers(len(DTYPES)))])},
        lambda: {**payload, name: _with_value(a, rng)},
        lambda: {**payload, name: _with_bits(a, rng)},
        lambda: {**payload, name: a * np.asarray(10.0 ** rng.integers(-9, 9), a.dtype)},
        lambda: dict(reversed(payload.items())),
    )
    with np.errstate(all="ignore"):
        changed: dict[Any, Any] = changes[int(rng.integers(len(changes)))]()
    return changed


def _as(a: Any, dtype: str) -> Any:
    return np.asarray(a).astype(dtype)


def _with_value(a: Any, rng: np.random.Generator) -> Any:
    b = a.copy()
    if b.size:
        number = NUMBERS[int(rng.integers(len(NUMBERS)))]
        if b.dtype.kind != "f":
            number = int(rng.integers(-128, 128))
        b.reshape(-1)[int(rng.integers(b.size))] = number
    return b


def _with_bits(a: Any, rng: np.random.Generator) -> Any:
    data = bytearray(a.tobytes())
    for _ in range(int(rng.integers(1, 4))):
        if data:
            data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    return np.frombuffer(bytes(data), a.dtype).reshape(a.shape)


def try_updates(count: int, seed: int) -> dict[str, int]:
    """Damages updates and payloads of a server; returns how many were used and refused.

    Raises:
        AssertionError: if an error is no line, or what was used breaks a rule.
    """
    rng = np.random.default_rng(seed)
    results = {"used": 0, "refused": 0}
    reference = tensors_with(rng)
    before = {n: a.copy() for n, a in reference.items()}
    for k in range(count):
        kind = PAYLOADS[k % 3]
        trained = {n: a + np.float32(0.1) for n, a in reference.items()}
        begin = received(broadcast(reference, kind), reference, kind)
        samples, metrics = 10, {"loss": 0.5}
        payload: dict[Any, Any] = encode(trained, begin, kind, {})
        part = int(rng.integers(6))
        if part == 0:
            samples = SAMPLES[int(rng.integers(len(SAMPLES)))]
        elif part == 1:
            metrics = METRICS[int(rng.integers(len(METRICS)))]
        else:
            payload = damaged(payload, rng)
        message, used = "", reference
        try:
            with np.errstate(all="raise"):
                if part == 5:  # what a server sends
                    sent = damaged(broadcast(reference, kind), rng)
                    used = received(sent, reference, kind)
                    samples, metrics = 10, {"loss": 0.5}
                else:
                    used = decode(payload, reference, kind, "client 3")
                    update = Update(used, samples, metrics)
                    check_update(update, reference, BOUND, "client 3")
        except odt.OdtError as e:
            message = str(e)
        if message:
            results["refused"] += 1
            assert len(message.splitlines()) == 1
            assert message.isprintable()
            assert len(message) <= 400
        else:
            results["used"] += 1
            assert list(used) == list(reference)
            for n, a in reference.items():
                assert (used[n].shape, used[n].dtype) == (a.shape, a.dtype)
                assert np.isfinite(used[n]).all()
            assert part == 5 or distance(used, reference) <= BOUND
            assert type(samples) is int
        for n, a in before.items():
            assert np.array_equal(a, reference[n]), "the model before stays"
    return results
