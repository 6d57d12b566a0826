"""The computations of a step of training and of validation."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from odt.core.lowering.lower import LoweredGraphs
from odt.core.lowering.normalize.batch_statistics import BATCH_NORM
from odt.core.model.graph import Graph, Tensor, has_ranges
from odt.core.model.packed_integers import packed_bits
from odt.core.model.quantization_rules import LAYERS
from odt.core.model.training_info import TrainingInfo
from odt.core.options.training_options import BATCH, BF16, FILE
from odt.core.planning.computation import Computation, Plans
from odt.core.planning.trainable import trainable_tensors
from odt.core.recipe.distillation import student_losses
from odt.core.recipe.lowered_model import LoweredModel, lower_model
from odt.core.recipe.output_losses import output_losses
from odt.core.recipe.sparse_filters import check_channels
from odt.errors import OptionError
from odt.kernels.geometry.decoders import BYTE, IntegerDecoder
from odt.kernels.geometry.weight_quantization import WeightQuantization

LARGE = 2**18  # values of a weight whose rounded copy costs more time than rounding before reads


def trainable_operators(graph: Graph, info: TrainingInfo) -> frozenset[int]:
    """Returns the positions in the file of the operators that train.

    Raises:
        OptionError: if no operator is at any of the positions.
    """
    origins = frozenset(n.origin for n in graph.nodes)
    if info.trainable_ops is None:
        return origins
    if info.trainable_ops and min(info.trainable_ops) > max(origins, default=-1):
        total = max(origins, default=-1) + 1
        raise OptionError("operators", f"must be positions below {total}", info.trainable_ops)
    return origins & set(info.trainable_ops)  # some nodes may have been folded or left out


def trained_tensors(graphs: LoweredGraphs, info: TrainingInfo) -> tuple[int, ...]:
    """Returns the tensors that resolved training info trains, in the order of the nodes.

    Raises:
        OptionError: as `trainable_operators` does.
    """
    operators = trainable_operators(graphs.graph, info)
    return trainable_tensors(graphs.at_file_batch, operators, info.trainable_tensors)


def training_and_validation(
    graphs: LoweredGraphs, info: TrainingInfo, *, outputs: bool = False, rows: bool = False
) -> tuple[Computation, Computation]:
    """The computations of a training step and of a validation step, which has no teacher.

    Args:
        graphs: the lowered graphs of the file.
        info: resolved training info.
        outputs: whether training computes the model's outputs too, for a metric; it does if the
            ranges of activations move.
        rows: whether what metrics read of rows will do instead of outputs.

    Raises:
        OptionError: if the loss or the trainable operators are invalid.
    """
    losses = output_losses(graphs, info)
    rows = rows and not has_ranges(graphs.graph)
    if info.sparse:
        check_channels(graphs.at_file_batch, info.sparse)
    training = Computation(
        student_losses(graphs, info, losses),
        trainable_operators(graphs.graph, info),
        info.trainable_tensors,
        info.sparse,
        info.dropout,
        backward=True,
        outputs=outputs or (info.quant_ranges != FILE and has_ranges(graphs.graph)),
        rows=rows,
        bf16=info.precision == BF16,
    )
    return training, replace(training, losses=losses, backward=False, outputs=True, bf16=False)


def with_stored_weights(plans: Plans, training: Computation, info: TrainingInfo) -> Plans:
    """Returns plans in which weights are in memory as the file stores them.

    They are those of which the graph has no float values and, if `qas` is set, those that train;
    without `qas`, weights that train are floats, of which large ones are rounded where they are
    read.
    """
    tensors = plans.graph.tensors
    large = [i for i, t in enumerate(tensors) if t.quantization and t.spec.size >= LARGE]
    if not info.qas and not large and not any(t.decoder for t in tensors):
        return plans
    trained = trainable_tensors(plans.graphs.at_file_batch, training.trainable, training.only)
    stored = [i for i, t in enumerate(tensors) if t.decoder and i not in trained]
    integers: dict[int, WeightQuantization] = {}
    rounded: dict[int, WeightQuantization] = {}
    if info.qas or any(i in trained for i in large):
        from odt.core.planning.stored_weights import only_as_real_numbers, tables

        plan = plans.plan(training, plans.graphs.file_batch)
        real, selected = only_as_real_numbers(plan), tables(plan)
        weights = {i for name in plan.parameters if (i := plan.values[name].tensor) is not None}
        for i in weights:
            quantization = tensors[i].quantization
            if quantization is None or f"t{i}" in real:
                continue
            if info.qas and quantization.is_plain:
                integers[i] = quantization
            elif i in large and f"t{i}" not in selected:
                rounded[i] = quantization
    return Plans(plans.graphs, stored, integers, rounded)


def with_weights_as_integers(lowered: LoweredModel, info: TrainingInfo) -> LoweredModel:
    """Returns a quantized model whose graph has integers for small weights that train, too.

    Args:
        lowered: the model.
        info: what trains.
    """
    if lowered.adapted is not None:
        return lowered
    trained = set(trained_tensors(lowered.graphs, info))
    return _with_data(lowered, {i: s for i, s in _sole_weights(lowered) if i in trained})


def _with_data(lowered: LoweredModel, stored: Mapping[int, Tensor]) -> LoweredModel:
    """Returns a model whose graph has the data of tensors of the file."""
    tensors = list(lowered.graph.tensors)
    for i, tensor in stored.items():
        quantization = tensors[i].quantization
        assert quantization is not None, "stored weights have scales"
        decoder = IntegerDecoder(quantization.first, packed_bits(tensor) or BYTE)
        tensors[i] = replace(tensors[i], data=tensor.data, decoder=decoder)
    graph = replace(lowered.graph, tensors=tuple(tensors))
    dequantized = replace(lowered.dequantized, graph=graph)
    return replace(lowered, dequantized=dequantized, graphs=LoweredGraphs(graph))


def with_equalized_weights(lowered: LoweredModel, info: TrainingInfo) -> LoweredModel:
    """Returns a quantized model whose weights that train are equalized, where ranges may move.

    Args:
        lowered: the model.
        info: what trains.
    """
    model = lowered.unrolled
    if lowered.adapted is not None or model.variables or info.sparse:
        return lowered
    trained = frozenset(trained_tensors(lowered.graphs, info))
    activations = {i for i in model.quantization if model.graph.tensors[i].data is None}
    from odt.core.integers.equalize import pairs

    if not any(pairs(model, model.graph, trained | activations)):
        return lowered
    return lower_model(replace(lowered.file, equalized=trained))


def with_batch_norms(lowered: LoweredModel) -> LoweredModel:
    """Returns the model whose batch normalizations may use the statistics of batches.

    Raises:
        OptionError: if it has none, or adapters.
    """
    if lowered.adapted is not None:
        raise OptionError("batch_norm", "must be fixed for a model with adapters", BATCH)
    model = lower_model(replace(lowered.file, batch_statistics=True))
    if not any(node.op == BATCH_NORM for node in model.graph.nodes):
        rule = "must be fixed for a model without BatchNormalization, which is in ONNX files only"
        remedy = "Most exporters merge it into convolutions."
        raise OptionError("batch_norm", rule, BATCH, remedy)
    return model


def _sole_weights(lowered: LoweredModel) -> Iterator[tuple[int, Tensor]]:
    """Yields weights as `_layer_weights` does, if the file has an array of their integers."""
    for i, tensor in _layer_weights(lowered):
        quantization, spec = lowered.graph.tensors[i].quantization, tensor.spec
        plain = quantization is not None and quantization.dtype == spec.dtype
        if plain and spec.dtype.itemsize == 1 and spec.dtype.kind in "iu":
            yield i, tensor


def _layer_weights(lowered: LoweredModel) -> Iterator[tuple[int, Tensor]]:
    """Yields the weights of layers that nothing else reads, and their tensors of the file."""
    graph, stored = lowered.graph, lowered.dequantized.stored
    others = set(graph.outputs)
    weights: dict[int, Tensor] = {}
    for node in graph.nodes:
        layer = LAYERS.get(node.op)
        for k, i in enumerate(node.inputs):
            if layer is None or k != layer.w or i not in stored:
                others.add(i)
            elif graph.tensors[i].quantization is not None:
                weights[i] = lowered.unrolled.graph.tensors[stored[i]]
    yield from ((i, tensor) for i, tensor in weights.items() if i not in others)
