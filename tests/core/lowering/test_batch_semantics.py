"""A file made for one sample gives each sample of a batch what that sample alone gives.

Each graph is computed in float64 one sample at a time (support/graph_fuzz/reference.py) and by odt
in batches, whole and cut.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.graph_fuzz.graphs import SampleGraph
from support.graph_fuzz.reference import Problem, Rule, train
from support.graph_fuzz.running import Model, regression

from odt.kernels.rows.opdef import Array

BATCH = 5
CUTS: list[dict[str, Any]] = [
    {},
    *({"micro_batch": m, "workers": w} for m in range(1, BATCH + 1) for w in (1, 2, 3)),
]


def moved_axis(target: tuple[int, ...]) -> SampleGraph:
    """The batch axis is moved, and a RESHAPE stands for the TRANSPOSE back."""
    g = SampleGraph()
    y = g.dense(g.transpose(g.input(1, 6, 4), 1, 0, 2), 8, keep_num_dims=True)
    y = g.dense(g.reshape(y, *target), 2, keep_num_dims=True)
    g.outputs = [g.reshape(y, 1, -1)]
    return g


def column() -> SampleGraph:
    g = SampleGraph()
    y = g.transpose(g.dense(g.input(1, 5), 7, "TANH"), 1, 0)
    g.outputs = [g.dense(g.reshape(y, 1, 7), 2)]
    return g


def moved_inside() -> SampleGraph:
    g = SampleGraph()
    y = g.transpose(g.input(1, 2, 3, 4), 3, 1, 0, 2)
    y = g.reshape(g.dense(y, 5, keep_num_dims=True), 1, 40)
    g.outputs = [g.dense(y, 2)]
    return g


def against_rows(op: str) -> SampleGraph:
    """A constant with more rows than a sample."""
    g = SampleGraph()
    y = g.add(op, (g.input(1, 8), g.weight(3, 1, 8)))
    g.outputs = [g.dense(g.reshape(y, 1, 24), 2)]
    return g


def tiled() -> SampleGraph:
    g = SampleGraph()
    y = g.add("TILE", (g.dense(g.input(1, 4), 5), g.constant([3, 1])))
    g.outputs = [g.dense(g.reshape(y, 1, 15), 2)]
    return g


def joined() -> SampleGraph:
    g = SampleGraph()
    x = g.input(1, 4)
    y = g.add("CONCATENATION", (x, g.dense(x, 4)), axis=0)
    g.outputs = [g.dense(g.reshape(y, 1, 8), 2)]
    return g


def new_axis(how: str, then: str) -> SampleGraph:
    g = SampleGraph()
    x = g.dense(g.input(1, 6), 4)
    if how == "EXPAND_DIMS":
        y = g.add(how, (x, g.constant(0)))
    else:
        ends = (g.constant([0, 0, 0]), g.constant([1, 1, 4]), g.constant([1, 1, 1]))
        y = g.add(how, (x, *ends), new_axis_mask=1, begin_mask=6, end_mask=6)
    other = g.constant([3, 1, 1]) if then == "TILE" else g.weight(3, 1, 4)
    y = g.add(then, (y, other))
    g.outputs = [g.dense(g.reshape(y, 1, 12), 2)]
    return g


def one_backwards() -> SampleGraph:
    """A slice backwards over axis 0, which for one sample changes nothing."""
    g = SampleGraph()
    ends = (g.constant([-1, 0]), g.constant([-2, 6]), g.constant([-1, 1]))
    y = g.add("STRIDED_SLICE", (g.dense(g.input(1, 4), 6), *ends))
    g.outputs = [g.dense(y, 2)]
    return g


MOVED: dict[str, Callable[[], SampleGraph]] = {
    "TRANSPOSE, RESHAPE to rank 3": lambda: moved_axis((1, 6, 8)),
    "TRANSPOSE, RESHAPE to rank 2": lambda: moved_axis((1, 48)),
    "TRANSPOSE to a column": column,
    "TRANSPOSE around": moved_inside,
    "ADD of more rows": lambda: against_rows("ADD"),
    "MUL by more rows": lambda: against_rows("MUL"),
    "MAXIMUM with more rows": lambda: against_rows("MAXIMUM"),
    "TILE": tiled,
    "CONCATENATION": joined,
    "EXPAND_DIMS, TILE": lambda: new_axis("EXPAND_DIMS", "TILE"),
    "EXPAND_DIMS, MAXIMUM": lambda: new_axis("EXPAND_DIMS", "MAXIMUM"),
    "new axis, TILE": lambda: new_axis("STRIDED_SLICE", "TILE"),
    "new axis, MAXIMUM": lambda: new_axis("STRIDED_SLICE", "MAXIMUM"),
    "STRIDED_SLICE backwards": one_backwards,
}


@pytest.mark.parametrize("kind", MOVED)
def test_a_moved_or_merged_batch_axis_keeps_samples_independent(kind: str, tmp_path: Path) -> None:
    check(MOVED[kind](), tmp_path)


def check(graph: SampleGraph, folder: Path) -> None:
    """Predictions, losses and gradients, however the batch is cut."""
    problem = regression(graph, graph.outputs, BATCH)
    graph.write(folder / "m.circle")
    model = Model(folder / "m.circle", problem)
    rng = np.random.default_rng(1)
    directions: dict[int, Array] = {
        i: np.asarray(rng.normal(size=graph.values[i].shape)) for i in graph.weights()
    }
    (wanted,) = problem.outputs()
    loss = problem.loss(range(BATCH))
    slopes = {i: problem.slope(range(BATCH), {i: d}) for i, d in directions.items()}
    for batch in range(1, BATCH):
        (found,) = model.predict(batch)
        np.testing.assert_allclose(found, wanted, 1e-4, 1e-5, err_msg=f"in batches of {batch}")
    small = 1e-4 * max(map(abs, slopes.values()))
    for cut in CUTS:
        (found,) = model.predict(BATCH, **cut)
        np.testing.assert_allclose(found, wanted, 1e-4, 1e-5, err_msg=f"predicted with {cut}")
        trained = model.gradients(model.info(BATCH), **cut)
        assert trained.losses == pytest.approx([loss], rel=1e-4), cut
        assert trained.weights.keys() == directions.keys()
        for i, d in directions.items():
            slope = float(np.sum(trained.weights[i] * d))
            assert slope == pytest.approx(slopes[i], rel=1e-3, abs=small), (cut, i)


def residual_constant() -> SampleGraph:
    """A constant of one sample's shape beside a residual."""
    g = SampleGraph()
    h = g.dense(g.input(1, 5), 5)
    y = g.add("ADD", (g.add("ADD", (h, g.weight(1, 5))), h))
    g.outputs = [g.add("LOGISTIC", (y,))]
    return g


def turned_views() -> SampleGraph:
    """TRANSPOSEs that are views of one sample, and copies for several."""
    g = SampleGraph()
    h = g.dense(g.input(1, 6, 4), 4, keep_num_dims=True)
    t = g.transpose(h, 1, 0, 2)
    u = g.add("TANH", (h,))
    u = g.transpose(g.add("MUL", (u, u)), 1, 0, 2)
    y = g.add("MUL", (g.add("ADD", (g.add("SOFTMAX", (t,), beta=1.0), u)), t))
    g.outputs = [g.transpose(y, 1, 0, 2)]
    return g


@pytest.mark.parametrize("kernels", ["numpy", ""])
def test_a_last_micro_batch_of_one_sample_delivers_its_own_gradients(
    kernels: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODT_KERNELS", kernels)
    check(residual_constant(), tmp_path)


@pytest.mark.parametrize(("samples", "batch"), [(5, 2), (5, 4), (33, 32)])
def test_a_last_batch_of_one_sample_is_predicted_as_alone(
    samples: int, batch: int, tmp_path: Path
) -> None:
    graph = turned_views()
    problem = regression(graph, graph.outputs, samples)
    graph.write(tmp_path / "m.circle")
    (found,) = Model(tmp_path / "m.circle", problem).predict(batch)
    np.testing.assert_allclose(found, problem.outputs()[0], 1e-4, 1e-5)


def added_constant() -> SampleGraph:
    g = SampleGraph()
    g.outputs = [g.add("ADD", (g.dense(g.input(1, 5), 5), g.weight(1, 5)))]
    return g


def two_added_constants() -> SampleGraph:
    g = added_constant()
    g.outputs = [g.add("ADD", (g.outputs[0], g.weight(1, 5)))]
    return g


def sum_of_constants() -> SampleGraph:
    g = SampleGraph()
    both = g.add("ADD", (g.weight(1, 5), g.weight(1, 5)))
    g.outputs = [g.add("MUL", (g.dense(g.input(1, 5), 5), both))]
    return g


ADAM = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}
RULES = {
    "adam": Rule("adam", 0.1, ADAM),
    "adamw": Rule("adamw", 0.1, {**ADAM, "weight_decay": 0.01}),
    "decay": Rule("sgd", 0.1, {"weight_decay": 0.1}),
    "nesterov": Rule("sgd", 0.1, {"momentum": 0.9, "nesterov": True}),
}
CONSTANTS: dict[str, Callable[[], SampleGraph]] = {
    "one": added_constant,
    "two": two_added_constants,
    "two added": sum_of_constants,
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("constants", CONSTANTS)
def test_an_update_leaves_gradients_that_others_read(
    constants: str, rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODT_KERNELS", "numpy")
    graph = CONSTANTS[constants]()
    problem = regression(graph, graph.outputs, 3)
    check_steps(problem, RULES[rule], tmp_path, batch=1)


def check_steps(problem: Problem, rule: Rule, folder: Path, batch: int) -> None:
    graph = problem.graph
    graph.write(folder / "m.circle")
    model = Model(folder / "m.circle", problem)
    how: dict[str, Any] = {
        "optimizer": rule.optimizer,
        "learning_rate": rule.learning_rate,
        "hyper_parameters": dict(rule.options),
    }
    trained = model.train(model.info(batch, **how))
    samples = len(problem.inputs[0])
    batches = [range(at, at + batch) for at in range(0, samples, batch)]
    losses, weights = train(problem, batches, graph.weights(), rule)
    assert trained.losses == pytest.approx(losses, rel=1e-4)
    assert trained.weights.keys() == weights.keys()
    for i, w in weights.items():
        np.testing.assert_allclose(trained.weights[i], w, 1e-3, 1e-4, err_msg=f"weight {i}")
