"""Marks the constants of a graph that do not train unless a user names them.

The rules look at what the graph does with a constant, and at its values. What no rule recognizes
trains. docs/trained-weights.md lists the rules for users.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from odt.core.lowering.constants.added_biases import added_biases
from odt.core.lowering.constants.decoders import decoders
from odt.core.lowering.constants.formulas import (
    attention_scales,
    masks,
    scalars_and_names,
    sinusoids,
)
from odt.core.lowering.constants.front_ends import front_end, spectra
from odt.core.lowering.constants.states import zeros_as_data
from odt.core.lowering.constants.view import View
from odt.core.model.graph import Graph

# In this order: later rules know what earlier ones hold.
RULES: tuple[Callable[[View], Iterator[tuple[int, str]]], ...] = (
    scalars_and_names,
    masks,
    attention_scales,
    zeros_as_data,
    sinusoids,
    spectra,
    front_end,
    decoders,
    added_biases,
)


def hold_constants(graph: Graph) -> Graph:
    """Returns a graph with `constant_reason` set for constants that do not train.

    The values of the weights are those of the file; a graph that is already marked stays as it is,
    so that what trains never depends on what training has done.

    Args:
        graph: as in the file, with float32 weights and without subgraphs.
    """
    if graph.marked:
        return graph
    view = View(graph)
    view.constant_reasons = {
        i: t.constant_reason for i, t in enumerate(graph.tensors) if t.constant_reason
    }
    for rule in RULES:
        for i, reason in list(rule(view)):
            view.constant_reasons.setdefault(i, reason)
    tensors = list(graph.tensors)
    for i, reason in view.constant_reasons.items():
        tensors[i] = replace(tensors[i], constant_reason=reason)
    return replace(graph, tensors=tuple(tensors), marked=True)
