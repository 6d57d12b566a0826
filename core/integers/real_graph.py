"""The graph by which a model trains, with float32 weights."""

from dataclasses import replace

from odt.core.integers.vector_biases import vector_biases
from odt.core.lowering.checked_operators import check_operators
from odt.core.model.dequantize import DequantizedGraph, dequantize_weights
from odt.core.model.model import Model
from odt.core.model.quantization_rules import has_quantized_activations


def real_graph(model: Model) -> DequantizedGraph:
    """Returns a model's graph with float32 weights: fake-quantized if activations are quantized.

    Raises:
        ModelError: if the quantization of a tensor does not fit its operator.
    """
    quantized = has_quantized_activations(model)
    if quantized:
        check_operators(model)
    dequantized = dequantize_weights(model)
    dequantized = replace(dequantized, graph=vector_biases(dequantized.graph))
    if not quantized:
        return dequantized
    from odt.core.integers.fake_quantize import fake_quantize

    return fake_quantize(model, dequantized)
