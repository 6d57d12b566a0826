"""What a graph may ask for while it is lowered: sizes, counts and kinds of operands and outputs."""

import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.lowering import lower
from support.networks import Net

from odt.core.model.graph import ABSENT, Graph, Node
from odt.errors import UnsupportedError
from odt.kernels.rows.opdef import TensorSpec

MANY = 2**29


def beside(net: Net, op: str, inputs: Sequence[int], outputs: int = 1, **options: Any) -> Graph:
    """A layer that trains, and integers that are computed from constants alone."""
    y = net.dense(net.input(1, 4), 3)
    made = tuple(net._tensor((1,), np.int32) for _ in range(outputs))
    net.nodes.append(Node(op, tuple(inputs), made, options, len(net.nodes)))
    return net.graph(y)


def refusal(graph: Graph) -> str:
    """Why a graph is refused; lowering it takes less than 1 MB, without imports of operators."""
    with pytest.raises(UnsupportedError):
        lower(graph, 1)
    tracemalloc.start()
    try:
        with pytest.raises(UnsupportedError) as e:
            lower(graph, 1)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    return str(e.value)


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("FILL", ([32768, 32768], 1)),
        ("RANGE", (0, 2**31 - 1, 1)),
        ("PAD", ([1], [[MANY, MANY]])),
        ("ONE_HOT", ([0] * 1000, 2**21, 1, 0)),
        ("TILE", ([1, 2], [MANY])),
        ("BROADCAST_TO", ([1], [MANY, 2])),
    ],
)
def test_integers_that_follow_from_constants_are_bounded(op: str, inputs: Sequence[Any]) -> None:
    net = Net()
    graph = beside(net, op, [net.constant(a, np.int32) for a in inputs])
    assert f"node 1 ({op})" in refusal(graph)
    assert "must fit into 16 MiB for a node and 64 MiB in all" in refusal(graph)


def test_integers_that_follow_from_constants_are_bounded_together() -> None:
    net = Net()
    inputs = net.constant([2**22], np.int32), net.constant(1, np.int32)
    made = [net._tensor((1,), np.int32) for _ in range(5)]
    net.nodes += [Node("FILL", inputs, (y,), {}, k) for k, y in enumerate(made)]
    graph = net.graph(net.dense(net.input(1, 4), 3))
    with pytest.raises(UnsupportedError, match=r"node 4 \(FILL\)") as e:
        lower(graph, 1)
    assert "node 3" not in str(e.value)


@pytest.mark.parametrize(
    ("dims", "rule"),
    [
        ([2**17, 2**17], "must fit into 16 MiB"),
        ([2**31 - 1, 2**31 - 1], "must fit into 1099511627776 bytes"),
        ([1] * 70, "must have at most 31 axes, none below 0, but got 70"),
    ],
)
def test_computed_shapes_are_bounded_as_those_of_files(dims: list[int], rule: str) -> None:
    net = Net()
    inputs = net.constant(dims, np.int32), net.constant(1, np.int32)
    assert rule in refusal(beside(net, "FILL", inputs))


@pytest.mark.parametrize("limit", [np.nan, np.inf])
def test_a_range_ends(limit: float) -> None:
    net = Net()
    graph = beside(net, "RANGE", [net.constant(a) for a in (0.0, limit, 1.0)])
    assert "limit must hold finite numbers" in refusal(graph)


def test_a_wrong_number_of_tensors_is_told() -> None:
    for op, rule in (
        ("RELU", "must have 1 tensor (x), but got 0"),
        ("MUL", "must have 2 tensors (a, b), but got 0"),
        ("FULLY_CONNECTED", "must have 2 to 3 tensors (x, w, b?), but got 0"),
    ):
        assert rule in refusal(beside(Net(), op, []))


def test_a_variadic_input_is_one_tensor_or_more() -> None:
    assert "must have 1 or more tensors (xs*), but got 0" in refusal(beside(Net(), "ADD_N", []))


@pytest.mark.parametrize("op", ["PACK", "CONCATENATION", "ADD_N"])
def test_no_variadic_input_is_absent(op: str) -> None:
    net = Net()
    one, other = (net.constant([k], np.int32) for k in (1, 2))
    graph = beside(net, op, [one, ABSENT, other], axis=0, values_count=3)
    assert "must have the inputs xs1, but got none" in refusal(graph)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("op", ["SPLIT", "SPLIT_V", "UNPACK"])
def test_outputs_are_as_many_as_the_operator_makes(op: str, outputs: int) -> None:
    net = Net()
    axis, x = net.constant(0, np.int32), net.constant([1, 2], np.int32)
    inputs = {"SPLIT": [axis, x], "UNPACK": [x]}.get(op, [x, net.constant([1, 1], np.int32), axis])
    graph = beside(net, op, inputs, outputs, num=2, num_splits=2, axis=0)
    assert str(outputs) in refusal(graph).partition("outputs")[2]


def test_a_type_that_the_operator_does_not_make_is_refused() -> None:
    """ONE's neg_OneOp_Conv2D_Type: a FLOAT16 output of float32 operands."""
    net = Net()
    y = net.dense(net.input(1, 4), 3)
    net.tensors[y] = replace(net.tensors[y], spec=TensorSpec((1, 3), np.dtype(np.float16)))
    assert "y must be float32, but got float16 in the file" in refusal(net.graph(y))


@pytest.mark.parametrize(
    ("shape", "signature", "fits"),
    [
        ((1, 3), (), True),
        ((), (), True),
        ((1, 1), (-1, -1), True),
        ((1, 4), (), False),
        ((1, 1), (-1, 1), False),
        ((3,), (), False),
    ],
)
def test_an_output_has_the_shape_that_the_file_declares(
    shape: tuple[int, ...], signature: tuple[int, ...], fits: bool
) -> None:
    """ONE's neg_MaxPool_InvalidShape. What is open in the file may be anything."""
    net = Net()
    y = net.dense(net.input(1, 4), 3)
    spec = TensorSpec(shape, np.dtype(np.float32))
    net.tensors[y] = replace(net.tensors[y], spec=spec, signature=signature or shape)
    graph = net.graph(y)
    for batch in (1, 5):
        if fits:
            assert lower(graph, batch).tensors[y].spec.shape == (batch, 3)
        else:
            with pytest.raises(UnsupportedError, match=r"must be the computed one, \(1, 3\), but"):
                lower(graph, batch)


def test_an_output_that_nothing_computes_is_refused() -> None:
    net = Net()
    state = net._tensor((1, 3))
    net.tensors[state] = replace(net.tensors[state], variable=True)
    graph = net.graph(net.dense(net.input(1, 4), 3), state)
    with pytest.raises(UnsupportedError, match=r"tensor 0 .*: must be computed, but"):
        lower(graph, 1)


def test_inputs_and_outputs_have_values() -> None:
    none = (0, 0), (1, 0)  # begin and size
    empty, narrow = Net(), Net()
    x = narrow.input(1, 3)
    for net, y in (
        (empty, empty.add("RELU", (empty.input(1, 0),), (1, 0))),
        (narrow, narrow.add("SLICE", (x, *(narrow.constant(v, np.int32) for v in none)), (1, 0))),
    ):
        with pytest.raises(UnsupportedError, match=r"must have values, but got shape \(1, 0\)"):
            lower(net.graph(y), 1)


def test_a_mirror_has_a_known_mode() -> None:
    net = Net()
    pads = net.constant([[0, 0], [1, 1]], np.int32)
    graph = net.graph(net.add("MIRROR_PAD", (net.dense(net.input(1, 4), 3), pads), (1, 5), mode=2))
    assert "mode must be REFLECT (0) or SYMMETRIC (1), but got 2" in refusal(graph)
