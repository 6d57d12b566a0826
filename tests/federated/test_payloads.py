"""Payloads: rounding, error feedback, and what is refused."""

import numpy as np
import pytest

import odt
from odt.federated import Update, broadcast, check_update, decode, encode, received
from odt.federated.checks import distance
from odt.federated.payloads import SCALES, nbytes_of
from odt.federated.update import Tensors

RNG = np.random.default_rng(0)


def tensors(scale: float = 1.0) -> Tensors:
    shapes: dict[str, tuple[int, ...]] = {"w": (5, 7), "b": (5,), "s": ()}
    return {n: np.asarray(RNG.normal(0, scale, s), np.float32) for n, s in shapes.items()}


def test_float32_carries_the_same_bits() -> None:
    reference, trained = tensors(), tensors()
    sent = received(broadcast(reference), reference)
    back = decode(encode(trained, sent), reference)
    for name, a in trained.items():
        np.testing.assert_array_equal(sent[name], reference[name])
        np.testing.assert_array_equal(back[name], a)


def test_float16_rounds_differences_not_the_model() -> None:
    reference, step = tensors(), tensors(1e-4)
    sent = received(broadcast(reference, "float16"), reference, "float16")
    payload = encode({n: a + step[n] for n, a in sent.items()}, sent, "float16")
    back = decode(payload, reference, "float16")
    for name, a in back.items():
        np.testing.assert_allclose(a - reference[name], step[name], atol=1e-6)
    assert nbytes_of(payload) == 2 * 41


def test_int8_rounds_to_a_scale_for_each_tensor() -> None:
    reference, trained = tensors(), tensors()
    payload = encode(trained, reference, "int8")
    assert nbytes_of(payload) == 41 + 4 * 3
    back = decode(payload, reference, "int8")
    for k, (name, a) in enumerate(trained.items()):
        scale = np.abs(a - reference[name]).max() / 127
        assert payload[SCALES][k] == pytest.approx(scale)
        np.testing.assert_allclose(back[name], a, atol=0.51 * scale)


def test_error_feedback_loses_nothing_over_rounds() -> None:
    reference = {"w": np.zeros(100, np.float32)}
    residual: Tensors = {}
    step = RNG.normal(size=100).astype(np.float32)
    step[0] = 50.0  # so that most of a step is below half a level
    sums = {True: np.zeros(100), False: np.zeros(100)}
    for _ in range(50):
        for feedback in sums:
            payload = encode({"w": step}, reference, "int8", residual if feedback else None)
            sums[feedback] += decode(payload, reference, "int8")["w"]
    errors = {f: np.abs(s / 50 - step).max() for f, s in sums.items()}
    assert errors[True] < 0.02
    assert errors[False] > 0.15


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_zero_update_stays_zero_in_int8() -> None:
    reference = tensors()
    back = decode(encode(reference, reference, "int8"), reference, "int8")
    for name, a in reference.items():
        np.testing.assert_array_equal(back[name], a)


def test_updates_with_subnormal_scales_do_not_overflow() -> None:
    """178 steps of the smallest float32: a 127th of them is rounded to one step."""
    step = np.nextafter(np.float32(0), np.float32(1))
    payload = encode({"w": np.full(2, 178 * step)}, {"w": np.zeros(2, np.float32)}, "int8")
    assert list(payload["w"]) == [127, 127]


def test_bad_payloads_are_refused() -> None:
    reference = tensors()
    infinite = {**reference, "w": reference["w"] * np.float32("inf")}
    with pytest.raises(odt.DataError, match=r"w: trained values must be finite, but got -?inf"):
        encode(infinite, reference, "int8")
    with pytest.raises(odt.DataError, match=r"server: w: values must be finite, .* is unchanged"):
        received(infinite, reference)
    good = encode(reference, reference, "int8")
    for bad, rule in (
        ({**good, SCALES: np.full(3, -1, np.float32)}, "scales must be at least 0, but got -1"),
        ({**good, SCALES: np.full(3, np.inf, np.float32)}, "must be finite, but got inf"),
        ({**good, SCALES: np.ones(4, np.float32)}, r"must be \(3,\) float32, but got \(4,\)"),
        ({**good, "w": reference["w"]}, r"w: must be \(5, 7\) int8, but got \(5, 7\) float32"),
        ({n: a for n, a in good.items() if n != "b"}, "must have the tensor b"),
    ):
        with pytest.raises(odt.DataError, match=f"client 2.*{rule}"):
            decode(bad, reference, "int8", "client 2")
    with pytest.raises(odt.DataError, match=r"w in float16.*but got inf.* payload float32"):
        broadcast({"w": np.full(2, 1e6, np.float32)}, "float16")
    with pytest.raises(odt.OptionError, match="must be one of float32, float16, int8, but got x"):
        encode(reference, reference, "x")


def test_distances_of_large_values_do_not_overflow() -> None:
    one = {"w": np.full((2, 2), 3e38, np.float32), "b": np.full(5, -4e38 / 5**0.5, np.float32)}
    assert distance(one, {n: -a for n, a in one.items()}) == pytest.approx(2 * 52**0.5 * 1e38)


def test_bad_updates_are_refused() -> None:
    sent = tensors()
    check_update(Update(sent, 1, {"loss": 0.5}), sent, 0.0)
    far = {**sent, "w": sent["w"] + 1}
    check_update(Update(far, 1, {}), sent, 35**0.5 + 1e-3)
    for bad, rule in (
        (Update(far, 1, {}), r"norm of the update must be at most 2, but got 5\.91608"),
        (Update({**sent, "w": sent["w"] * np.float32("inf")}, 1, {}), "w: values must be finite"),
        (Update(sent, 0, {}), "samples must be a whole number above 0, at most 2⁵³, but got 0"),
        (Update(sent, 2**53 + 1, {}), "samples must be"),
        (Update(sent, 1.0, {}), "samples must be"),  # type: ignore[arg-type]
        (Update(sent, True, {}), "samples must be"),
        (Update(sent, 1, {"loss": float("nan")}), "metrics must be finite numbers by name"),
        (Update(sent, 1, {"loss": 1.1e300}), "metrics must be"),  # sums would be infinite
        (Update(sent, 1, {"name": "Ann"}), "metrics must be"),  # type: ignore[dict-item]
    ):
        with pytest.raises(odt.DataError, match=f"client 7: .*{rule}.*It is refused"):
            check_update(bad, sent, 2.0, "client 7")
