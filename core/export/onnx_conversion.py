"""Converts ONNX models to Circle and TFLite: the graph that odt trains, in operators of TFLite.

Inputs and outputs keep names and layouts: images from PyTorch stay (N, C, H, W). Transposes are
moved as in training, so that few are left.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from odt.core.export.builtin_forms import FORMS
from odt.core.export.builtin_graph import BuiltinGraph
from odt.core.export.model_builder import ModelBuilder
from odt.core.export.split_groups import split_groups
from odt.core.export.stated_attrs import form_of_attrs
from odt.core.formats.flatbuffer.operator_options import default_options, options_table
from odt.core.formats.flatbuffer.schema_tables import code_of, fields_of
from odt.core.lowering.binding import names_of, row_of
from odt.core.lowering.passes.merge_activations import merge_activations
from odt.core.lowering.passes.push_transposes import push_transposes
from odt.core.lowering.unsupported import unsupported_error, unsupported_node
from odt.core.model.graph import ABSENT, Graph, LoweredGraph, Node
from odt.core.model.model import Model
from odt.core.recipe.lowered_model import lower_model
from odt.errors import ModelError, ShapeError, UnsupportedError
from odt.kernels.rows.opdef import Array

INT64 = np.dtype(np.int64)
BIASED = ("CONV_2D", "DEPTHWISE_CONV_2D")  # LiteRT needs a bias, if only of zeros
MAX_BYTES = 2**31 - 1  # of a flatbuffer, whose offsets have 32 bits with a sign


def convert_onnx(model: Model, weights: Mapping[int, Array], file_format: str) -> bytes:
    """Returns the file of an ONNX model in another format.

    Args:
        model: the model.
        weights: tensor → new values, in the layout of memory.
        file_format: circle or tflite.

    Raises:
        UnsupportedError: if odt cannot compute the model, or TFLite has no such operators.
        ModelError: if the file would be too large for the format.
    """
    lowered = lower_model(model, outputs="file").with_weights(weights)
    graph = split_groups(merge_activations(lowered.graphs.as_in_file, lowered.graph))
    pushed = push_transposes(graph, lowered.graph)
    try:
        return _Writer(model, file_format).write(_builtin(model, pushed))
    except UnsupportedError:  # a pass moved axes of an operator whose form in files is not known
        return _Writer(model, file_format).write(_builtin(model, graph))


def _builtin(model: Model, graph: LoweredGraph) -> Graph:
    """Returns the graph in operators of TFLite.

    Raises:
        UnsupportedError: if some have no such form, with all of them.
    """
    b = BuiltinGraph(graph)
    refused: dict[int, str] = {}
    for node in graph.nodes:
        b.origin = node.origin
        form = FORMS.get(node.op)
        try:
            if form is not None:
                form(b, node)
            elif node.op.startswith("CUSTOM:") or code_of("BuiltinOperator", node.op) < 0:
                raise ShapeError("no operators of TFLite compute it")
            else:
                b.append(node)
        except ShapeError as e:
            refused[node.origin] = str(e)
    if refused:
        nodes = [
            replace(unsupported_node(model.graph, node), reason=refused[node.origin])
            for node in model.graph.nodes
            if node.origin in refused
        ]
        raise unsupported_error(model.graph, nodes)
    b.drop_unread()
    return b.graph()


class _Writer:
    """Writes a graph.

    Args:
        model: the model that is converted.
        file_format: circle or tflite.
    """

    def __init__(self, model: Model, file_format: str) -> None:
        self.model, self.file_format = model, file_format
        self.builder = ModelBuilder(file_format)
        self.tensors: dict[int, int] = {}  # of the graph → of the file

    def write(self, graph: Graph) -> bytes:
        """Returns the bytes of the file."""
        size = sum(t.spec.nbytes for t in graph.tensors if t.data is not None)
        if size > MAX_BYTES:
            raise ModelError(
                f"{self.model.path}: the constants of a converted model must fit into {MAX_BYTES} "
                f"bytes, but got {size}"
            )
        for i in graph.inputs:
            spec = graph.tensors[i].spec
            new = self.builder.add_input(spec.shape, spec.dtype.name, name=graph.tensors[i].name)
            self.tensors[i] = new
        for node in graph.nodes:
            self._add(graph, node)
        outputs = [self._tensor(graph, i) for i in graph.outputs]
        names = [graph.tensors[i].name for i in graph.outputs]
        self.builder.add_signature(
            "serving_default",
            {graph.tensors[i].name: self.tensors[i] for i in graph.inputs},
            dict(zip(names, outputs, strict=True)),
        )
        return self.builder.build(*outputs)

    def _add(self, graph: Graph, node: Node) -> None:
        """Adds a node with its inputs and outputs."""
        inputs, options = self._form(graph, node)
        y = graph.tensors[node.outputs[0]].spec
        if node.op == "RESHAPE":
            inputs[1:] = [self._static(np.array(y.shape, np.int32))]
            options["new_shape"] = y.shape
        elif node.op in BIASED and (len(inputs) == 2 or inputs[2] == ABSENT):
            inputs[2:] = [self.builder.add_constant(np.zeros(y.shape[-1], np.float32))]
        elif node.op == "CAST":
            x = graph.tensors[node.inputs[0]].spec
            options |= {"in_data_type": _type(x.dtype), "out_data_type": _type(y.dtype)}
        elif node.op in ("ARG_MAX", "ARG_MIN"):
            options["output_type"] = _type(y.dtype)
        while inputs[-1] == ABSENT and node.op != "FULLY_CONNECTED":
            del inputs[-1]
        outputs = []
        for i in node.outputs:
            spec = graph.tensors[i].spec
            self.tensors[i] = self.builder.add_tensor(
                spec.shape, spec.dtype.name, graph.tensors[i].name
            )
            outputs.append(self.tensors[i])
        table = options_table(node.op)
        names = {field.name for field in fields_of(table)} if table else set()
        fields = {name: value for name, value in options.items() if name in names}
        self.builder.add_operator(node.op, inputs, outputs=outputs, **fields)

    def _form(self, graph: Graph, node: Node) -> tuple[list[int], dict[str, Any]]:
        """Returns inputs in the file and options that state the attributes of a node.

        Raises:
            UnsupportedError: if no form is known.
        """
        row = row_of(node.op)
        types = tuple(graph.tensors[i].spec.dtype for i in node.outputs)
        options = {**default_options(node.op), **node.options, "output_types": types}
        if not row.keeps_activation and "fused_activation_function" in options:
            options["fused_activation_function"] = 0  # it is a separate node
        names = names_of(row.inputs).plain
        places = {name: k for k, name in enumerate(names) if name in row.static}
        statics: dict[str, Array] = {}
        for name, k in places.items():
            i = node.inputs[k] if k < len(node.inputs) else ABSENT
            data = None if i == ABSENT else graph.tensors[i].data
            if data is not None:
                statics[name] = data
        form = form_of_attrs(node, options, statics)
        if form is None:
            raise UnsupportedError(
                f"{self.model.path}: node {node.origin} ({node.op}): must have a form in "
                f"{self.file_format} files, but got {node.attrs!s:.200}"
            )
        inputs = [self._tensor(graph, i) for i in node.inputs]
        for name, values in {**statics, **form.statics}.items():
            inputs[places[name]] = self._static(values)
        return inputs, {**options, **form.options}

    def _tensor(self, graph: Graph, i: int) -> int:
        """Returns the tensor of the file; adds it if it is a constant."""
        if i == ABSENT:
            return ABSENT
        if i not in self.tensors:
            tensor = graph.tensors[i]
            assert tensor.data is not None, "nodes are in the order in which they run"
            self.tensors[i] = self.builder.add_constant(np.array(tensor.data), tensor.name)
        return self.tensors[i]

    def _static(self, values: Array) -> int:
        """Adds positions or sizes: runtimes read them as int32, and ends beyond that are open."""
        if values.dtype == INT64:
            limits = np.iinfo(np.int32)
            values = np.clip(values, limits.min, limits.max).astype(np.int32)
        return self.builder.add_constant(np.array(values))


def _type(dtype: np.dtype[Any]) -> int:
    return code_of("TensorType", dtype.name.upper())
