"""Fake quantization: the float graph by which a quantized file is trained.

Activations, weights and biases become float32. After each operator whose output is quantized in the
file, a FAKE_QUANT rounds the output to the numbers that its integers represent; its limits stand
for a fused activation within which they lie. Weights train as floats behind the same rounding (see
kernels/geometry/weight_quantization.py), which Parameters computes once for each step. A bias is
quantized with the scale of the input times that of the weights, whose steps are so small that only
the export rounds it.

The probabilities of a final SOFTMAX or LOGISTIC are not rounded. Losses read what is before the
last rounding, such as logits, because values beyond the limits would get no gradient
(core/recipe/output_losses.py).

Source: Jacob et al., *Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference* (2018), section 3.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from odt.core.integers.equalize import equalize, pairs
from odt.core.integers.implied_activations import (
    RELU,
    RELU6,
    implied_activations,
    with_implied_activations,
)
from odt.core.integers.shared_ranges import KEEPING, SHARING, has_same_range, shared_ranges
from odt.core.integers.stored_values import (
    bias_quantization,
    biases_of,
    integer_biases,
    layer_scale,
    shared_biases,
)
from odt.core.lowering.final_activation import PROBABILITIES, SHAPE_ONLY, producer
from odt.core.model.dequantize import (
    FLOAT32,
    DequantizedGraph,
    integer_decoder,
    weight_quantization,
)
from odt.core.model.graph import ABSENT, Graph, Node, Tensor
from odt.core.model.integer_operators import CONVERSIONS
from odt.core.model.model import Model
from odt.core.model.quantization_rules import (
    is_quantized_activation,
    with_cell_clip,
)
from odt.kernels.families.requantize import QuantizedTensor
from odt.kernels.geometry.quantize import (
    SMALLEST,
    UNSCALED,
    Quantization,
    dequantize,
    fake_quant_numbers,
    limits,
)
from odt.kernels.geometry.weight_quantization import WeightQuantization
from odt.kernels.registry import INTEGER, find_operator
from odt.kernels.rows.opdef import TensorSpec

# Ranges of the fused activations that a quantized range can stand for, by code of the schema.
RELU_N1_TO_1 = 2
CLAMPS = {RELU: (0.0, np.inf), RELU_N1_TO_1: (-1.0, 1.0), RELU6: (0.0, 6.0)}
# Operators without limit → smallest input by the limits of the output.
LEAST: Mapping[str, Callable[[float, float], float]] = {
    "RSQRT": lambda lo, hi: 1 / hi**2 if hi > 0 else 0.0,
    "LOG": lambda lo, hi: math.exp(lo),
}
UNLIMITED = (*LEAST, "DIV")


def fake_quantize(model: Model, dequantized: DequantizedGraph) -> DequantizedGraph:
    """Returns the graph of a model whose activations are quantized, with fake quantization.

    Args:
        model: the model.
        dequantized: its graph with float32 weights.
    """
    builder = _Builder(
        model, with_implied_activations(dequantized.graph, implied_activations(model))
    )
    graph = builder.build()
    activations = (i for i in model.quantization if is_quantized_activation(model.graph, i))
    stored = {**dequantized.stored, **builder.stored}
    return DequantizedGraph(graph, stored, frozenset(activations), builder.ranges)


def _real(tensor: Tensor, quantization: Quantization, *, weight: bool) -> Tensor:
    """Returns a constant of integers as the real numbers that they represent.

    The data of a large weight stay integers.
    """
    assert tensor.data is not None
    decoder = integer_decoder(tensor, quantization) if weight else None
    if decoder is not None and tensor.spec.dtype.itemsize == 1:
        spec = TensorSpec(tensor.spec.shape, FLOAT32)
        return replace(tensor, spec=spec, quantized=False, decoder=decoder)
    values = dequantize(tensor.data, quantization)
    values.flags.writeable = False
    return replace(tensor, spec=TensorSpec(values.shape, FLOAT32), data=values, quantized=False)


def _with_tensor(node: Node, x: int, y: int) -> Node:
    """Returns a node with tensor y in place of x."""
    inputs, outputs = (tuple(y if i == x else i for i in t) for t in (node.inputs, node.outputs))
    return replace(node, inputs=inputs, outputs=outputs)


class _Builder:
    """Builds the fake-quantized graph, node by node.

    Attributes:
        stored: constant of the graph → tensor of the file that stores it.
    """

    def __init__(self, model: Model, graph: Graph) -> None:
        self.stored: dict[int, int] = {}
        self._model, self._graph = model, graph
        self._tensors = list(graph.tensors)
        self._nodes: list[Node] = []
        self._same: dict[int, int] = {}  # tensors that another tensor stands for
        self._exact = self._probabilities()
        self._groups = shared_ranges(model, graph, self._exact)
        self._numbers: dict[int, int] = {}  # first of a group → numbers of its FAKE_QUANTs
        shared = {b: graph.tensors[b] for b in shared_biases(model)}
        self._nonzero = {b for b, t in shared.items() if t.data is not None and t.data.any()}
        self._zeros = shared.keys() - self._nonzero
        self._wider: dict[int, float] = {}  # activation → by how much equalization widens its range
        # Result of a DEQUANTIZE, or an activation of integers → the integers.
        self._from_integers = {
            i: i for i in range(len(graph.tensors)) if is_quantized_activation(graph, i)
        }
        for node in graph.nodes:
            if node.op == "DEQUANTIZE" and node.inputs[0] in self._from_integers:
                self._from_integers[node.outputs[0]] = node.inputs[0]
        self._setters = Counter[int]()  # first of a group → number of operators that set it

    @property
    def ranges(self) -> dict[int, tuple[int, ...]]:
        """Numbers of a FAKE_QUANT that may move → the activations that share this range."""
        return {i: self._groups[first] for first, i in self._numbers.items()}

    def build(self) -> Graph:
        """Returns the fake-quantized graph."""
        self._dequantize_constants()
        self._equalize()
        self._setters = Counter(
            self._groups[i][0]
            for node in self._graph.nodes
            for i in node.outputs
            if node.op not in SHARING and i in self._groups and self._must_round(node, i)
        )
        for i in self._graph.inputs:
            self._add_input(i)
        for i, tensor in enumerate(self._graph.tensors):
            if is_quantized_activation(self._graph, i) and i not in self._graph.inputs:
                spec = TensorSpec(tensor.spec.shape, FLOAT32)
                self._tensors[i] = replace(tensor, spec=spec, quantized=False)
        for node in self._graph.nodes:
            self._add(node)
        return replace(self._graph, tensors=tuple(self._tensors), nodes=tuple(self._nodes))

    def _probabilities(self) -> set[int]:
        """Returns the tensors from a final SOFTMAX or LOGISTIC to an output."""
        exact: set[int] = set()
        for i in self._graph.outputs:
            chain = [i]
            node = producer(self._graph, i)
            while node is not None and node.op in (*CONVERSIONS, *SHAPE_ONLY):
                chain.append(node.inputs[0])
                node = producer(self._graph, node.inputs[0])
            if node is not None and node.op in PROBABILITIES:
                exact.update(chain)
        return exact

    def _dequantize_constants(self) -> None:
        """Dequantizes weights, biases and other constants."""
        biases = {b: (x, w) for x, w, b in integer_biases(self._model)}
        for i, tensor in enumerate(self._graph.tensors):
            quantization = self._model.quantization.get(i)
            if i in self._zeros:
                quantization = UNSCALED
            if i in biases:
                scale = layer_scale(self._model, *biases[i])
                quantization = bias_quantization(quantization, scale)
            if quantization is None or tensor.data is None or tensor.spec.dtype.kind not in "iu":
                continue
            is_bias = tensor.spec.dtype.itemsize > 2
            if is_bias and i not in (*biases, *self._zeros):
                continue
            stored = None
            if not is_bias:
                stored = weight_quantization(self._model.graph.tensors[i], quantization)
            formula = tensor.formula or i in self._zeros
            real = _real(tensor, quantization, weight=not is_bias)
            self._tensors[i] = replace(real, formula=formula, quantization=stored)
            self.stored[i] = i

    def _equalize(self) -> None:
        """Equalizes the weights in `Model.equalized`, where the ranges between them move alone."""
        alone = {i for i, group in self._groups.items() if group == (i,)}
        layer_pairs = [*pairs(self._model, self._graph, self._model.equalized | alone)]
        tensors = {i for p in layer_pairs for i in (p.w, p.b, p.reader) if i != ABSENT}
        values = {i: np.array(self._tensors[i].real, np.float64) for i in tensors}
        self._wider = equalize(layer_pairs, values)
        for i, a in values.items():
            real, stored = a.astype(FLOAT32), self._tensors[i].quantization
            real.flags.writeable = False
            if stored is not None and a.any():
                scale = np.array([abs(a).max() / stored.limits[1]], "<f4")
                stored = replace(stored, first=replace(stored.first, scale=scale))
            tensor = self._tensors[i].with_values(real)
            self._tensors[i] = replace(tensor, quantization=stored)

    def _add_input(self, i: int) -> None:
        """Adds the DEQUANTIZE of an input of integers."""
        if not is_quantized_activation(self._graph, i):
            return
        tensor, quantization = self._tensors[i], self._model.quantization[i]
        stored = WeightQuantization(quantization, tensor.spec.dtype)
        self._tensors[i] = replace(tensor, quantized=False, quantization=stored)
        y = self._add_float(f"{tensor.name}/dequantized", tensor)
        readers = [n.origin for n in self._graph.nodes if i in n.inputs]
        options = {"quantized": {"x": QuantizedTensor(quantization, tensor.spec.dtype, None)}}
        origin = min(readers, default=0)
        self._nodes.append(Node(f"{INTEGER}DEQUANTIZE", (i,), (y,), options, origin))
        self._same[i] = y

    def _add_float(self, name: str, like: Tensor) -> int:
        """Adds a float tensor in the shape of another one."""
        spec = TensorSpec(like.spec.shape, FLOAT32)
        self._tensors.append(Tensor(name, spec, like.signature))
        return len(self._tensors) - 1

    def _add(self, node: Node) -> None:
        """Adds a node, and a FAKE_QUANT for each output that must be rounded."""
        inputs = tuple(self._same.get(i, i) for i in self._with_separate_biases(node))
        if node.op in CONVERSIONS:
            self._convert(node, inputs[0])
            return
        outputs = {i: i for i in node.outputs}
        node = with_cell_clip(self._model, node)
        clamp = (-np.inf, np.inf)
        options = node.options
        for i in node.outputs:
            if self._must_round(node, i):
                name = f"{self._graph.tensors[i].name}/before quantization"
                outputs[i] = self._add_float(name, self._graph.tensors[i])
                options = self._without_clamp(node, i)
                if options is not node.options:
                    clamp = CLAMPS[node.options["fused_activation_function"]]
        inputs = self._limit_input(node, inputs)
        results = tuple(outputs.values())
        self._nodes.append(replace(node, inputs=inputs, outputs=results, options=options))
        for y, x in outputs.items():
            if x != y:
                self._fake_quantize(x, y, node.origin, clamp)

    def _limit_input(self, node: Node, inputs: tuple[int, ...]) -> tuple[int, ...]:
        """Limits the input of a node to numbers whose results are in the range of its output.

        Infinite results, such as those of 0, are cut off when they are quantized, but their
        gradient would be NaN. The denominator of DIV must not be 0. Numbers that are rounded to 0
        count as half a step if other operators on real numbers read the result.
        """
        if node.op not in UNLIMITED:
            return inputs
        (y,) = node.outputs
        position = len(inputs) - 1  # of the denominator, or of the only input
        x = inputs[position]
        bounds = self._range_after(y)
        if bounds is not None and node.op == "DIV":
            most = max(abs(bounds[0]), abs(bounds[1]), SMALLEST)
            least = self._smallest_size(node.inputs[0]) / most
        elif bounds is not None:
            least = LEAST[node.op](*bounds)
        elif node.inputs[position] in self._from_integers:
            least = self._smallest_size(node.inputs[position]) / 2
        else:
            return inputs
        if node.op == "DIV":
            limited = self._other_than_zero(x, node, least)
        else:
            limited = self._add_float(f"{self._tensors[x].name}/limited", self._tensors[x])
            number = self._add_scalar(f"{self._tensors[y].name}/smallest input", least)
            self._nodes.append(Node("MAXIMUM", (x, number), (limited,), {}, node.origin))
        return (*inputs[:position], limited)

    def _range_after(self, y: int) -> tuple[float, float] | None:
        """The smallest and the largest number that the integers of a result represent.

        They are those of the QUANTIZEs that alone read a real number.
        """
        if is_quantized_activation(self._graph, y):
            integers = [y]
        else:
            readers = [n for n in self._graph.nodes if y in n.inputs]
            if not readers or any(n.op != "QUANTIZE" for n in readers):
                return None
            integers = [n.outputs[0] for n in readers]
        bounds = [
            limit * float(self._model.quantization[i].scale[0])
            for i in integers
            for limit in self._integer_limits(i)
        ]
        return min(bounds), max(bounds)

    def _smallest_size(self, i: int) -> float:
        """The least size of the values of a tensor that are not 0, as far as it is known."""
        data = self._tensors[i].real
        if data is not None and data.any():
            return float(abs(data[data != 0]).min())
        i = self._from_integers.get(i, i)
        return float(self._model.quantization[i].scale[0]) if i in self._model.quantization else 1.0

    def _other_than_zero(self, x: int, node: Node, least: float) -> int:
        """Returns a tensor with the values of x, but a small number in place of 0."""
        is_zero = self._add_float(f"{self._tensors[x].name}/is 0", self._tensors[x])
        spec = TensorSpec(self._tensors[x].spec.shape, np.dtype(bool))
        self._tensors[is_zero] = replace(self._tensors[is_zero], spec=spec)
        zero, number = (self._add_scalar(f"{node.origin}/least", v) for v in (0.0, least))
        limited = self._add_float(f"{self._tensors[x].name}/limited", self._tensors[x])
        self._nodes.append(Node("EQUAL", (x, zero), (is_zero,), {}, node.origin))
        self._nodes.append(Node("SELECT_V2", (is_zero, number, x), (limited,), {}, node.origin))
        return limited

    def _add_scalar(self, name: str, value: float) -> int:
        """Adds a constant that does not train."""
        data = np.full((), value, FLOAT32)
        data.flags.writeable = False
        self._tensors.append(Tensor(name, TensorSpec((), FLOAT32), (), data, formula=True))
        return len(self._tensors) - 1

    def _with_separate_biases(self, node: Node) -> tuple[int, ...]:
        """Returns a node's inputs, with a copy of each shared bias other than 0."""
        copies: dict[int, int] = {}
        for x, w, b in biases_of(self._model, node):
            if b in self._nonzero:
                scale = layer_scale(self._model, x, w)
                quantization = bias_quantization(self._model.quantization.get(b), scale)
                bias = _real(self._graph.tensors[b], quantization, weight=False)
                self._tensors.append(replace(bias, formula=True))
                copies[b] = len(self._tensors) - 1
        return tuple(copies.get(i, i) for i in node.inputs)

    def _convert(self, node: Node, x: int) -> None:
        """Adds a QUANTIZE or DEQUANTIZE: a FAKE_QUANT, or none where nothing is rounded."""
        (y,) = node.outputs
        if node.op == "QUANTIZE" and y not in self._exact:
            self._fake_quantize(x, y, node.origin)
        elif y not in self._graph.outputs:
            self._same[y] = x
        elif x in (*self._graph.inputs, *self._graph.outputs):
            shape = self._graph.tensors[y].signature or self._tensors[y].spec.shape
            self._nodes.append(Node("RESHAPE", (x,), (y,), {"new_shape": shape}, node.origin))
        else:  # an output keeps its number
            self._nodes[:] = [_with_tensor(n, x, y) for n in self._nodes]
            self._same[x] = y

    def _fake_quantize(
        self, x: int, y: int, origin: int, clamp: tuple[float, float] = (-np.inf, np.inf)
    ) -> None:
        """Adds the FAKE_QUANT that rounds x to the numbers that the integers of y represent.

        Args:
            x, y: input and output.
            origin: position of the operator in the file.
            clamp: least and largest value of the fused activation that the limits stand for.
        """
        lo, hi = self._integer_limits(y)
        group = self._groups.get(y, ())
        options = {
            "scale": float(self._model.quantization[y].scale[0]) * self._wider.get(y, 1.0),
            "lo": lo,
            "hi": hi,
            "clamp": clamp,
            "estimated": y in self._wider,
            "output": not set(self._graph.outputs).isdisjoint(group),
        }
        inputs = (x, self._numbers_of(y)) if group else (x,)
        self._nodes.append(Node("FAKE_QUANT", inputs, (y,), options, origin))

    def _numbers_of(self, y: int) -> int:
        """Returns the tensor of the numbers that the FAKE_QUANT of an activation reads."""
        first = self._groups[y][0]
        if first not in self._numbers:
            (lo, hi), scale = self._integer_limits(y), float(self._model.quantization[y].scale[0])
            data = fake_quant_numbers(scale * self._wider.get(y, 1.0), lo, hi)
            data.flags.writeable = False
            spec = TensorSpec(data.shape, data.dtype)
            name = f"{self._graph.tensors[first].name}/range"
            self._tensors.append(Tensor(name, spec, spec.shape, data))
            self._numbers[first] = len(self._tensors) - 1
        return self._numbers[first]

    def _integer_limits(self, i: int) -> tuple[int, int]:
        """The limits of an activation's integers minus the zero point."""
        zero = int(self._model.quantization[i].zero_point[0])
        lo, hi = limits(self._graph.tensors[i].spec.dtype)
        return lo - zero, hi - zero

    def _must_round(self, node: Node, y: int) -> bool:
        """Whether a node's output must be rounded."""
        if y in self._exact or not is_quantized_activation(self._graph, y):
            return False
        moves = node.op in KEEPING and not node.options.get("fused_activation_function", 0)
        operands = [i for i in node.inputs if i != ABSENT and self._has_integers(i)]
        return not (moves and all(has_same_range(self._model, self._graph, i, y) for i in operands))

    def _has_integers(self, i: int) -> bool:
        """Whether the file stores or computes integers of a tensor."""
        return is_quantized_activation(self._graph, i) or i in self.stored

    def _without_clamp(self, node: Node, y: int) -> Mapping[str, Any]:
        """Returns a node's options without a fused activation that the limits of y stand for."""
        code = node.options.get("fused_activation_function", 0)
        common = y in self._groups and self._setters[self._groups[y][0]] > 1
        row = find_operator(node.op)
        if row is None or code not in CLAMPS or row.keeps_activation or common:
            return node.options  # a range that others share may exceed the activation
        (least, most), (lo, hi) = CLAMPS[code], self._integer_limits(y)
        scale = float(self._model.quantization[y].scale[0])
        if lo * scale < least - scale / 2 or hi * scale > most + scale / 2:
            return node.options
        return {**node.options, "fused_activation_function": 0}
