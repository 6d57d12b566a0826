"""Signatures with which a model trains, if it does not with the one that was chosen."""

from functools import partial

from odt.core.formats.reader import read_model
from odt.core.model.graph import Graph
from odt.core.model.model import Model
from odt.core.planning.trainable import trainable_tensors
from odt.core.recipe.interface import TRAINING
from odt.core.recipe.lowered_model import lower_if_supported


def fitting_signature(model: Model) -> str | None:
    """Returns the key of a signature whose operators are all supported and some of which train."""
    for signature in model.signatures:
        if signature.subgraph == model.subgraph or signature.key in TRAINING:
            continue
        lowered = lower_if_supported(partial(read_model, model.path, signature.key))
        if lowered is not None and _trains(lowered.graph):
            return signature.key
    return None


def _trains(graph: Graph) -> bool:
    """Whether a graph has weights, and an output of real numbers."""
    origins = {node.origin for node in graph.nodes}
    real = any(graph.tensors[i].spec.dtype.kind == "f" for i in graph.outputs)
    return real and bool(graph.inputs) and bool(trainable_tensors(graph, origins))
