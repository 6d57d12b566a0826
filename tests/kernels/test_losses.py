"""Losses where the table of operators does not look: by hand, and at extremes."""

from typing import Any

import numpy as np
import pytest
from support.op_run import Case, row_of

from odt.errors import ShapeError
from odt.kernels.registry import LOSSES
from odt.kernels.rows.opdef import Array, TensorSpec

CCE, SPARSE = "categorical_crossentropy", "sparse_categorical_crossentropy"
MSE, BCE = "mean_squared_error", "binary_crossentropy"
MAE, HUBER, KLD = "mean_absolute_error", "huber", "kl_divergence"
FOCAL, BINARY_FOCAL = "categorical_focal_crossentropy", "binary_focal_crossentropy"


def both(
    name: str,
    x: Any,
    t: Any,
    scale: float | list[float] = 1.0,
    dtype: type[np.floating] = np.float32,
    **options: object,
) -> tuple[float, Array]:
    """Loss and gradient."""
    row = row_of(name)
    target = np.asarray(t, np.int32 if name == SPARSE else dtype)
    inputs = {"x": np.asarray(x, dtype), "t": target, "scale": np.array(scale, dtype).reshape(-1)}
    case = Case.make(row, row.attrs(options, {}), inputs)
    loss = float(case.forward()["loss"][0])
    return loss, case.gradient("x")


def test_mean_squared_error_by_hand() -> None:
    """((1 + 9) / 2 + (4 + 0) / 2) / 2 = 3.5."""
    loss, dx = both(MSE, [[1, 2], [3, 4]], [[0, 5], [5, 4]], scale=0.5)
    assert loss == 3.5
    np.testing.assert_array_equal(dx, [[0.5, -1.5], [-1, 0]])


def test_mean_absolute_error_by_hand() -> None:
    """((1 + 3) / 2 + (2 + 0) / 2) / 2 = 1.5; no gradient where the output is the target."""
    loss, dx = both(MAE, [[1, 2], [3, 4]], [[0, 5], [5, 4]], scale=0.5)
    assert loss == 1.5
    np.testing.assert_array_equal(dx, [[0.25, -0.25], [-0.25, 0]])


def test_huber_by_hand() -> None:
    """Errors 0.25, −3, −0.5, 1e4 with δ = 0.5: 1/32, 0.5 · 2.75, 1/8, 0.5 (1e4 − 0.25)."""
    loss, dx = both(HUBER, [[0.25, 2], [3, 1e4]], [[0, 5], [3.5, 0]], delta=0.5)
    assert loss == pytest.approx((0.03125 + 1.375 + 0.125 + 4999.875) / 2, rel=1e-7)
    np.testing.assert_array_equal(dx, [[0.125, -0.25], [-0.25, 0.25]])


@pytest.mark.parametrize("name", [MSE, MAE, HUBER])
def test_a_scale_for_each_sample_is_the_sum_of_its_samples(name: str) -> None:
    x, t = [[1, 2], [3, 4]], [[0, 5], [5, 4]]
    loss, dx = both(name, x, t, scale=[0.5, 2])
    (one, done), (two, dtwo) = both(name, x[:1], t[:1], 0.5), both(name, x[1:], t[1:], 2.0)
    assert loss == pytest.approx(one + two)
    np.testing.assert_allclose(dx, np.concatenate([done, dtwo]), rtol=1e-6)


@pytest.mark.parametrize("name", [CCE, SPARSE])
def test_cross_entropy_of_equal_logits_by_hand(name: str) -> None:
    """Four equal logits: p = 1/4, loss ln 4 a sample."""
    t = [2, 0] if name == SPARSE else [[0, 0, 1, 0], [1, 0, 0, 0]]
    loss, dx = both(name, np.ones((2, 4)), t, scale=0.5, from_logits=True)
    assert loss == pytest.approx(1.3862944)
    wanted = [[0.125, 0.125, -0.375, 0.125], [-0.375, 0.125, 0.125, 0.125]]
    np.testing.assert_allclose(dx, wanted, rtol=1e-6)


@pytest.mark.parametrize("name", [CCE, SPARSE])
@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_huge_logits_give_finite_losses(name: str, beta: float) -> None:
    """log p of the wrong class is the difference of the logits, exactly."""
    x = [[1e4, -1e4, 0], [-1e4, 1e4, 0]]
    t = [1, 1] if name == SPARSE else [[0, 1, 0], [0, 1, 0]]
    loss, dx = both(name, x, t, from_logits=True, beta=beta)
    assert loss == 2e4 * beta
    np.testing.assert_array_equal(dx, [[beta, -beta, 0], [0, 0, 0]])


@pytest.mark.parametrize("name", [CCE, SPARSE])
def test_a_probability_of_zero_counts_as_the_floor(name: str) -> None:
    """−ln 1e-20 = 46.0517 (one-sided: what was predicted with certainty costs nothing)."""
    t = [1, 0] if name == SPARSE else [[0, 1], [1, 0]]
    loss, dx = both(name, [[1, 0], [1, 0]], t, from_logits=False)
    assert loss == pytest.approx(46.0517, abs=1e-4)
    np.testing.assert_allclose(dx, np.array([[0, -1e20], [-1, 0]]), rtol=1e-6)


def test_a_target_that_is_no_one_hot() -> None:
    """−0.25 ln 0.5 − 0.5 ln 0.25 = 0.8664; the gradient p Σt − t holds also where Σt is not 1."""
    x = np.log([[0.5, 0.25, 0.25]])
    loss, dx = both(CCE, x, [[0.25, 0.5, 0]], from_logits=True)
    assert loss == pytest.approx(0.8664340, abs=1e-6)
    np.testing.assert_allclose(dx, [[0.125, -0.3125, 0.1875]], atol=1e-6)


@pytest.mark.parametrize("name", [CCE, SPARSE])
def test_positions_are_averaged_or_summed(name: str) -> None:
    x = np.zeros((1, 3, 2))
    t = [[0, 1, 1]] if name == SPARSE else np.eye(2)[[[0, 1, 1]]]
    mean, dmean = both(name, x, t, from_logits=True)
    total, dtotal = both(name, x, t, from_logits=True, mean_over_positions=False)
    assert mean == pytest.approx(np.log(2))
    assert total == pytest.approx(3 * np.log(2))
    np.testing.assert_allclose(dmean * 3, dtotal, rtol=1e-6)


def test_sparse_and_dense_targets_say_the_same() -> None:
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(5, 4, 7)), rng.integers(0, 7, (5, 4))
    for from_logits in (True, False):
        values = x if from_logits else np.exp(x) / np.exp(x).sum(-1, keepdims=True)
        one, done = both(SPARSE, values, t, 0.2, from_logits=from_logits)
        other, dother = both(CCE, values, np.eye(7)[t], 0.2, from_logits=from_logits)
        assert one == pytest.approx(other, rel=1e-6)
        np.testing.assert_allclose(done, dother, rtol=1e-5, atol=1e-7)


def test_binary_cross_entropy_by_hand() -> None:
    """Logits 0 and ln 3 are p = 1/2 and 3/4: (ln 2 + ln 4/3) / 2 = 0.4904 for t = 0 and 1."""
    for x, from_logits in (([[0, np.log(3)]], True), ([[0.5, 0.75]], False)):
        loss, dx = both(BCE, x, [[0, 1]], from_logits=from_logits)
        assert loss == pytest.approx(0.4904146, abs=1e-6)
        wanted = [[0.25, -0.125]] if from_logits else [[1, -2 / 3]]
        np.testing.assert_allclose(dx, wanted, rtol=1e-6)


def test_binary_cross_entropy_of_huge_logits_is_finite() -> None:
    """A wrong unit costs its logit, a right one nothing; a soft target its share of both."""
    x, t = [[1e4, -1e4, 1e4, -1e4, 1e4]], [[1, 0, 0, 1, 0.25]]
    loss, dx = both(BCE, x, t, from_logits=True)
    assert loss == (0 + 0 + 1e4 + 1e4 + 0.75e4) / 5
    np.testing.assert_allclose(dx, [[0, 0, 0.2, -0.2, 0.15]], atol=1e-7)


def test_small_binary_losses_keep_their_digits() -> None:
    """ln(1 + e⁻²⁰) = 2.0611536e-9, of which 1 − p in float32 would leave nothing."""
    loss, _ = both(BCE, [[20.0]], [[1]], from_logits=True)
    assert loss == pytest.approx(2.0611536e-9, rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_certain_probabilities_cost_what_they_do_in_keras(dtype: type[np.floating]) -> None:
    """p is held between 1e-7 and 1 − 1e-7, and the gradient is 0 beyond: a sure unit stays."""
    x = [[1, 0, 1, 0, 1e-8, 1e-6, 0.5]]
    t = [[1, 0, 0, 1, 0.5, 0, 0]]
    loss, dx = both(BCE, x, t, from_logits=False, dtype=dtype)
    most = float(dtype(1 - 1e-7))  # in float32 1 − 1.19e-7
    costs = [-np.log(most), 1e-7, -np.log(1 - most), -np.log(1e-7), -np.log(1e-7) / 2, 1e-6]
    assert loss == pytest.approx((sum(costs) + np.log(2)) / 7, rel=1e-6)
    np.testing.assert_allclose(dx, np.array([[0, 0, 0, 0, 0, 1 + 1e-6, 2]]) / 7, rtol=1e-6)


def test_binary_cross_entropy_on_sure_classes_has_a_small_gradient() -> None:
    """Probabilities of a SOFTMAX of logits 18, 0, 1: 1 − p rounds to 0."""
    logits = np.array([[18.0, 0, 1]])
    p = np.exp(logits - logits.max())
    p /= p.sum()
    _, dx = both(BCE, p, [[0.5, 0.5, 0]], from_logits=False)
    dx = p * (dx - (p * dx).sum())
    assert np.abs(dx).max() < 1


def test_kl_divergence_by_hand() -> None:
    """p = 1/2, 1/4, 1/4 and t = 1/4, 3/4, 0: 0.25 ln 0.5 + 0.75 ln 3 = 0.6507."""
    x, t = np.log([[0.5, 0.25, 0.25]]), [[0.25, 0.75, 0]]
    loss, dx = both(KLD, x, t, from_logits=True)
    assert loss == pytest.approx(0.6506724, abs=1e-6)
    np.testing.assert_allclose(dx, [[0.25, -0.5, 0.25]], atol=1e-6)
    loss, dx = both(KLD, x, np.exp(x), from_logits=True)
    assert loss == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(dx, np.zeros((1, 3)), atol=1e-6)


@pytest.mark.parametrize("name", [CCE, SPARSE])
def test_label_smoothing_by_hand(name: str) -> None:
    """Targets 0.1, 0.8, 0.1 of ε = 0.3: −0.1 ln 0.5 − 0.8 ln 0.25 − 0.1 ln 0.25 = 1.3170."""
    t = [1] if name == SPARSE else [[0, 1, 0]]
    loss, dx = both(name, np.log([[0.5, 0.25, 0.25]]), t, from_logits=True, label_smoothing=0.3)
    assert loss == pytest.approx(1.3169796, abs=1e-6)
    np.testing.assert_allclose(dx, [[0.4, -0.55, 0.15]], atol=1e-6)


def test_binary_label_smoothing_by_hand() -> None:
    """Targets 0.1 and 0.9 of ε = 0.2, p = 1/2 and 3/4: (ln 2 + 0.9 ln 4/3 + 0.1 ln 4) / 2."""
    loss, dx = both(BCE, [[0, np.log(3)]], [[0, 1]], from_logits=True, label_smoothing=0.2)
    assert loss == pytest.approx(0.5453456, abs=1e-6)
    np.testing.assert_allclose(dx, [[0.2, -0.075]], atol=1e-6)


def test_categorical_focal_loss_by_hand() -> None:
    """p of the class is 1/4: −0.25 (3/4)² ln 1/4 = 0.19495."""
    loss, _ = both(FOCAL, np.log([[0.5, 0.25, 0.25]]), [[0, 1, 0]], from_logits=True)
    assert loss == pytest.approx(0.1949480, abs=1e-6)


@pytest.mark.parametrize(("name", "times"), [(FOCAL, 4), (BINARY_FOCAL, 1)])
def test_a_focal_loss_without_focus_is_the_cross_entropy(name: str, times: float) -> None:
    x, t = [[0.3, -2, 1.5], [40, 2, -30]], [[0, 1, 0], [1, 0, 0]]
    focal, dfocal = both(name, x, t, from_logits=True, gamma=0.0)
    plain, dplain = both(CCE if name == FOCAL else BCE, x, t, from_logits=True)
    assert focal * times == pytest.approx(plain, rel=1e-6)
    np.testing.assert_allclose(dfocal * times, dplain, rtol=1e-5, atol=1e-7)


def test_binary_focal_loss_by_hand() -> None:
    """p = 3/4: 1/16 ln 4/3 for t = 1, 9/16 ln 4 for t = 0, and shares 1/4 and 3/4 of them."""
    x, t = [[np.log(3), np.log(3)]], [[1, 0]]
    one, other = np.log(4 / 3) / 16, np.log(4) * 9 / 16
    loss, _ = both(BINARY_FOCAL, x, t, from_logits=True)
    assert loss == pytest.approx((one + other) / 2, rel=1e-6)
    loss, _ = both(BINARY_FOCAL, x, t, from_logits=True, apply_class_balancing=True)
    assert loss == pytest.approx((one / 4 + other * 3 / 4) / 2, rel=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_focal_losses_of_huge_logits_are_finite(gamma: float, smoothing: float) -> None:
    """Wrong by 1e4, a class or unit costs its logit; right, nothing."""
    x, t = [[1e4, -1e4, 0], [-1e4, 1e4, 0]], [[0, 1, 0], [0, 1, 0]]
    options: dict[str, Any] = {"gamma": gamma, "label_smoothing": smoothing}
    loss, dx = both(FOCAL, x, t, from_logits=True, alpha=1.0, **options)
    assert np.isfinite(dx).all()
    if not smoothing:
        assert loss == 2e4
        np.testing.assert_array_equal(dx, [[1, -1, 0], [0, 0, 0]])
    x, t = [[1e4, -1e4, 1e4, -1e4]], [[1, 0, 0, 1]]
    loss, dx = both(BINARY_FOCAL, x, t, from_logits=True, **options)
    assert np.isfinite(loss)
    assert np.isfinite(dx).all()
    if not smoothing:
        assert loss == 2e4 / 4
        np.testing.assert_allclose(dx, [[0, 0, 0.25, -0.25]], atol=1e-7)


@pytest.mark.parametrize("name", [CCE, SPARSE, BCE, KLD])
def test_smoothed_losses_of_huge_logits_are_finite(name: str) -> None:
    x = [[1e4, -1e4, 0], [-1e4, 1e4, 0]]
    t = [1, 1] if name == SPARSE else [[0, 1, 0], [0, 1, 0]]
    more: dict[str, Any] = {} if name == KLD else {"label_smoothing": 0.1}
    loss, dx = both(name, x, t, from_logits=True, **more)
    assert np.isfinite(loss)
    assert np.isfinite(dx).all()


@pytest.mark.parametrize("name", [FOCAL, BINARY_FOCAL])
def test_focal_losses_hold_probabilities_at_keras_epsilon(name: str) -> None:
    loss, dx = both(name, [[1, 0, 1e-8]], [[0, 1, 1]], from_logits=False, gamma=1.0)
    assert np.isfinite(loss)
    np.testing.assert_array_equal(dx, [[0, 0, 0]])


@pytest.mark.parametrize("name", LOSSES)
def test_a_target_for_an_output_is_what_the_loss_takes(name: str) -> None:
    x = TensorSpec((4, 3, 5), np.dtype(np.float32))
    row = row_of(name)
    options = {"from_logits": True} if LOSSES[name].fuses_with else {}
    scale = TensorSpec((1,), x.dtype)
    specs = {"x": x, "t": LOSSES[name].target(x), "scale": scale}
    assert row.infer(row.attrs(options, {}), specs)["loss"] == scale
    with pytest.raises(ShapeError, match="but got x"):
        row.infer(row.attrs(options, {}), {**specs, "t": TensorSpec((4,), x.dtype)})
