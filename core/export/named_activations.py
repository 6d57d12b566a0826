"""Rewrites a quantized file so that operators name the activations that their ranges imply."""

from collections.abc import Mapping

from odt.core.export.model_tables import model_tables, rewritten
from odt.core.formats.flatbuffer.operator_options import options_table
from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.core.integers.implied_activations import FUSED
from odt.core.model.model import Model


def with_named_activations(model: Model, implied: Mapping[int, int]) -> Model:
    """Returns a model of the same function.

    Args:
        model: the model.
        implied: output of an operator → code of its activation.
    """
    tables = model_tables(model)
    operators = tables["subgraphs"][model.subgraph]["operators"]
    for node in model.graph.nodes:
        for code in (implied[y] for y in node.outputs if y in implied):
            operator, name = operators[node.origin], options_table(node.op)
            assert name is not None
            operator["builtin_options_type"] = code_of("BuiltinOptions", name)
            operator.setdefault("builtin_options", {})[FUSED] = code
    return rewritten(model, tables)
