"""Labels of −1 are ignored: a mean is over the other labels of the batch, as in PyTorch.

The reference is the formula of torch.nn.CrossEntropyLoss(ignore_index=-1) in float64.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.c_programs import COMPILER, Program, build

import odt
from odt.core.export.model_builder import ModelBuilder
from odt.kernels.rows.opdef import Array

pytest_plugins = ["support.kernel_objects"]
RNG = np.random.default_rng(7)
N, T, D, K = 7, 4, 3, 5
RATE = 0.5
OPTIMIZER = odt.SGD(RATE)
LOSS = "sparse_categorical_crossentropy"
# Axes of a sample's targets; flat is a layer with a row for each position, and a reshape after it.
FORMS: dict[str, tuple[int, ...]] = {"one": (), "several": (T,), "flat": (T,)}


def inputs(form: str) -> Array:
    return np.random.default_rng(1).normal(size=(N, *FORMS[form], D)).astype(np.float32)


def labels(form: str) -> Array:
    """Labels (N, …): those of sample 2 are all ignored, and none of sample 3."""
    t = np.random.default_rng(2).integers(0, K, (N, *FORMS[form])).astype(np.int32)
    t[np.random.default_rng(3).random(t.shape) < 0.4] = -1
    t[2], t[3] = -1, 1
    return t


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, paths = tmp_path_factory.mktemp("labels"), {}
    for form, axes in FORMS.items():
        built = ModelBuilder("circle")
        x = built.add_input((1, *axes, D), name="x")
        w = np.random.default_rng(4).normal(size=(K, D)).astype(np.float32)
        b = np.linspace(-1, 1, K, dtype=np.float32)
        constants = built.add_constant(w, "w"), built.add_constant(b, "b")
        shape = (T, K) if form == "flat" else (1, *axes, K)
        keeps = form == "several"
        y = built.add_operator("FULLY_CONNECTED", [x, *constants], shape, keep_num_dims=keeps)
        if form == "flat":
            new = built.add_constant(np.array((1, T, K), np.int32))
            y = built.add_operator("RESHAPE", (y, new), (1, T, K))
        built.graph.tensors[y].name = "y"
        paths[form] = folder / f"{form}.circle"
        built.write(paths[form], y)
    return paths


def trainer(path: Path, **options: Any) -> odt.Trainer:
    given: dict[str, Any] = {"loss": LOSS, "optimizer": OPTIMIZER, "batch_size": N}
    return odt.Trainer(path, **given | options)


Parameters = tuple[Array, Array]


def parameters(t: odt.Trainer) -> Parameters:
    return np.array(t.weights["w"], np.float64), np.array(t.weights["b"], np.float64)


def rows(a: Array) -> Array:
    return a.reshape(-1, D).astype(np.float64)


def reference(
    weights: Parameters, x: Array, t: Array, factors: Array | float = 1.0, *, total: bool = False
) -> tuple[float, Array, Array]:
    """Loss, dw and db: Σ factor · −log p over the labels that count, divided by their number."""
    (w, b), x, t = weights, rows(x), t.reshape(-1)
    factors = np.broadcast_to(factors, t.shape) * (t >= 0)
    p = np.exp(x @ w.T + b)
    p /= p.sum(1, keepdims=True)
    count = 1 if total else max(np.count_nonzero(t >= 0), 1)
    loss = -(factors * np.log(p[np.arange(len(t)), t])).sum() / count
    dy = (p - np.eye(K)[t]) * factors[:, np.newaxis] / count
    return loss, dy.T @ x, dy.sum(0)


def updated(weights: Parameters, x: Array, t: Array, *more: Any, **options: Any) -> Parameters:
    _, dw, db = reference(weights, x, t, *more, **options)
    return weights[0] - RATE * dw, weights[1] - RATE * db


def assert_close(found: Parameters, expected: Parameters) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("kernels", ["compiled", "numpy"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("batch", "micro_batch", "workers", "accumulate"),
    [(N, N, 1, 1), (N, 1, 1, 1), (N, 2, 2, 1), (3, 2, 1, 1), (3, 1, 2, 1), (2, 2, 1, 2)],
)
def test_steps_are_those_of_the_formula(
    monkeypatch: pytest.MonkeyPatch,
    models: dict[str, Path],
    kernels: str,
    form: str,
    batch: int,
    micro_batch: int,
    workers: int,
    accumulate: int,
) -> None:
    if kernels == "numpy":
        monkeypatch.setenv("ODT_KERNELS", "numpy")
    x, y = inputs(form), labels(form)
    division = {"batch_size": batch, "micro_batch": micro_batch, "workers": workers}
    with trainer(models[form], accumulate=accumulate, **division) as t:
        expected = parameters(t)
        assert t.evaluate(x, y)["loss"] == pytest.approx(reference(expected, x, y)[0], rel=1e-6)
        t.fit(x, y, shuffle=False, drop_last=False)
        for at in range(0, N, batch * accumulate):
            here = slice(at, at + batch * accumulate)
            expected = updated(expected, x[here], y[here])
        assert_close(parameters(t), expected)


@pytest.mark.parametrize("form", FORMS)
def test_losses_of_labels_that_are_all_ignored_are_0(models: dict[str, Path], form: str) -> None:
    x, y = inputs(form), np.full_like(labels(form), -1)
    with trainer(models[form], metrics=["accuracy"]) as t:
        before = parameters(t)
        assert t.evaluate(x, y) == {"loss": 0, "accuracy": 0}
        assert t.train_on_batch(x, y)["loss"] == 0
        assert_close(parameters(t), before)


def test_a_sum_is_over_the_labels_that_count(models: dict[str, Path]) -> None:
    x, y = inputs("several"), labels("several")
    with trainer(models["several"], reduction="sum", micro_batch=2) as t:
        before = parameters(t)
        loss, *_ = reference(before, x, y, total=True)
        assert t.train_on_batch(x, y)["loss"] == pytest.approx(loss, rel=1e-6)
        assert_close(parameters(t), updated(before, x, y, total=True))


@pytest.mark.parametrize("micro_batch", [1, 3, N])
@pytest.mark.parametrize("by", ["sample", "position"])
def test_weights_do_not_change_the_divisor(
    models: dict[str, Path], by: str, micro_batch: int
) -> None:
    x, y = inputs("several"), labels("several")
    factors = RNG.uniform(0, 3, (N, T)[: 1 + (by == "position")]).astype(np.float32)
    each = np.broadcast_to(factors.reshape(N, -1), (N, T)).reshape(-1)
    with trainer(models["several"], micro_batch=micro_batch) as t:
        before = parameters(t)
        loss, *_ = reference(before, x, y, each)
        assert t.evaluate(x, y, factors)["loss"] == pytest.approx(loss, rel=1e-6)
        assert t.train_on_batch(x, y, factors)["loss"] == pytest.approx(loss, rel=1e-6)
        assert_close(parameters(t), updated(before, x, y, each))


@pytest.mark.parametrize("size", [1, 2, 4, N])
@pytest.mark.parametrize("form", FORMS)
def test_batches_are_weighted_by_the_labels_that_count(
    models: dict[str, Path], form: str, size: int
) -> None:
    x, y = inputs(form), labels(form)
    metrics = ["accuracy", "perplexity"]
    with trainer(models[form], metrics=metrics) as t:
        loss, *_ = reference(parameters(t), x, y)
        found = t.evaluate([(x[k : k + size], y[k : k + size]) for k in range(0, N, size)])
        assert found["loss"] == pytest.approx(loss, rel=1e-6)
        assert found["perplexity"] == pytest.approx(np.exp(loss), rel=1e-6)
        assert found == pytest.approx(t.evaluate(x, y), rel=1e-6)
    with trainer(models[form], metrics=metrics, batch_size=size) as t:
        assert t.evaluate(x, y) == pytest.approx(found, rel=1e-6)


def test_batches_for_several_outputs_have_ignored_labels_only_if_losses_are_sums(
    tmp_path: Path,
) -> None:
    """A batch has one loss, whose parts would need weights of their own; sums have none."""
    built = ModelBuilder("circle")
    source = built.add_input((1, D), name="x")
    w = np.random.default_rng(4).normal(size=(2, K, D)).astype(np.float32)
    outputs = [
        built.add_operator("FULLY_CONNECTED", [source, built.add_constant(w[k], f"w{k}")], (1, K))
        for k in range(2)
    ]
    built.write(tmp_path / "two.circle", *outputs)
    x, y = inputs("one"), labels("one")
    batches = [(x[k : k + 3], [y[k : k + 3], y[k : k + 3]]) for k in range(0, N, 3)]
    losses: dict[str, Any] = {"loss": [LOSS, LOSS]}
    with trainer(tmp_path / "two.circle", **losses, reduction="sum") as t:
        sums = [t.test_on_batch(*batch)["loss"] for batch in batches]
        assert t.evaluate(batches)["loss"] == pytest.approx(np.mean(sums), rel=1e-6)
    with (
        trainer(tmp_path / "two.circle", **losses) as t,
        pytest.raises(odt.DataError, match="for several outputs must have no ignored labels"),
    ):
        t.evaluate(batches)


@pytest.mark.parametrize("kinds", [("sample", "position"), ("position", "sample"), ("", "sample")])
def test_training_and_validation_may_have_different_kinds_of_weights(
    models: dict[str, Path], kinds: tuple[str, str]
) -> None:
    x, y = inputs("several"), labels("several")
    shapes = {"": None, "sample": (N,), "position": (N, T)}
    given = [None if (s := shapes[k]) is None else np.linspace(0.1, 3, N * T)[: np.prod(s)]
             .reshape(s).astype(np.float32) for k in kinds]  # fmt: skip
    with trainer(models["several"]) as t:
        before = parameters(t)
        assert given[1] is not None
        history = t.fit(x, y, sample_weight=given[0], validation_data=(x[::-1], y[::-1], given[1]))
        factors = [1.0 if w is None else np.broadcast_to(w.reshape(N, -1), (N, T)).reshape(-1)
                   for w in given]  # fmt: skip
        after = updated(before, x, y, factors[0])
        assert_close(parameters(t), after)
        loss, *_ = reference(after, x[::-1], y[::-1], factors[1])
        assert history.history["val_loss"][-1] == pytest.approx(loss, rel=1e-5)


def test_metrics_leave_ignored_labels_out(models: dict[str, Path]) -> None:
    x, y = inputs("several"), labels("several")
    names = ["accuracy", "top_2_accuracy", "f1", "auc"]
    counts = y.reshape(-1) >= 0
    with trainer(models["several"], metrics=names, micro_batch=2) as t:
        found = t.evaluate(x, y)
        logits = t.predict(x).reshape(-1, K)[counts]
    with odt.Trainer(models["one"], loss=LOSS, metrics=names) as t:
        expected = t.evaluate(rows(x)[counts].astype(np.float32), y.reshape(-1)[counts])
    assert found == pytest.approx(expected, rel=1e-6)
    assert found["accuracy"] == np.mean(logits.argmax(1) == y.reshape(-1)[counts])


def test_samples_keep_their_labels_when_they_are_reordered_joined_and_augmented(
    models: dict[str, Path],
) -> None:
    x, y = inputs("several"), labels("several")
    validation = x[:5], y[:5]
    with trainer(models["several"], batch_size=3) as t, trainer(models["several"]) as other:
        run: dict[str, Any] = {"epochs": 2, "seed": 3, "validation_data": validation}
        logs = t.fit(x, y, **run).history
        loss, *_ = reference(parameters(t), *validation)
        assert logs["val_loss"][-1] == pytest.approx(loss, rel=1e-6)
        order = [np.random.default_rng((3, epoch)).permutation(N) for epoch in (1, 2)]
        expected = parameters(other)
        for numbers in order:
            for at in (0, 3, 6):
                here = numbers[at : at + 3]
                expected = updated(expected, x[here], y[here])
        assert_close(parameters(t), expected)
    with trainer(models["several"], batch_size=3) as t:
        t.fit(x, y, augment=[lambda x, rng: x], **run)
        assert_close(parameters(t), expected)


def test_accumulated_gradients_are_those_of_each_batch(models: dict[str, Path]) -> None:
    x, y = inputs("one"), labels("one")
    with trainer(models["one"], batch_size=4, micro_batch=1) as t:
        before = parameters(t)
        t.forward_backward(x[:4], y[:4], 0.5)
        t.forward_backward(x[4:], y[4:], 0.5)
        _, first, _ = reference(before, x[:4], y[:4])
        _, second, _ = reference(before, x[4:], y[4:])
        np.testing.assert_allclose(t.gradients["w"], (first + second) / 2, rtol=1e-5, atol=1e-6)


def test_balanced_classes_leave_ignored_labels_out(models: dict[str, Path]) -> None:
    x, y = inputs("one"), labels("one")
    counts = np.bincount(y[y >= 0], minlength=K)
    balanced = counts.sum() / (np.count_nonzero(counts) * np.maximum(counts, 1))
    with trainer(models["one"]) as t:
        before = parameters(t)
        t.fit(x, y, class_weight="balanced", shuffle=False)
        assert_close(parameters(t), updated(before, x, y, balanced[y]))


@pytest.mark.parametrize("bad", [-100, 2**31 - 1])
@pytest.mark.parametrize("weights", ["balanced", {0: 2.0}])
def test_weights_of_classes_leave_wrong_labels_to_their_check(
    models: dict[str, Path], weights: Any, bad: int
) -> None:
    x, y = inputs("one"), labels("one")
    y[4] = bad
    rule = f"sample 4: labels must be 0 … 4, or -1 to ignore one, but got {bad}"
    with trainer(models["one"]) as t, pytest.raises(odt.OdtError, match=rule):
        t.fit(x, y, class_weight=weights)


@pytest.mark.parametrize(("bad", "got"), [(-2, "-2"), (K, "5")])
def test_other_labels_are_refused(models: dict[str, Path], bad: int, got: str) -> None:
    x, y = inputs("several"), labels("several")
    y[4, 1] = bad
    rule = f"sample 4: labels must be 0 … 4, or -1 to ignore one, but got {got}"
    with trainer(models["several"]) as t, pytest.raises(odt.DataError, match=rule):
        t.train_on_batch(x, y)


@pytest.mark.skipif(not COMPILER, reason="needs a C compiler")
def test_c_programs_ignore_the_same_labels(
    models: dict[str, Path], kernel_objects: dict[str, Path], tmp_path: Path
) -> None:
    x, y = inputs("several"), labels("several")
    odt.compile(
        models["several"], tmp_path, loss=LOSS, optimizer=OPTIMIZER, batch_size=N, micro_batch=2
    )
    build(tmp_path, kernel_objects["generic"])
    program = Program(tmp_path)
    program.init()
    with trainer(models["several"]) as t:
        expected = parameters(t)
    loss, *_ = reference(expected, x, y)
    for function in ("evaluate", "train"):
        assert program.loss(function, [x], [y]) == pytest.approx((0, loss), rel=1e-6)
    expected = updated(expected, x, y)
    loss, *_ = reference(expected, x[:3], y[:3])
    assert program.loss("evaluate", [x[:3]], [y[:3]]) == pytest.approx((0, loss), rel=1e-5)
    none: Sequence[Array] = [np.full_like(y, -1)]
    assert program.loss("train", [x], none) == (0, 0)


def test_model_check_accepts_ignored_labels(models: dict[str, Path]) -> None:
    x, y = inputs("several"), labels("several")
    result = odt.check(models["several"], x, y, loss=LOSS)
    assert result, result
