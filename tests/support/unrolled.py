"""Writes a model without control flow and operators of TensorFlow, which LiteRT's package lacks.

odt replaces them with operators of TFLite (core/lowering: tensor_lists.py, flex.py), which LiteRT
judges; the replacement itself is odt's.
"""

from pathlib import Path

import numpy as np
from model_builder import ModelBuilder

from odt.core.lowering.lower import LoweredGraphs
from odt.core.lowering.normalize.flex import with_builtins
from odt.core.lowering.normalize.inline import inline
from odt.core.model.dequantize import dequantize_weights
from odt.core.model.model import Model


def write_unrolled(model: Model, path: Path) -> None:
    """Writes a model without control flow; its weights are float32."""
    graph = dequantize_weights(with_builtins(inline(model))).graph
    specs = LoweredGraphs(graph).specs
    built = ModelBuilder("tflite")
    number = {-1: -1}
    for i in graph.inputs:
        number[i] = built.add_input(specs[i].shape, specs[i].dtype.name)
    for node in graph.nodes:
        for i in node.inputs:
            data = graph.tensors[i].data if i >= 0 else None
            if i not in number and data is not None:
                number[i] = built.add_constant(data)
        inputs = [number[i] for i in node.inputs]
        if node.op == "CONV_2D" and inputs[2:] == [-1]:  # LiteRT requires a bias
            inputs[2] = built.add_constant(np.zeros(specs[node.outputs[0]].shape[-1], np.float32))
        shapes, dtype = [specs[i].shape for i in node.outputs], specs[node.outputs[0]].dtype.name
        first = built.add_operator(node.op, inputs, *shapes, dtype=dtype, **node.options)
        number.update((i, first + k) for k, i in enumerate(node.outputs))
    built.write(path, *(number[i] for i in graph.outputs))
