"""Operators that spell out an activation function are one if nothing else reads them."""

from collections.abc import Callable
from dataclasses import replace
from math import pi, sqrt

import numpy as np
import pytest
from support.lowering import lower
from support.networks import ArrayData, Net
from support.rewriting import check_same_training, leave_out

from odt.core.lowering.passes.merge_activations import CURVES
from odt.core.lowering.passes.order import AFTER_BATCHING
from odt.core.model.graph import Graph, Tensor
from odt.core.planning.trainable import trainable_tensors
from odt.kernels.rows.opdef import TensorSpec

SHAPE = (1, 5, 6, 3)
Spelling = Callable[["Elementwise", int], int]


class Elementwise(Net):
    """Elementwise operators of one shape."""

    def of(self, op: str, *inputs: int | float) -> int:
        read = [self.constant(i) if isinstance(i, float) else i for i in inputs]
        return self.add(op, read, SHAPE)

    def bend(self, x: int, factor: float = sqrt(2 / pi), cubic: float = 0.044715) -> int:
        """tanh √(2/π) (x + c x³), with the cube as a power."""
        cube = self.of("MUL", self.of("POW", x, 3.0), cubic)
        return self.of("TANH", self.of("MUL", self.of("ADD", x, cube), factor))


def gelu_of_tensorflow(net: Elementwise, x: int) -> int:
    return net.of("MUL", x, net.of("MUL", net.of("ADD", net.bend(x), 1.0), 0.5))


def gelu_of_transformers(net: Elementwise, x: int) -> int:
    return net.of("MUL", net.of("MUL", 0.5, x), net.of("ADD", 1.0, net.bend(x)))


def gelu_by_products(net: Elementwise, x: int) -> int:
    """With u = √(2/π) x (1 + c x²), and half of the product."""
    square = net.of("MUL", net.of("MUL", x, x), 0.044715)
    u = net.of("MUL", net.of("MUL", x, sqrt(2 / pi)), net.of("ADD", square, 1.0))
    return net.of("DIV", net.of("MUL", net.of("ADD", net.of("TANH", u), 1.0), x), 2.0)


def gelu_of_onnx(net: Elementwise, x: int) -> int:
    """Scalars with four axes."""
    half, one, three, cubic, factor = (
        net.constant([[[[v]]]]) for v in (0.5, 1, 3, 0.044715, sqrt(2 / pi))
    )
    cube = net.of("MUL", net.of("POW", x, three), cubic)
    bent = net.of("TANH", net.of("MUL", net.of("ADD", x, cube), factor))
    return net.of("MUL", x, net.of("MUL", net.of("ADD", bent, one), half))


def hard_swish(net: Elementwise, x: int) -> int:
    shifted = net.add("ADD", (x, net.constant(3.0)), SHAPE, fused_activation_function=3)
    return net.of("MUL", net.of("MUL", x, shifted), 1 / 6)


def hard_swish_by_its_gate(net: Elementwise, x: int) -> int:
    return net.of("MUL", net.of("DIV", net.of("RELU6", net.of("ADD", x, 3.0)), 6.0), x)


def two(net: Elementwise, x: int) -> int:
    """A swish of a swish."""
    return gate_last(net, gate_first(net, x))


def gate_first(net: Elementwise, x: int) -> int:
    return net.of("MUL", net.of("LOGISTIC", x), x)


def gate_last(net: Elementwise, x: int) -> int:
    return net.of("MUL", x, net.of("LOGISTIC", x))


def read_twice(net: Elementwise, x: int) -> int:
    gate = net.of("LOGISTIC", x)
    return net.of("ADD", net.of("MUL", x, gate), gate)


def read_inside_twice(net: Elementwise, x: int) -> int:
    bend = net.bend(x)
    gelu = net.of("MUL", x, net.of("MUL", net.of("ADD", bend, 1.0), 0.5))
    return net.of("ADD", gelu, bend)


def of_another(net: Elementwise, x: int) -> int:
    return net.of("MUL", x, net.of("LOGISTIC", net.of("TANH", x)))


def other_factor(net: Elementwise, x: int) -> int:
    return net.of("MUL", x, net.of("MUL", net.of("ADD", net.bend(x, cubic=0.05), 1.0), 0.5))


def trained_factor(net: Elementwise, x: int) -> int:
    half = net.constant([0.5])
    return net.of("MUL", x, net.of("MUL", net.of("ADD", net.bend(x), 1.0), half))


def rounded_factor(net: Elementwise, x: int) -> int:
    """Within 3e-6 of GELU, which float32 tells apart."""
    return net.of("MUL", x, net.of("MUL", net.of("ADD", net.bend(x, 0.79789), 1.0), 0.5))


def quick_gelu(net: Elementwise, x: int) -> int:
    return net.of("MUL", x, net.of("LOGISTIC", net.of("MUL", x, 1.702)))


def division_by_zero(net: Elementwise, x: int) -> int:
    """Of points, not of samples: no warning."""
    return net.of("DIV", net.of("TANH", x), x)


MERGED = {
    gelu_of_tensorflow: ["GELU"],
    gelu_of_transformers: ["GELU"],
    gelu_by_products: ["GELU"],
    hard_swish: ["HARD_SWISH"],
    hard_swish_by_its_gate: ["HARD_SWISH"],
    gate_first: ["SWISH"],
    gate_last: ["SWISH"],
    two: ["SWISH", "SWISH"],
}
KEPT = (
    *(read_twice, read_inside_twice, of_another, other_factor, rounded_factor, trained_factor),
    *(quick_gelu, division_by_zero),
)


def network(spelling: Spelling, *, output: bool = False) -> Graph:
    """A convolution, the function and a mean."""
    net = Elementwise()
    image = net.input(1, 7, 8, 2)
    options = {"stride_h": 1, "stride_w": 1, "padding": 1}
    options |= {"dilation_h_factor": 1, "dilation_w_factor": 1}
    x = net.add("CONV_2D", (image, net.weight(3, 3, 3, 2), net.weight(3)), SHAPE, **options)
    first = len(net.nodes)
    y = spelling(net, x)
    gate = net.nodes[first].outputs[0]
    y = net.add("MEAN", (y, net.constant((1, 2), np.int32)), (1, 3), keep_dims=False)
    return net.graph(y, gate) if output else net.graph(y)


def operators(graph: Graph) -> list[str]:
    return [node.op for node in lower(graph, 2).nodes]


@pytest.mark.parametrize(
    ("spelling", "made"), MERGED.items(), ids=lambda v: getattr(v, "__name__", "")
)
def test_a_function_is_one_operator(spelling: Spelling, made: list[str]) -> None:
    assert operators(network(spelling)) == ["CONV_2D", *made, "MEAN"]


def test_its_row_names_the_operators_of_which_each_function_has_one() -> None:
    (row,) = (each for each in AFTER_BATCHING if each.name == "merge_activations")
    assert set(row.operators) == CURVES


def test_scalars_with_axes_are_no_weights_of_a_function() -> None:
    graph = lower(network(gelu_of_onnx), 2)
    assert [node.op for node in graph.nodes] == ["CONV_2D", "GELU", "MEAN"]
    trained = trainable_tensors(graph, {node.origin for node in graph.nodes})
    assert [graph.tensors[i].spec.shape for i in trained] == [(3, 3, 3, 2), (3,)]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("spelling", KEPT)
def test_others_stay(spelling: Spelling, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = network(spelling)
    made = operators(graph)
    leave_out("merge_activations", monkeypatch)
    assert made == operators(graph)


def test_a_state_is_no_scalar() -> None:
    half = np.array(0.5, np.float32)
    tensor = Tensor("half", TensorSpec(half.shape, half.dtype), data=half)
    assert tensor.scalar == half
    assert replace(tensor, variable=True).scalar is None


@pytest.mark.parametrize("spelling", [gate_first, hard_swish_by_its_gate, gelu_of_transformers])
def test_outputs_of_the_model_stay(spelling: Spelling) -> None:
    made = operators(network(spelling, output=True))
    assert not {"GELU", "SWISH", "HARD_SWISH"} & {*made}


@pytest.mark.parametrize("kernels", ["numpy", "compiled"])
@pytest.mark.parametrize("spelling", MERGED)
def test_it_trains_the_same(
    spelling: Spelling, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernels == "numpy":
        monkeypatch.setenv("ODT_KERNELS", "numpy")
    random = np.random.default_rng(0)
    x = random.standard_normal((4, 7, 8, 2), np.float32)
    data = ArrayData([x], [random.standard_normal((4, 3), np.float32)])
    check_same_training(
        "merge_activations",
        network(spelling), data, monkeypatch, moved=1e-5, atol=1e-6,
    )  # fmt: skip
