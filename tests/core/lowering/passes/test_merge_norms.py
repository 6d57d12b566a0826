"""Operators that spell out a normalization of rows are one if nothing else reads them."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from support.lowering import lower
from support.networks import ArrayData, Net
from support.rewriting import check_same_training, leave_out

from odt.core.model.graph import Graph
from odt.core.planning.trainable import trainable_by_operator

SHAPE = (1, 4, 6)
ROWS = (1, 4, 1)
Spelling = Callable[["Rows", int], int]


class Rows(Net):
    """Operators of rows of six values."""

    def of(self, op: str, *inputs: int | float, shape: Sequence[int] = SHAPE) -> int:
        read = [self.constant(i) if isinstance(i, float) else i for i in inputs]
        return self.add(op, read, tuple(shape))

    def mean(self, x: int, axis: int = 2) -> int:
        shape = tuple(1 if k == axis else n for k, n in enumerate(SHAPE))
        return self.add("MEAN", (x, self.constant([axis], np.int32)), shape, keep_dims=True)

    def root(self, squares: int, op: str = "RSQRT", axis: int = 2) -> int:
        mean = self.mean(squares, axis)
        shape = self.tensors[mean].spec.shape
        return self.of(op, self.of("ADD", mean, 1e-3, shape=shape), shape=shape)

    def difference(self, x: int) -> int:
        return self.of("SUB", x, self.mean(x))

    def shift(self, x: int) -> int:
        return self.of("ADD", x, self.weight(6))


def layer_norm(net: Rows, x: int) -> int:
    d = net.difference(x)
    y = net.of("MUL", d, net.root(net.of("MUL", d, d)))
    return net.shift(net.of("MUL", net.weight(1, 6), y))


def layer_norm_of_keras(net: Rows, x: int) -> int:
    mean = net.mean(x)
    g = net.of("MUL", net.root(net.of("SQUARED_DIFFERENCE", x, mean)), net.weight(6))
    shift = net.of("SUB", net.weight(6), net.of("MUL", mean, g))
    return net.of("ADD", net.of("MUL", x, g), shift)


def layer_norm_by_division(net: Rows, x: int) -> int:
    mean = net.mean(x)
    root = net.root(net.of("SQUARED_DIFFERENCE", x, mean), "SQRT")
    return net.shift(net.of("MUL", net.of("DIV", net.of("SUB", x, mean), root), net.weight(6)))


def layer_norm_by_power(net: Rows, x: int) -> int:
    d = net.difference(x)
    inverse = net.root(net.of("POW", d, 2.0))
    return net.shift(net.of("MUL", d, net.of("MUL", inverse, net.weight(6))))


def without_weights(net: Rows, x: int) -> int:
    d = net.difference(x)
    return net.of("MUL", net.root(net.of("SQUARE", d)), d)


def rms_norm(net: Rows, x: int) -> int:
    y = net.of("MUL", x, net.root(net.of("MUL", x, x)))
    return net.of("MUL", y, net.weight(6))


def with_axes_of_epsilon(net: Rows, x: int) -> int:
    mean = net.mean(net.of("SQUARE", x))
    variance = net.of("ADD", mean, net.constant([[[1e-5]]]), shape=ROWS)
    return net.of("MUL", x, net.of("RSQRT", variance, shape=ROWS))


def read_twice(net: Rows, x: int) -> int:
    d = net.difference(x)
    inverse = net.root(net.of("SQUARE", d))
    return net.of("ADD", net.of("MUL", d, inverse), inverse)


def of_another(net: Rows, x: int) -> int:
    return net.of("MUL", x, net.root(net.of("SQUARE", net.difference(x))))


def of_another_mean(net: Rows, x: int) -> int:
    squares = net.of("SQUARED_DIFFERENCE", x, net.mean(x))
    return net.of("MUL", net.of("SUB", x, net.mean(x, 1)), net.root(squares))


def columns(net: Rows, x: int) -> int:
    return net.of("MUL", x, net.root(net.of("SQUARE", x), axis=1))


def trained_epsilon(net: Rows, x: int) -> int:
    mean = net.mean(net.of("SQUARE", x))
    variance = net.of("ADD", mean, net.constant([0.5]), shape=ROWS)
    return net.of("MUL", x, net.of("RSQRT", variance, shape=ROWS))


def scaled_by_rows(net: Rows, x: int) -> int:
    d = net.difference(x)
    return net.of("MUL", d, net.of("MUL", net.weight(4, 1), net.root(net.of("SQUARE", d))))


def scaled_by_values(net: Rows, x: int) -> int:
    d = net.difference(x)
    return net.of("MUL", d, net.of("MUL", net.weight(4, 6), net.root(net.of("SQUARE", d))))


def scaled_by_results(net: Rows, x: int) -> int:
    d = net.difference(x)
    gamma = net.of("MUL", net.weight(6), net.weight(6), shape=(6,))
    return net.of("MUL", d, net.of("MUL", gamma, net.root(net.of("SQUARE", d))))


def shifted_to_more_rows(net: Rows, x: int) -> int:
    row = net.mean(x, 1)
    mean = net.add("MEAN", (row, net.constant([2], np.int32)), (1, 1, 1), keep_dims=True)
    squares = net.of("SQUARED_DIFFERENCE", row, mean, shape=(1, 1, 6))
    variance = net.add("MEAN", (squares, net.constant([2], np.int32)), (1, 1, 1), keep_dims=True)
    inverse = net.of("RSQRT", net.of("ADD", variance, 1e-3, shape=(1, 1, 1)), shape=(1, 1, 1))
    g = net.of("MUL", net.weight(6), inverse, shape=(1, 1, 6))
    shift = net.of("SUB", x, net.of("MUL", mean, g, shape=(1, 1, 6)))
    return net.of("ADD", net.of("MUL", row, g, shape=(1, 1, 6)), shift)


MERGED = {
    layer_norm: ["MEAN", "SUB", "RMS_NORM", "ADD"],
    layer_norm_of_keras: ["MEAN", "SUB", "RMS_NORM", "ADD"],
    layer_norm_by_division: ["MEAN", "SUB", "RMS_NORM", "ADD"],
    layer_norm_by_power: ["MEAN", "SUB", "RMS_NORM", "ADD"],
    without_weights: ["MEAN", "SUB", "RMS_NORM"],
    rms_norm: ["RMS_NORM"],
    with_axes_of_epsilon: ["RMS_NORM"],
}
KEPT = (
    read_twice,
    of_another,
    of_another_mean,
    columns,
    trained_epsilon,
    scaled_by_rows,
    scaled_by_values,
    scaled_by_results,
    shifted_to_more_rows,
)


def network(spelling: Spelling) -> Graph:
    """A dense layer, the normalization, and a dense layer of each row."""
    net = Rows()
    x = net.add(
        "FULLY_CONNECTED", (net.input(1, 4, 5), net.weight(6, 5)), SHAPE, keep_num_dims=True
    )
    y = spelling(net, x)
    return net.graph(
        net.add("FULLY_CONNECTED", (y, net.weight(3, 6)), (1, 4, 3), keep_num_dims=True)
    )


def operators(graph: Graph) -> list[str]:
    return [node.op for node in lower(graph, 2).nodes][1:-1]


@pytest.mark.parametrize(
    ("spelling", "made"), MERGED.items(), ids=lambda v: getattr(v, "__name__", "")
)
def test_a_normalization_is_one_operator(spelling: Spelling, made: list[str]) -> None:
    graph = network(spelling)
    assert operators(graph) == made
    # Operators of the file select weights; ε is none.
    trained = {(k, i) for k, i in trainable_by_operator(graph) if graph.tensors[i].spec.size > 1}
    assert {*trainable_by_operator(lower(graph, 2))} == trained


@pytest.mark.parametrize("spelling", KEPT)
def test_others_stay(spelling: Spelling, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = network(spelling)
    made = operators(graph)
    assert "RMS_NORM" not in made
    leave_out("merge_norms", monkeypatch)
    assert made == operators(graph)


def test_means_without_the_axis_stay() -> None:
    """Rows (6, 6) are multiplied by means (6), of which each belongs to a column."""
    net = Rows()
    x = net.input(6, 6)
    axis = net.constant([1], np.int32)
    mean = net.add("MEAN", (net.of("SQUARE", x, shape=(6, 6)), axis), (6,), keep_dims=False)
    inverse = net.of("RSQRT", net.of("ADD", mean, 1e-3, shape=(6,)), shape=(6,))
    graph = net.graph(net.of("MUL", x, inverse, shape=(6, 6)))
    assert "RMS_NORM" not in [node.op for node in lower(graph, 6).nodes]


def test_outputs_of_the_model_stay() -> None:
    net = Rows()
    x = net.input(1, 4, 6)
    inverse = net.root(net.of("SQUARE", x))
    y = net.of("MUL", net.of("MUL", x, inverse), net.weight(6))
    assert "RMS_NORM" not in operators(net.graph(y, inverse))


@pytest.mark.parametrize("kernels", ["numpy", "compiled"])
@pytest.mark.parametrize("spelling", MERGED)
def test_it_trains_the_same(
    spelling: Spelling, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernels == "numpy":
        monkeypatch.setenv("ODT_KERNELS", "numpy")
    random = np.random.default_rng(0)
    x = random.standard_normal((4, 4, 5), np.float32)
    data = ArrayData([x], [random.standard_normal((4, 4, 3), np.float32)])
    check_same_training("merge_norms", network(spelling), data, monkeypatch, moved=1e-5, atol=1e-6)
