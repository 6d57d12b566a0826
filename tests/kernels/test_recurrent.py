"""Recurrent operators against LiteRT, and networks of them in training."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_builder import ModelBuilder
from support.judges import litert
from support.lowering import lower
from support.networks import ArrayData, Net
from support.op_run import Case, best_form, row_of

from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import ABSENT, Graph
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.autodiff import training_plan
from odt.core.planning.lifetimes import lifetimes, replacements
from odt.core.planning.memory import plan_memory
from odt.core.planning.output_loss import Loss
from odt.core.planning.verify import faults
from odt.core.training.self_test import self_test
from odt.kernels.native.library import is_available
from odt.kernels.rows.opdef import Array

SEQUENCE = "UNIDIRECTIONAL_SEQUENCE_LSTM"
RNN = "UNIDIRECTIONAL_SEQUENCE_RNN"


def drawn(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    return {n: rng.uniform(-0.9, 0.9, shape).astype(np.float32) for n, shape in shapes.items()}


def both(
    op: str, inputs: Mapping[str, Array], states: Mapping[str, int], folder: Path, **options: Any
) -> tuple[Array, Array]:
    """LiteRT's y and ours; states name their width."""
    row, x = row_of(op), inputs["x"]
    case = Case.make(row, row.attrs(options, {}), inputs)
    ours = case.forward()["y"]
    model = ModelBuilder("tflite")
    samples = x.shape[1 if options.get("time_major") else 0]
    indices = []
    for name in (n.rstrip("?") for n in row.inputs):
        if name == "x":
            indices.append(model.add_input(x.shape))
        elif name in states:
            indices.append(model.add_state((samples, states[name])))
        else:
            indices.append(model.add_constant(inputs[name]) if name in inputs else -1)
    y = model.add_operator(op, indices, ours.shape, **options)
    model.write(folder / "m.tflite", y)
    return litert(folder / "m.tflite", [x[np.newaxis]])[0], ours


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("code", [0, 1, 2, 3, 4])
def test_an_rnn_computes_what_litert_does(code: int, time_major: bool, tmp_path: Path) -> None:
    inputs = drawn({"x": (3, 4, 5), "w": (6, 5), "r": (6, 6), "b": (6,)})
    options = {"fused_activation_function": code, "time_major": time_major}
    theirs, ours = both(RNN, inputs, {"h": 6}, tmp_path, **options)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


GATES = "ifgo"
TANH = 4


def lstm_shapes(
    x: tuple[int, ...],
    units: int,
    out: int = 0,
    gates: str = GATES,
    peepholes: bool = False,
    norm: bool = False,
) -> dict[str, tuple[int, ...]]:
    """Shapes of the inputs; with `out` there is a projection."""
    found: dict[str, tuple[int, ...]] = {"x": x}
    for gate in gates:
        found[f"w{gate}"] = (units, x[-1])
        found[f"r{gate}"] = (units, out or units)
        found[f"b{gate}"] = (units,)
        if peepholes and gate != "g":
            found[f"p{gate}"] = (units,)
        if norm:
            found[f"n{gate}"] = (units,)
    return found | ({"wp": (out, units), "bp": (out,)} if out else {})


X = (3, 4, 5)
KINDS = {
    "plain": lstm_shapes(X, 6),
    "peepholes": lstm_shapes(X, 6, peepholes=True),
    "projection": lstm_shapes(X, 6, 2),
    "coupled": lstm_shapes(X, 6, gates="fgo"),
    "all": lstm_shapes(X, 6, 2, peepholes=True),
    "all but the input gate": lstm_shapes(X, 6, 2, "fgo", peepholes=True),
    "layer normalization": lstm_shapes(X, 6, norm=True),
    "all, layer normalization": lstm_shapes(X, 6, 2, peepholes=True, norm=True),
    "coupled, layer normalization": lstm_shapes(X, 6, 2, "fgo", norm=True),
}


@pytest.mark.parametrize("clip", [0.0, 0.2])
@pytest.mark.parametrize("code", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_an_lstm_computes_what_litert_does(
    kind: str, code: int, clip: float, tmp_path: Path
) -> None:
    shapes = KINDS[kind]
    inputs = drawn(shapes)
    states = {"h": shapes["rf"][1], "c": 6}
    options = {"fused_activation_function": code, "cell_clip": clip, "proj_clip": clip / 2}
    for time_major in (False, True):
        more = {**options, "time_major": time_major}
        theirs, ours = both(SEQUENCE, inputs, states, tmp_path, **more)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    step = inputs | {"x": inputs["x"][:, 0]}
    theirs, ours = both("LSTM", step, states, tmp_path, **options)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def passes(inputs: Mapping[str, Array], dy: Array) -> tuple[Array, Array]:
    """Returns y and dz of an LSTM, by compiled kernels if there are any."""
    row = row_of(SEQUENCE)
    case = Case.make(row, row.attrs({"fused_activation_function": TANH}, {}), inputs)
    assert row.backward is not None
    case.arrays |= case.run(best_form(row.forward, case.attrs, case.specs)) | {"dy": dy}
    return case.arrays["y"], case.run(best_form(row.backward, case.attrs, case.specs))["dz"]


@pytest.mark.skipif(not is_available(), reason="products of NumPy depend on the number of rows")
@pytest.mark.parametrize("samples", [1, 2, 3])
@pytest.mark.parametrize("units", [21, 64])
def test_few_sequences_have_the_bits_they_have_among_others(units: int, samples: int) -> None:
    """Also over more steps than are computed at once."""
    inputs = {n: 0.3 * a for n, a in drawn(lstm_shapes((9, 131, 7), units)).items()}
    dy = drawn({"dy": (9, 131, units)})["dy"]
    few = passes(inputs | {"x": inputs["x"][:samples]}, dy[:samples])
    for alone, among in zip(few, passes(inputs, dy), strict=True):
        np.testing.assert_array_equal(alone, among[:samples])


def test_an_rnn_of_one_unit_by_hand() -> None:
    """h = 2 x + h / 2 + 1 over x = 1, 0, 3."""
    row = row_of(RNN)
    inputs = {"x": [[[1], [0], [3]]], "w": [[2]], "r": [[0.5]], "b": [1]}
    arrays = {n: np.array(a, np.float64) for n, a in inputs.items()}
    case = Case.make(row, row.attrs({}, {}), arrays)
    np.testing.assert_array_equal(case.forward()["y"].ravel(), [3, 2.5, 8.25])
    case.arrays["dy"] = np.array([[[0.0], [0.0], [4.0]]])
    np.testing.assert_array_equal(case.gradient("x").ravel(), [2, 4, 8])
    np.testing.assert_array_equal(case.gradient("r"), [[4 * 2.5 + 2 * 3]])


def deep() -> Graph:
    """An RNN, an LSTM with all that one may have, one with a coupled gate, a dense layer."""
    net = Net(np.float64)

    def state(width: int) -> int:
        i = net._tensor((1, width))
        net.tensors[i] = replace(net.tensors[i], variable=True)
        return i

    def lstm(
        x: int, shapes: Mapping[str, tuple[int, ...]], units: int, out: int, steps: int
    ) -> int:
        named = {n: net.weight(*shape) for n, shape in shapes.items() if n != "x"}
        named |= {"x": x, "h": state(out), "c": state(units)}
        inputs = [named.get(n.rstrip("?"), ABSENT) for n in row_of(SEQUENCE).inputs]
        options = {"fused_activation_function": TANH, "cell_clip": 2.0, "proj_clip": 1.0}
        return net.add(SEQUENCE, inputs, (1, steps, out), **options)

    x = net.input(1, 6, 3)
    weights = (net.weight(4, 3), net.weight(4, 4), net.weight(4), state(4))
    y = net.add(RNN, (x, *weights), (1, 6, 4), fused_activation_function=TANH)
    y = lstm(y, lstm_shapes((1, 6, 4), 5, 3, peepholes=True, norm=True), 5, 3, 6)
    y = lstm(y, lstm_shapes((1, 6, 3), 4, gates="fgo", peepholes=True), 4, 4, 6)
    y = net.add("RESHAPE", (y, net.constant([1, 24], np.int32)), (1, 24))
    return net.graph(net.dense(y, 2))


def test_a_deep_recurrent_network_trains() -> None:
    graph = deep()
    info = TrainingInfo(loss="mean_squared_error", batch_size=5, learning_rate=0.1)
    rng = np.random.default_rng(0)
    data = ArrayData([rng.normal(size=(5, 6, 3))], [rng.normal(size=(5, 2))])
    findings = self_test(LoweredGraphs(graph), info, data, weights=60)
    assert [f.what for f in findings if f.passed] == [
        "loss", "gradients", "finite differences", "one step"
    ], findings  # fmt: skip


def test_the_memory_plan_of_an_lstm_overwrites_gates_by_gradients() -> None:
    lowered = lower(deep(), 5)
    (output,) = lowered.outputs
    plan = training_plan(lowered, [Loss("mean_squared_error", output, {})], frozenset(range(9)))
    assert faults(plan, plan_memory(plan)) == []
    taken = replacements(plan, lifetimes(plan))
    assert [n for n in taken if n.endswith(".dz")] != []
