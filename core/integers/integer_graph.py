"""The integer graph of a quantized file: the graph that computes its integers, as LiteRT does.

A tensor that a node computes keeps its index, and holds real numbers (float32) there, as in the
graph that is trained; its integers are a new tensor. A node on quantized tensors becomes a node of
an integer row (kernels/integer), followed by an INTEGER_DEQUANTIZE, which runs only if something
reads the real numbers: an output, a loss. Inputs keep the file's type.

An operator without an integer row moves integers if all its tensors have one quantization; else it
computes real numbers, which are quantized afterwards.
"""

from dataclasses import replace

import numpy as np

from odt.core.integers.stored_values import layer_scale
from odt.core.integers.vector_biases import vector_biases
from odt.core.lowering.binding import bind, names_of, row_of
from odt.core.lowering.checked_operators import check_operators
from odt.core.lowering.final_activation import producer
from odt.core.model.dequantize import dequantize_weights
from odt.core.model.graph import ABSENT, Graph, Node, Tensor
from odt.core.model.integer_operators import CONVERSIONS, MOVING
from odt.core.model.model import Model
from odt.core.model.quantization_rules import ACTIVATIONS, LAYERS
from odt.errors import ModelError, ShapeError
from odt.kernels.families.requantize import QuantizedTensor
from odt.kernels.geometry.activations import BOUNDS
from odt.kernels.geometry.quantize import UNSCALED, dequantize, one_scale
from odt.kernels.geometry.weight_quantization import WeightQuantization
from odt.kernels.geometry.window import SAME, VALID
from odt.kernels.registry import INTEGER, integer_constants, integer_names
from odt.kernels.rows.opdef import Array, OpDef, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef

FLOAT32 = np.dtype(np.float32)
INT8 = np.dtype(np.int8)


def integer_graph(model: Model) -> Graph:
    """Returns the graph that computes the integers of a quantized file.

    Raises:
        ModelError: if the quantization of a tensor is invalid or does not fit its operator.
    """
    check_operators(model)
    return _Builder(model).build()


def quantized_def(row: OpDef) -> QuantizedDef:
    """Returns the `quantized` of an operator's row; only for operators with an integer kernel."""
    assert row.quantized is not None, f"{row.name}: its row must have `quantized`"
    return row.quantized


class _Builder:
    """Builds the integer graph, node by node.

    Attributes:
        tensors: the file's tensors as real numbers, then the integers.
        integers: quantized tensor of the file → tensor that holds its integers.
        reals: quantized input or constant of the file → tensor that holds its real numbers.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.graph = vector_biases(dequantize_weights(model).graph)
        self.tensors = list(self.graph.tensors)
        self.nodes: list[Node] = []
        self.integers: dict[int, int] = {}
        self.reals: dict[int, int] = {}

    def build(self) -> Graph:
        """Returns the integer graph."""
        graph = self.graph
        for i in graph.inputs:
            if self._is_quantized(i):
                self._add_input(i)
        for node in graph.nodes:
            self._add(node)
        return replace(graph, tensors=tuple(self.tensors), nodes=tuple(self.nodes))

    def _is_quantized(self, i: int) -> bool:
        tensor = self.graph.tensors[i]
        return tensor.quantized and tensor.spec.dtype in ACTIVATIONS

    def _quantized_tensor(self, i: int) -> QuantizedTensor:
        """Returns quantization, type, constant integers and shape of a tensor of the file."""
        tensor = self.graph.tensors[i]
        quantization = self.model.quantization.get(i, UNSCALED)  # a bias may have no scale
        return QuantizedTensor(quantization, tensor.spec.dtype, tensor.data, tensor.spec.shape)

    def _add(self, node: Node) -> None:
        """Adds a node as integer row, as one that moves integers, or as one on real numbers."""
        bound = [i for i in (*node.inputs, *node.outputs) if i != ABSENT]
        if not any(self._is_quantized(i) for i in bound):
            self.nodes.append(node)
        elif node.op in CONVERSIONS and len(node.inputs) == len(node.outputs) == 1:
            self._convert(node)
        elif node.op in integer_names() and self._has_integer_form(node):
            self._add_integer(node)
        elif self._moves(node):
            self._move(node)
        else:
            self._compute_real(node)

    def _has_integer_form(self, node: Node) -> bool:
        """Whether the integer row of a node's operator takes its tensors."""
        row = row_of(node.op)
        facts, names = quantized_def(row), names_of(row.inputs).plain
        activation = node.options.get("fused_activation_function", 0)
        if activation not in BOUNDS and not row.keeps_activation:
            return False
        operands = {  # without shapes, axes and states; inputs at the end may be left out
            k: i
            for k, (name, i) in enumerate(zip(names, node.inputs, strict=False))
            if name not in row.static and name not in row.zero_state
        }
        inputs = [*operands.values()]
        if facts.layers:
            activations = {layer.x for layer in facts.layers}
            weights = {layer.w for layer in facts.layers}
            constants = [i for k, i in operands.items() if k not in activations and i != ABSENT]
            if any(self.graph.tensors[i].data is None for i in constants):
                return False
            inputs = [operands[k] for k in activations]
            inputs += [operands[k] for k in weights if operands[k] != ABSENT]
        bound = (*inputs, *node.outputs)
        if ABSENT in bound or not all(map(self._is_quantized, bound)):
            return False
        types = {self.graph.tensors[i].spec.dtype for i in bound}
        if facts.bytes_only and (len(types) > 1 or types.pop().itemsize > 1):
            return False
        return not facts.one_scale or self._have_one_quantization(node)

    def _add_input(self, i: int) -> None:
        """Adds the real numbers of an input of integers."""
        tensor = self.tensors[i]
        stored = WeightQuantization(self.model.quantization[i], tensor.spec.dtype)
        self.tensors[i] = replace(tensor, quantized=False, quantization=stored)
        self.integers[i] = i
        self.reals[i] = self._new(i, "real", FLOAT32)
        readers = [n.origin for n in self.graph.nodes if i in n.inputs]
        self._dequantize(i, self.reals[i], min(readers, default=0))

    def _convert(self, node: Node) -> None:
        """Adds a QUANTIZE or DEQUANTIZE; the real numbers of a constant are a constant."""
        (x,), (y,) = node.inputs, node.outputs
        data = self.graph.tensors[x].data
        if node.op == "DEQUANTIZE" and data is not None and self._is_quantized(x):
            real = self._constant(dequantize(data, self.model.quantization[x]))
            self.tensors[y] = replace(self.tensors[real], name=self.tensors[y].name)
        elif node.op == "DEQUANTIZE":
            self._dequantize(x, y, node.origin)
        elif self._is_quantized(x):
            self._quantize(self._integer(x), y, node.origin, {"x": self._quantized_tensor(x)})
        else:
            self._quantize(x, y, node.origin, {})

    def _add_integer(self, node: Node) -> None:
        """Adds the integer row of a node, and the real numbers of its outputs."""
        file_row, row = row_of(node.op), row_of(INTEGER + node.op)
        try:
            inputs = bind(file_row.inputs, node.inputs)
            outputs = bind(file_row.outputs, node.outputs)
            names = {n: i for n, i in (*inputs.items(), *outputs.items()) if i != ABSENT}
            tensors = {n: self._quantized_tensor(i) for n, i in names.items()}
            if "hidden" in node.options:  # the input of the projection of an LSTM
                tensors["hidden"] = QuantizedTensor(one_scale(*node.options["hidden"]), INT8)
            constants = integer_constants(node.op)(tensors)
        except ShapeError as e:
            where = f"{self.model.path}: node {node.origin} ({node.op})"
            raise ModelError(f"{where}: {e}.") from e
        bound = tuple(
            self._constant(constants[n]) if n in constants else self._integer(names[n])
            for n in row.inputs
        )
        results = tuple(self._new_integers(i) for i in node.outputs)
        options = {**node.options, "quantized": tensors}
        pad = self._pad_before(node)
        if pad is not None:
            x, paddings = pad
            options["zeros"] = tuple(map(tuple, paddings[1:3].tolist()))  # of height and width
            bound = (self._integer(x), *bound[1:])
        self.nodes.append(
            replace(node, op=row.name, inputs=bound, outputs=results, options=options)
        )
        self._dequantize_all(node)

    def _pad_before(self, node: Node) -> tuple[int, Array] | None:
        """Returns input and paddings (4, 2) of a PAD that a node can compute; None without one.

        It pads height and width before VALID windows.
        """
        before = producer(self.graph, node.inputs[0])
        takes_zeros = quantized_def(row_of(node.op)).pads_input
        if not takes_zeros or node.options.get("padding", SAME) != VALID:
            return None
        if before is None or before.op != "PAD" or len(before.inputs) != 2:
            return None
        x, paddings = before.inputs
        pads = self.graph.tensors[paddings].data
        if pads is None or pads.shape != (4, 2) or pads.min() < 0:
            return None
        batch, _, _, channels = pads
        if batch.any() or channels.any():
            return None
        moves = self._is_quantized(x) and self._have_one_quantization(before)
        return (x, pads) if moves else None

    def _have_one_quantization(self, node: Node) -> bool:
        """Whether all quantized tensors of a node represent numbers in the same way."""
        bound = [i for i in (*node.inputs, *node.outputs) if i != ABSENT and self._is_quantized(i)]
        quantizations = {
            (q.quantization.scale.tobytes(), q.quantization.zero_point.tobytes(), q.dtype)
            for q in map(self._quantized_tensor, bound)
        }
        return len(quantizations) == 1

    def _moves(self, node: Node) -> bool:
        """Whether a node only moves integers."""
        has_activation = bool(node.options.get("fused_activation_function"))
        moving = node.op in (*MOVING, "PAD") and not has_activation
        return moving and self._have_one_quantization(node)

    def _move(self, node: Node) -> None:
        """Adds a node that moves integers."""
        inputs = tuple(
            self._integer(i) if i != ABSENT and self._is_quantized(i) else i for i in node.inputs
        )
        results = tuple(self._new_integers(i) for i in node.outputs)
        op = node.op
        if op == "PAD":  # 0 is the zero point
            x = self._quantized_tensor(node.inputs[0])
            op, inputs = "PADV2", (*inputs, self._constant(np.full(1, x.zero, x.dtype)))
        self.nodes.append(replace(node, op=op, inputs=inputs, outputs=results))
        self._dequantize_all(node)

    def _compute_real(self, node: Node) -> None:
        """Adds a node that computes real numbers, and their integers."""
        self._make_biases_real(node)
        inputs = tuple(self._real(i) for i in node.inputs)
        outputs = tuple(
            self._new(i, "before quantization", FLOAT32) if self._is_quantized(i) else i
            for i in node.outputs
        )
        self.nodes.append(replace(node, inputs=inputs, outputs=outputs))
        for y, x in zip(node.outputs, outputs, strict=True):
            if x != y:
                self._quantize(x, y, node.origin, {})

    def _make_biases_real(self, node: Node) -> None:
        """Adds the real numbers of the bias of a layer on integers, s_x s_w times its integers."""
        layer = LAYERS.get(node.op)
        if layer is None or len(node.inputs) <= layer.b:
            return
        x, w, b = (node.inputs[k] for k in (layer.x, layer.w, layer.b))
        data = self.graph.tensors[b].data if b != ABSENT else None
        if data is None or data.dtype.kind != "i" or {x, w} - self.model.quantization.keys():
            return
        scale = layer_scale(self.model, x, w)
        values = (data * scale.astype(np.float64)).astype(FLOAT32)
        self.reals[b] = self._constant(values)

    def _real(self, i: int) -> int:
        """Returns the tensor that holds the real numbers of an input of a node."""
        if i in self.reals:
            return self.reals[i]
        if i == ABSENT or not self._is_quantized(i):
            return i
        data = self.graph.tensors[i].data
        if data is not None:
            self.reals[i] = self._constant(dequantize(data, self.model.quantization[i]))
        return self.reals.get(i, i)

    def _quantize(self, x: int, y: int, origin: int, tensors: dict[str, QuantizedTensor]) -> None:
        """Adds the integers and the real numbers of y, from x and the quantization of x, if any."""
        options = {"quantized": {**tensors, "y": self._quantized_tensor(y)}}
        integers = self._new_integers(y)
        self.nodes.append(Node(f"{INTEGER}QUANTIZE", (x,), (integers,), options, origin))
        self._dequantize(y, y, origin)

    def _dequantize_all(self, node: Node) -> None:
        for i in node.outputs:
            self._dequantize(i, i, node.origin)

    def _dequantize(self, x: int, y: int, origin: int) -> None:
        """Adds the real numbers y of the integers of x."""
        if x == y:
            self._set_real(y)
        options = {"quantized": {"x": self._quantized_tensor(x)}}
        self.nodes.append(Node(f"{INTEGER}DEQUANTIZE", (self._integer(x),), (y,), options, origin))

    def _set_real(self, i: int) -> None:
        spec = TensorSpec(self.tensors[i].spec.shape, FLOAT32)
        self.tensors[i] = replace(self.tensors[i], spec=spec, quantized=False)

    def _integer(self, i: int) -> int:
        """Returns the tensor that holds the integers of a tensor of the file."""
        if i not in self.integers:
            tensor = self.graph.tensors[i]
            if tensor.data is None:
                raise ModelError(
                    f"{self.model.path}: {self.graph.label(i)}: integers must be computed before "
                    "they are read, but no operator computes them"
                )
            self.tensors.append(replace(tensor, quantized=False))
            self.integers[i] = len(self.tensors) - 1
        return self.integers[i]

    def _new_integers(self, i: int) -> int:
        self.integers[i] = self._new(i, "integers", self.graph.tensors[i].spec.dtype)
        return self.integers[i]

    def _new(self, i: int, name: str, dtype: np.dtype[np.generic]) -> int:
        """Adds a tensor in the shape of a tensor of the file."""
        tensor = self.graph.tensors[i]
        spec = TensorSpec(tensor.spec.shape, dtype)
        self.tensors.append(Tensor(f"{tensor.name}/{name}", spec, tensor.signature))
        return len(self.tensors) - 1

    def _constant(self, values: Array) -> int:
        """Adds a constant; returns its index."""
        values.flags.writeable = False
        self.tensors.append(Tensor("", TensorSpec(values.shape, values.dtype), (), values))
        return len(self.tensors) - 1
