"""Shapes and dtypes of one sample of a model's inputs, outputs and targets."""

from collections.abc import Sequence

from odt.core.data.sample_weights import WEIGHT
from odt.core.lowering.binding import bind_inputs, row_of
from odt.core.lowering.final_activation import before_rounding
from odt.core.lowering.lower import LoweredGraphs
from odt.core.lowering.sample_axis import sample_spec
from odt.core.model.graph import LoweredGraph
from odt.core.model.tensor_names import TensorNames, names_of
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.output_loss import Loss, positions
from odt.core.recipe.output_losses import output_losses
from odt.dataclass import dataclass
from odt.kernels.geometry.quantize import Quantization
from odt.kernels.registry import LOSSES
from odt.kernels.rows.opdef import TensorSpec


@dataclass(frozen=True, slots=True)
class SampleSpecs:
    """Specs of one sample of a model.

    Attributes:
        input_specs, output_specs: specs of one sample of each input and output.
        losses: name of each loss, and the spec of one sample of its output.
        target_specs: spec of one sample of the targets of each loss.
        position_specs: spec of the weights of the positions of one sample, for each loss.
        logits: whether the output of each loss holds logits instead of probabilities.
        quantizations: quantization of each input of integers; None for other inputs.
        usual: value of each input that random data should have; None for any.
        input_names, target_names: names by which arrays of inputs and of targets are given.
    """

    input_specs: tuple[TensorSpec, ...]
    output_specs: tuple[TensorSpec, ...]
    losses: tuple[tuple[str, TensorSpec], ...]
    target_specs: tuple[TensorSpec, ...]
    position_specs: tuple[TensorSpec, ...]
    logits: tuple[bool, ...]
    quantizations: tuple[Quantization | None, ...]
    usual: tuple[int | None, ...]
    input_names: TensorNames
    target_names: TensorNames


def sample_specs(lowered: LoweredGraph, losses: Sequence[Loss], batch: int) -> SampleSpecs:
    """Returns the specs of one sample of a graph that was lowered for a batch.

    Raises:
        UnsupportedError: if an input, output or target does not consist of whole samples.
    """

    def one(i: int) -> TensorSpec:
        return sample_spec(lowered, lowered.label(i), lowered.tensors[i].spec, batch)

    def holds_logits(loss: Loss) -> bool:
        output = lowered.outputs[loss.output]
        read = loss.tensor in (output, before_rounding(lowered, output))
        return read and bool(loss.options.get("from_logits"))

    stored = [lowered.tensors[i].quantization for i in lowered.inputs]
    read = [lowered.tensors[loss.tensor].spec for loss in losses]
    targets = [LOSSES[loss.name].target(x) for loss, x in zip(losses, read, strict=True)]
    weights = [TensorSpec(positions(x), WEIGHT.dtype) for x in read]
    return SampleSpecs(
        input_specs=tuple(map(one, lowered.inputs)),
        output_specs=tuple(map(one, lowered.outputs)),
        losses=tuple((loss.name, one(loss.tensor)) for loss in losses),
        target_specs=tuple(
            sample_spec(lowered, f"target{k}", t, batch) for k, t in enumerate(targets)
        ),
        position_specs=tuple(
            sample_spec(lowered, f"scale{k}", w, batch) for k, w in enumerate(weights)
        ),
        logits=tuple(map(holds_logits, losses)),
        quantizations=tuple(None if q is None else q.first for q in stored),
        usual=_usual(lowered),
        input_names=names_of(lowered, lowered.inputs),
        target_names=names_of(lowered, lowered.outputs, [loss.output for loss in losses]),
    )


def _usual(lowered: LoweredGraph) -> tuple[int | None, ...]:
    """Returns the usual value of each input that an operator reads as one."""
    values: dict[int, int] = {}
    for node in lowered.nodes:
        row = row_of(node.op)
        if row.usual:
            bound = bind_inputs(row, node)
            values.update((bound[name], value) for name, value in row.usual)
    return tuple(map(values.get, lowered.inputs))


def training_sample_specs(graphs: LoweredGraphs, info: TrainingInfo) -> SampleSpecs:
    """Returns the specs of one sample of training data, without making plans.

    Raises:
        UnsupportedError, OptionError: if the model has no separate samples, or the loss is invalid.
    """
    return sample_specs(graphs.at_file_batch, output_losses(graphs, info), graphs.file_batch)
