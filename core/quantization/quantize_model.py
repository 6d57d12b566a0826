"""Post-training quantization: a float model and samples → a model of integers."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

import numpy as np

from odt.core.export.float_weights import with_float_weights
from odt.core.export.own_activations import needs_own_activations, with_own_activations
from odt.core.export.partial_tables import with_operators, without_variables
from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.formats.flatbuffer.subgraphs import refuse_subgraphs
from odt.core.integers.integer_graph import integer_graph
from odt.core.model.dequantize import dequantize_weights
from odt.core.model.graph import ABSENT, Graph, Node
from odt.core.model.model import Model
from odt.core.model.quantization_rules import has_quantized_activations
from odt.core.quantization.assign import assign, float_activations, quantized_nodes
from odt.core.quantization.rules import SCHEMES, Scheme
from odt.core.quantization.write_integers import IntegerModel
from odt.core.quantization.write_weights import (
    STORED,
    TFLITE_ONLY,
    has_weights,
    with_stored_weights,
)
from odt.core.recipe.interface import check_signature
from odt.core.recipe.option_values import check_whole, check_word
from odt.core.training.ranges import METHODS, Range, evenly_spaced, measure
from odt.core.training.trace import OpenSamples, Trace
from odt.dataclass import dataclass
from odt.errors import OptionError, UnsupportedError, one_line
from odt.kernels.geometry.quantize import Quantization
from odt.kernels.rows.opdef import Array

FLOAT = "float32"
MAX_OPERATORS = 200  # characters of a list of operators in a message
RANGES, SAMPLES = "percentile", 100  # defaults of settings
COMPARED = 32  # samples at most with which the models are compared


@dataclass(frozen=True, slots=True)
class Settings:
    """How a model is quantized.

    Attributes:
        scheme: a word of SCHEMES, whose operators compute integers, or of STORED, which only stores
            weights in fewer bits.
        inputs, outputs: types of the model's inputs and outputs: float32, the type of the
            activations, or uint8 with int8.
        ranges: percentile, minmax or mse.
        samples: number of samples of which ranges are measured, at most.
        keep_float: patterns of operators, or of names of their outputs, that keep float32.

    Raises:
        OptionError: if a word is unknown, the types do not fit, or settings of the measurement are
            given for weights alone.
    """

    scheme: str = "int8"
    inputs: str = FLOAT
    outputs: str = FLOAT
    ranges: str = RANGES
    samples: int = SAMPLES
    keep_float: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_word("scheme", self.scheme, (*SCHEMES, *STORED))
        check_word("ranges", self.ranges, METHODS)
        check_whole("samples", self.samples, 1)
        for field, dtype in (("input_type", self.inputs), ("output_type", self.outputs)):
            if dtype not in self._types:
                rule = f"must be {' or '.join(self._types)} with `scheme={self.scheme}`"
                raise OptionError(field, rule, dtype)
        if self.scheme in STORED:
            for field, default in (("ranges", RANGES), ("samples", SAMPLES)):
                if (value := getattr(self, field)) != default:
                    rule = f"must be left out with `scheme={self.scheme}`, which measures no ranges"
                    raise OptionError(field, rule, value)

    @property
    def _types(self) -> tuple[str, ...]:
        if self.scheme not in SCHEMES:
            return (FLOAT,)
        activations = SCHEMES[self.scheme].activations.name
        return (FLOAT, activations, *(["uint8"] if activations == "int8" else []))


@dataclass(frozen=True, slots=True)
class LayerNoise:
    """Signal-to-noise ratio of a tensor of the quantized model.

    Attributes:
        operator: position of the operator in the float model.
        op: name of the operator.
        tensor: name of the operator's output.
        decibels: 10 log₁₀ (P / D), with the mean square P of the float values and D of the
            differences.
    """

    operator: int
    op: str
    tensor: str
    decibels: float


@dataclass(frozen=True, slots=True)
class QuantizationResult:
    """A quantized model.

    Attributes:
        model: the model.
        integer: number of operators that compute integers, or whose weights are stored in fewer
            bits.
        real: the other operators: position and name.
        noise: signal-to-noise ratio of each layer, in the order of the model; empty if only
            weights are quantized.
    """

    model: Model
    integer: int
    real: tuple[str, ...]
    noise: tuple[LayerNoise, ...]


def store_weights(model: Model, settings: Settings) -> QuantizationResult:
    """Stores the weights of a model in fewer bits; its operators compute real numbers.

    Args:
        model: a model with float activations.
        settings: a scheme of STORED, and what stays.

    Raises:
        UnsupportedError: if the model is quantized or of another format than the scheme's, no
            operator has such weights, or weights are too large for float16.
        OptionError: if a pattern matches no operator, or patterns leave none with such weights.
        LostFileError: if the model's file became shorter.
    """
    if settings.scheme in TFLITE_ONLY and model.format != "tflite":
        raise UnsupportedError(
            f"{model.path}: must be a TFLite model for `scheme={settings.scheme}`, but got "
            f"{model.format}. Convert it first with `Model.save()`."
        )
    source = _float_model(model)
    float_positions = _matching(source.graph, settings.keep_float)
    nodes = [
        n
        for n in source.graph.nodes
        if n.origin not in float_positions and has_weights(source.graph, n)
    ]
    _check_any(source.graph, nodes, settings)
    packed = with_stored_weights(source, nodes, settings.scheme)
    result, _ = _without_unused(source, packed)
    return _result(source, result, nodes, ())


def quantize_model(
    model: Model, open_samples: OpenSamples, settings: Settings
) -> QuantizationResult:
    """Makes a model whose operators compute integers.

    Ranges are measured over samples that are evenly spaced in the data.

    Args:
        model: a model with float activations; weights stored as float16 or int8 count as float32.
        open_samples: opens samples of the model's inputs.
        settings: a scheme of SCHEMES, ranges, and what stays.

    Raises:
        UnsupportedError: if the model is quantized, or odt does not support an operator or none can
            compute integers.
        OptionError: if a pattern matches no operator, patterns leave none that can compute
            integers, or an input or output of real numbers must be of another type.
        DataError: if a sample cannot be read.
        LostFileError: if the model's file became shorter.
    """
    measurement = _Measurement.over_samples(model, open_samples, settings)
    graph, nodes = measurement.source.graph, measurement.nodes
    _check_ends(graph, measurement.activations, settings)
    compared, number = measurement.quantized()
    result = compared
    if (settings.inputs, settings.outputs) != (FLOAT, FLOAT):
        result, _ = measurement.quantized(settings.inputs, settings.outputs)
    pairs = {node.outputs[0]: number[node.outputs[0]] for node in nodes}
    integers = Trace(integer_graph(compared), len(compared.graph.tensors))
    values = side_by_side(measurement.run(measurement.trace), measurement.run(integers), pairs)
    return _result(measurement.source, result, nodes, _noise(graph, nodes, values))


def integer_model(model: Model, open_samples: OpenSamples) -> tuple[Model, Mapping[int, int]]:
    """Makes a model that computes int8 between inputs and outputs of real numbers.

    Args:
        model: a model with float activations.
        open_samples: opens samples of the model's inputs; ranges are measured over some of them.

    Returns:
        The model, and the number of each tensor of the float model in it.

    Raises:
        UnsupportedError, OptionError, DataError: as `quantize_model` does.
    """
    return _Measurement.over_samples(model, open_samples, Settings()).quantized()


@dataclass(frozen=True, slots=True)
class _Measurement:
    """A float model whose activations were measured over samples.

    Attributes:
        source: the model.
        scheme: types and operators.
        trace: the program of the model.
        run: runs a program on the samples with which models are compared.
        nodes: the nodes that compute integers.
        activations: quantization of activations by tensor.
        means: mean of each channel of activations by tensor.
    """

    source: Model
    scheme: Scheme
    trace: Trace
    run: Callable[[Trace], Iterable[tuple[int, Array]]]
    nodes: Sequence[Node]
    activations: Mapping[int, Quantization]
    means: Mapping[int, Array]

    @classmethod
    def over_samples(
        cls, model: Model, open_samples: OpenSamples, settings: Settings
    ) -> "_Measurement":
        """Measures the activations; arguments and errors as of `quantize_model`."""
        source, scheme = _float_model(model), SCHEMES[settings.scheme]
        graph = source.graph
        float_positions = _matching(graph, settings.keep_float)
        trace = Trace(graph, len(graph.tensors))
        data = open_samples(trace.samples)
        order = evenly_spaced(data, settings.samples)
        levels = 2 ** (8 * scheme.activations.itemsize)
        ranges, means = measure(trace, data, order, settings.ranges, levels)
        nodes = [
            node
            for node in quantized_nodes(graph, scheme, float_positions)
            if _has_ranges(graph, node, ranges)
        ]
        _check_any(graph, nodes, settings)
        activations = assign(graph, nodes, ranges, scheme)

        def run(program: Trace) -> Iterable[tuple[int, Array]]:
            return program.run(data, order[:COMPARED])

        return cls(source, scheme, trace, run, nodes, activations, means)

    def quantized(
        self, inputs: str = FLOAT, outputs: str = FLOAT
    ) -> tuple[Model, Mapping[int, int]]:
        """Returns the model with integers, and the old number of each tensor → its new number.

        Args:
            inputs, outputs: types of the model's inputs and outputs.
        """
        source = self.source
        converted = IntegerModel(source, source.graph, self.scheme, self.activations, self.means)
        return _without_unused(source, converted.convert(self.nodes, inputs, outputs))


def _float_model(model: Model) -> Model:
    """Returns the model with all weights stored as float32, and no fused TANH."""
    model.check_flatbuffer("quantization")
    if has_quantized_activations(model):
        raise UnsupportedError(
            f"{model.path}: activations must be float32, but got integers: the model is quantized. "
            "Give the float model, or train this one as it is."
        )
    check_signature(model)
    graph, constants = without_variables(model)
    positions = [node.origin for node in graph.nodes]
    remedy = "Cut out a part without it with odt cut, and quantize it."
    refuse_subgraphs(graph, positions, "a model to quantize", remedy)
    if constants or model.subgraph:
        model, _ = with_operators(model, positions, constants)
    dequantized = dequantize_weights(model)
    if dequantized.stored:
        model = with_float_weights(model, dequantized)
    return with_own_activations(model)[0] if needs_own_activations(model) else model


def _result(
    source: Model, result: Model, nodes: Collection[Node], noise: Sequence[LayerNoise]
) -> QuantizationResult:
    """Returns the quantized model with what changed, after a check of the model's file."""
    chosen = {node.origin for node in nodes}
    real = (f"{n.origin} {n.op}" for n in source.graph.nodes if n.origin not in chosen)
    source.check_file()
    return QuantizationResult(result, len(nodes), tuple(real), tuple(noise))


def _check_any(graph: Graph, nodes: Collection[Node], settings: Settings) -> None:
    """Raises OptionError or UnsupportedError if no node can be quantized."""
    if nodes:
        return
    if settings.keep_float:
        raise OptionError("keep_float", "must leave operators that can be quantized", "none")
    operators = one_line(", ".join(dict.fromkeys(n.op for n in graph.nodes)), MAX_OPERATORS)
    what = "layers with weights" if settings.scheme in STORED else "operators"
    raise UnsupportedError(
        f"{graph.name}: must have {what} that `scheme={settings.scheme}` can quantize, but got "
        f"none among {operators or 'no operators'}. The model stays as it is."
    )


def _matching(graph: Graph, patterns: Sequence[str]) -> set[int]:
    """Returns positions of the operators that patterns match, by operator or name of an output."""
    positions: set[int] = set()
    for pattern in patterns:
        matches = {
            node.origin
            for node in graph.nodes
            for name in (node.op, *(graph.tensors[i].name for i in node.outputs))
            if fnmatchcase(name, pattern)
        }
        if not matches:
            raise OptionError("keep_float", "must match operators or names of outputs", pattern)
        positions |= matches
    return positions


def _has_ranges(graph: Graph, node: Node, ranges: Mapping[int, Range]) -> bool:
    """Whether all real numbers that a node reads or computes are finite."""
    constants = (graph.tensors[i].data for i in node.inputs if i != ABSENT)
    return all(i in ranges for i in (*float_activations(graph, node), *node.outputs)) and all(
        a is None or a.dtype.kind != "f" or np.isfinite(a).all() for a in constants
    )


def _check_ends(graph: Graph, activations: Mapping[int, Quantization], settings: Settings) -> None:
    """Raises OptionError for a type of an input or output that operators use as float32."""
    for field, ends, dtype in (
        ("input_type", graph.inputs, settings.inputs),
        ("output_type", graph.outputs, settings.outputs),
    ):
        for i in ends:
            real = graph.tensors[i].spec.dtype == np.float32
            if dtype != FLOAT and real and i not in activations:
                raise OptionError(
                    field,
                    f"must be float32 where operators on real numbers read or compute "
                    f"{graph.label(i)}",
                    dtype,
                )


def _without_unused(source: Model, packed: bytes) -> tuple[Model, Mapping[int, int]]:
    """Parses a file and drops tensors, buffers and operator codes that nothing uses.

    Returns:
        The model, and the old number of each tensor → its new number.
    """
    whole = parse_model(memoryview(packed), source.path)
    return with_operators(whole, range(len(whole.graph.nodes)))


def side_by_side(
    reals: Iterable[tuple[int, Array]],
    integers: Iterable[tuple[int, Array]],
    pairs: Mapping[int, int],
) -> Iterator[tuple[int, Array, Array]]:
    """Runs two models side by side, so that neither keeps its tensors.

    Args:
        reals, integers: tensors of each, and their values, as they are computed.
        pairs: tensor of the first → tensor of the second.

    Yields:
        Tensors of the first, with the values of both.
    """
    others = iter(integers)
    seconds = set(pairs.values())
    early: dict[int, Array] = {}  # values of the second that the first has not computed yet
    for i, real in reals:
        if i not in pairs:
            continue
        while pairs[i] not in early:  # in another order where a tensor is a view of another
            j, values = next(others)
            if j == pairs[i]:
                yield i, real, values
                break
            if j in seconds:
                early[j] = values.copy()
        else:
            yield i, real, early.pop(pairs[i])


def _noise(
    graph: Graph, nodes: Collection[Node], values: Iterable[tuple[int, Array, Array]]
) -> tuple[LayerNoise, ...]:
    """Compares the real numbers that integers represent with those of the float model.

    Args:
        graph: the float model's graph.
        nodes: its nodes that were quantized.
        values: tensors of the graph, their values, and those of the quantized model.
    """
    power, error = defaultdict[int, float](float), defaultdict[int, float](float)
    for i, real, rounded in values:
        power[i] += float(np.square(real, dtype=np.float64).sum())
        error[i] += float(np.square(real - rounded, dtype=np.float64).sum())
    return tuple(
        LayerNoise(node.origin, node.op, graph.tensors[i].name, _decibels(power[i], error[i]))
        for node in nodes
        for i in node.outputs[:1]
    )


def _decibels(power: float, error: float) -> float:
    if not error or not power:
        return np.inf
    return 10 * float(np.log10(power / error))
