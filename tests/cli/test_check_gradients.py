"""`odt check` compares gradients with finite differences."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.networks import Net

from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.training_info import TrainingInfo
from odt.core.training.loss_probe import LossProbe
from odt.core.training.random_data import RandomData
from odt.core.training.self_test import Finding, self_test
from odt.kernels.ops import fully_connected
from odt.kernels.rows.lossdef import draw_values
from odt.kernels.rows.opdef import Array, Kernel, TensorSpec

FLOAT32 = np.dtype(np.float32)


def test_a_gradient_hidden_by_rounding_is_not_a_failure() -> None:
    """Weights of 1e-9 behind a loss near 1: their differences are rounding, and no more."""
    net = Net()
    y = net.dense(net.input(1, 5), 3)
    graph = net.graph(net.add("MUL", (y, net.constant([1e-9])), (1, 3)))
    data = RandomData([TensorSpec((5,), FLOAT32)], [TensorSpec((3,), FLOAT32)], [draw_values])
    info = TrainingInfo(
        loss="mean_squared_error", batch_size=4, trainable_tensors=(graph.nodes[0].inputs[1],)
    )
    findings = self_test(LoweredGraphs(graph), info, data)
    assert [f.passed for f in findings if f.what == "finite differences"] == [None]


def test_a_loss_of_saturated_probabilities_is_not_a_failure() -> None:
    """Logits that differ by about 18: the rounding of probabilities near 1 hides differences."""
    net = Net()
    x = net.add("SIGN", [net.input(1, 1)], (1, 1))
    far = net.add("MUL", (net.add("MUL", (x, x), (1, 1)), net.constant([[18.0, 0.0]])), (1, 2))
    bias = net.constant([0.0, 0.0])
    graph = net.graph(net.add("SOFTMAX", [net.add("ADD", (far, bias), (1, 2))], (1, 2), beta=1.0))

    def first_class(rng: np.random.Generator, spec: TensorSpec) -> Array:
        return np.array([1.0, 0.0])

    one = [TensorSpec((1,), FLOAT32)]
    data = RandomData(one, [TensorSpec((2,), FLOAT32)], [first_class])
    info = TrainingInfo(loss="categorical_crossentropy", batch_size=4, trainable_tensors=(bias,))
    findings = self_test(LoweredGraphs(graph), info, data)
    assert not [f for f in findings if f.passed is False], findings


def test_a_kink_near_a_weight_is_not_a_failure_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """y = x w + 1000 RELU(w − 1.0005) at w = 1: only a small step stays on the side of w."""
    monkeypatch.setattr("odt.core.training.self_test.MAX_WORK", 0)
    net = Net()
    x, w = net.input(1, 1), net.constant([1.0])
    over = net.add("RELU", [net.add("SUB", (w, net.constant([1.0005])), (1,))], (1,))
    steep = net.add("MUL", (over, net.constant([1000.0])), (1,))
    y = net.add("ADD", (net.add("MUL", (x, w), (1, 1)), steep), (1, 1))
    data = RandomData([TensorSpec((1,), FLOAT32)], [TensorSpec((1,), FLOAT32)], [draw_values])
    info = TrainingInfo(loss="mean_squared_error", batch_size=4, trainable_tensors=(w,))
    (found,) = (
        f
        for f in self_test(LoweredGraphs(net.graph(y)), info, data, weights=1)
        if f.what == "finite differences"
    )
    assert found.passed, found.detail
    assert "float32" in found.detail


def test_a_loss_that_is_steep_beside_the_size_of_the_weights_falls() -> None:
    """y = x w + 1e-9 v at v = 1e9: a step by 1e-6 of the weights' size moves w by 1,000."""
    net = Net()
    x, w, v = net.input(1, 1), net.constant([1.0]), net.constant([1e9])
    small = net.add("MUL", (v, net.constant([1e-9])), (1,))
    y = net.add("ADD", (net.add("MUL", (x, w), (1, 1)), small), (1, 1))
    data = RandomData([TensorSpec((1,), FLOAT32)], [TensorSpec((1,), FLOAT32)], [draw_values])
    info = TrainingInfo(loss="mean_squared_error", batch_size=4, trainable_tensors=(w, v))
    findings = self_test(LoweredGraphs(net.graph(y)), info, data)
    assert findings[-1].passed, findings


def test_a_wrong_gradient_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    graph = net.graph(net.dense(net.dense(net.input(1, 5), 6), 3))
    data = RandomData([TensorSpec((5,), FLOAT32)], [TensorSpec((3,), FLOAT32)], [draw_values])
    info = TrainingInfo(loss="mean_squared_error", batch_size=4)
    assert all(f.passed for f in self_test(LoweredGraphs(graph), info, data))
    row = fully_connected.OP

    def doubled(attrs: Any, **arrays: Array) -> None:
        fully_connected.grad_x(attrs, **arrays)
        arrays["dx"] *= 2

    grads = {**row.grads, "x": Kernel(doubled, reads=("dy", "w"), writes=("dx",))}
    monkeypatch.setattr("odt.core.planning.autodiff.row_of", lambda op: replace(row, grads=grads))
    failed = [f.what for f in self_test(LoweredGraphs(graph), info, data) if not f.passed]
    assert failed == ["finite differences"]


def rounded_weight(start: float, **limits: int) -> dict[str, Finding]:
    """Tests a weight that is rounded to an integer within limits; the target is 0.3."""
    net = Net()
    x, w = net.add("SIGN", [net.input(1, 1)], (1, 1)), net.constant([start])
    y = net.add("MUL", (net.add("MUL", (x, x), (1, 1)), w), (1, 1))
    options: dict[str, Any] = {"scale": 1.0, "clamp": (-np.inf, np.inf), **limits}
    y = net.add("FAKE_QUANT", (y,), (1, 1), estimated=False, output=False, **options)
    graph = net.graph(net.add("NEG", (net.add("NEG", (y,), (1, 1)),), (1, 1)))

    def target(rng: np.random.Generator, spec: TensorSpec) -> Array:
        return np.array([0.3])

    one = [TensorSpec((1,), FLOAT32)]
    info = TrainingInfo(loss="mean_squared_error", batch_size=4, trainable_tensors=(w,))
    data = RandomData(one, one, [target])
    return {f.what: f for f in self_test(LoweredGraphs(graph), info, data)}


def test_a_step_hidden_by_rounding_to_integers_is_not_a_failure() -> None:
    """0.4 is rounded to 0, and a larger weight to 1, or more."""
    findings = rounded_weight(0.4, lo=-128, hi=127)
    assert findings["one step"].passed is None, findings
    assert "rounding to integers" in findings["one step"].detail


def test_a_gradient_of_zero_beyond_a_range_is_not_a_failure() -> None:
    findings = rounded_weight(5.0, lo=-2, hi=2)
    assert findings["gradients"].passed is None, findings
    assert "is zero; ranges may cut off" in findings["gradients"].detail


def test_tensors_without_effect_are_found_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 weights without effect and one dead unit among them take few forward passes."""
    net = Net()
    w = net.constant(np.ones(16))
    y = net.add("MUL", (net.input(1, 16), w), (1, 16))
    weights = [net.constant(-np.ones(16)) for _ in range(65)]
    for k, b in enumerate(weights):
        none = net.add("RELU", [b], (16,)) if k == 40 else net.add("SUB", (b, b), (16,))
        y = net.add("ADD", (y, none), (1, 16))
    graph = net.graph(y)
    spec = [TensorSpec((16,), FLOAT32)]
    data = RandomData(spec, spec, [draw_values])
    info = TrainingInfo(
        loss="mean_squared_error", batch_size=2, trainable_tensors=tuple(sorted([w, *weights]))
    )
    losses = []
    loss = LossProbe.loss

    def counted(probe: LossProbe, values: Mapping[int, Array]) -> float:
        losses.append(loss(probe, values))
        return losses[-1]

    monkeypatch.setattr(LossProbe, "loss", counted)
    (found,) = (f for f in self_test(LoweredGraphs(graph), info, data, 1) if f.what == "gradients")
    name = graph.tensors[weights[40]].name
    assert (found.passed, found.detail) == (None, f"unknown: {name} is zero on this batch")
    assert len(losses) < 2 * len(weights)
