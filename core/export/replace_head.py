"""Replaces the last layers of a model, for transfer learning.

The operators that compute the features stay; those that only the old layers needed are removed.
Signatures name the new output. Some metadata stays: see core/export/head_metadata.py.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from odt.core.export.head_features import Features, choose_features, needed_operators
from odt.core.export.head_metadata import kept_metadata
from odt.core.export.model_tables import MAX_BYTES, packed_model
from odt.core.export.new_layers import FLOAT32, NewLayers
from odt.core.export.new_model import ACTIVATIONS
from odt.core.export.partial_tables import without_variables
from odt.core.export.quantized_layers import new_layers
from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.formats.flatbuffer.subgraphs import refuse_subgraphs
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import Graph
from odt.core.model.model import Model
from odt.core.recipe.interface import check_signature
from odt.core.recipe.lowered_model import lower_model
from odt.core.recipe.option_values import check_whole, check_word
from odt.dataclass import dataclass
from odt.errors import ModelError, OptionError, UnsupportedError
from odt.kernels.rows.opdef import Array


@dataclass(frozen=True, slots=True)
class Head:
    """The layers that replace the old ones.

    Attributes:
        outputs: number of values of the new output: classes, or targets of a regression.
        hidden: units of the layers before the last, each a FULLY_CONNECTED with RELU.
        activation: softmax, sigmoid or linear (no activation).
        names: names of the classes; empty if they are not known.

    Raises:
        OptionError: for an unknown activation, for numbers below 1, and for SOFTMAX with one class.
    """

    outputs: int
    hidden: tuple[int, ...] = ()
    activation: str = "softmax"
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_word("activation", self.activation, ACTIVATIONS)
        for units in self.hidden:
            check_whole("hidden", units, 1)
        if self.activation == "softmax" and self.outputs == 1:
            raise OptionError(
                "classes",
                "must be a whole number of at least 2 with softmax, whose values add up to 1",
                1,
                "For a yes/no output give `activation=` sigmoid, for regression linear",
            )
        check_whole("classes", self.outputs, 1)
        if self.names and len(self.names) != self.outputs:
            rule = f"must be {len(self.names)}, the number of class names of the data"
            raise OptionError("classes", rule, self.outputs)

    @property
    def operators(self) -> int:
        """Number of operators, without a MEAN before them."""
        return len(self.hidden) + 1 + bool(ACTIVATIONS[self.activation])

    def parameters(self, width: int) -> int:
        """Number of weights and biases after features of a width."""
        widths = (width, *self.hidden, self.outputs)
        return sum((n + 1) * m for n, m in itertools.pairwise(widths))


@dataclass(frozen=True, slots=True)
class ModelWithHead:
    """A model with a new head.

    Attributes:
        model: the model.
        width: number of features that the head reads.
        features: the features that the head reads.
        others: other feature vectors, from the last to the first, as pairs with their widths.
    """

    model: Model
    width: int
    features: Features
    others: tuple[tuple[Features, int], ...]


def replace_head(
    model: Model, head: Head, after: int | None = None, seed: int = 0
) -> ModelWithHead:
    """Puts new last layers after a model's features; keeps the format.

    Features of more than two axes are averaged over the axes between the first and the last.

    Args:
        model: the model.
        head: the new layers. Their output is the only one.
        after: position of the operator that computes the features; None to choose as
            choose_features does.
        seed: random seed of the new weights, drawn as in He et al. (variance 2 / features); biases
            are 0.

    Raises:
        ModelError: if the model has no features, or the file is damaged.
        OptionError: if there is no operator at the position, or the seed is below 0.
        UnsupportedError: if the features need unsupported operators.
        DataError: if the preprocessing record in the model's metadata is damaged.
        LostFileError: if the model's file became shorter.
    """
    model.check_flatbuffer("replace_head")
    check_whole("seed", seed, 0)
    check_signature(model)
    bare, constants = without_variables(model)
    real = lower_model(model).graph
    graph = _with_constants(bare, real, constants)
    features, others = choose_features(graph, after)
    body = needed_operators(bare, features.tensor)
    what = "a model with a new head"
    refuse_subgraphs(bare, body, what, "Give another `after=`.", initial=False)
    shape = _shape(real, features.tensor, body)
    count = head.parameters(shape[-1])
    if len(model.data) + count * FLOAT32.itemsize > MAX_BYTES:
        raise UnsupportedError(
            f"{model.path}: a model with a new head must be below {MAX_BYTES} bytes, but got "
            f"{len(model.data)} bytes and {count} new parameters"
        )
    tables = new_layers(model, body, features.tensor, ACTIVATIONS[head.activation])
    tables.make_constants(constants)
    packed = _pack(model, tables, features.tensor, shape, np.random.default_rng(seed), head)
    model.check_file()
    new = parse_model(memoryview(packed), model.path)
    widths = (graph.tensors[f.tensor].spec.shape[-1] for f in others)
    return ModelWithHead(new, shape[-1], features, tuple(zip(others, widths, strict=True)))


def _with_constants(graph: Graph, real: Graph, constants: Mapping[int, Array]) -> Graph:
    """Returns a file's graph with float32 weights, without the operators that convert them.

    Args:
        graph: the graph without variables.
        real: the graph with float32 weights.
        constants: values of its variables, by tensor.
    """
    tensors = list(real.tensors[: len(graph.tensors)])
    for i, values in constants.items():
        tensors[i] = replace(tensors[i], data=values)
    nodes = (
        n for n in graph.nodes if not n.outputs or any(tensors[i].data is None for i in n.outputs)
    )
    return replace(graph, tensors=tuple(tensors), nodes=tuple(nodes))


def _shape(graph: Graph, features: int, body: Sequence[int]) -> tuple[int, ...]:
    """Returns the shape of the features, as inferred from the operators before them."""
    spec = graph.tensors[features].spec
    nodes = tuple(n for n in graph.nodes if n.origin in body)
    part = LoweredGraphs(replace(graph, nodes=nodes, outputs=(features,)))
    batch = part.file_batch
    is_constant = graph.tensors[features].data is not None
    if not is_constant:
        lowered = part.at_file_batch
        spec = lowered.tensors[lowered.outputs[0]].spec
    rows = spec.dtype == FLOAT32 and len(spec.shape) > 1 and spec.shape[0] == batch
    if is_constant or not rows or not spec.size:
        raise ModelError(
            f"{graph.name}: features must be float32 of shape ({batch}, …, features), computed "
            f"from an input, but got {graph.label(features)}, {spec}. Choose others with "
            "`after=`; `Model.summary()` lists the operators."
        )
    return spec.shape


def _pack(
    model: Model,
    tables: NewLayers,
    features: int,
    shape: Sequence[int],
    rng: np.random.Generator,
    head: Head,
) -> bytes:
    """Serializes the model of the kept operators and the new layers."""
    graph = tables.graph
    inputs = [k for k, i in enumerate(model.graph.inputs) if i in tables.number]
    output = tables.add(
        tables.number[features], shape, rng, head.hidden, head.outputs, ACTIVATIONS[head.activation]
    )
    graph["outputs"] = [output]
    name = graph["tensors"][output]["name"]
    entries, archive = kept_metadata(
        model, inputs, name, head.names, tags=head.activation == "sigmoid", begins=True
    )
    tables.set_metadata(entries)
    tables.model["signature_defs"] = tables.new_signatures(output)
    return packed_model(model, tables.model, archive)
