"""The model file with trained weights in the types in which it stores them, in memory."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from odt.core.integers.real_graph import real_graph
from odt.core.integers.stored_values import stored_values
from odt.core.model.model import Model
from odt.kernels.rows.opdef import Array


def with_trained_weights(
    model: Model, weights: Mapping[int, Array], computed: Model | None = None
) -> Model:
    """Returns a model with the values and quantizations that its export would store.

    Args:
        model: the file as trained, with subgraphs inlined and time steps unrolled.
        weights: tensor of its `real_graph` → trained values, as for the export.
        computed: the file with other outputs, to return; None for `model`.

    Raises:
        UnsupportedError: if weights cannot be stored in their type.
    """
    values, quantizations = stored_values(model, real_graph(model), weights)
    model = computed or model
    tensors = list(model.graph.tensors)
    for i, trained in values.items():
        data = np.array(trained)
        data.flags.writeable = False
        tensors[i] = replace(tensors[i], data=data)
    graph = replace(model.graph, tensors=tuple(tensors))
    return replace(model, graph=graph, quantization={**model.quantization, **quantizations})


def weights_as_read(model: Model, weights: Mapping[int, Array]) -> Mapping[int, Array]:
    """Returns trained weights as the real numbers that a reader of the export would get.

    Args:
        model: as for `with_trained_weights`.
        weights: likewise.

    Raises:
        UnsupportedError: if weights cannot be stored in their type.
    """
    tensors = real_graph(with_trained_weights(model, weights)).graph.tensors
    return {i: real for i in weights if (real := tensors[i].real) is not None}
