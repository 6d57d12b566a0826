"""The computations of a step of training and of validation."""

from dataclasses import replace

from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import Graph, has_ranges
from odt.core.model.training_info import FILE, TrainingInfo
from odt.core.planning.computation import Computation, Plans
from odt.core.planning.stored_integers import can_store
from odt.core.recipe.distillation import student_losses
from odt.core.recipe.output_losses import output_losses
from odt.core.recipe.sparse_filters import check_channels
from odt.errors import OptionError


def trainable_operators(graph: Graph, info: TrainingInfo) -> frozenset[int]:
    """Returns the positions in the file of the operators that train.

    Raises:
        OptionError: if no operator is at any of the positions.
    """
    origins = frozenset(n.origin for n in graph.nodes)
    if info.trainable_ops is None:
        return origins
    chosen = origins & set(info.trainable_ops)  # some nodes may have been folded or left out
    if info.trainable_ops and min(info.trainable_ops) > max(origins, default=-1):
        total = max(origins, default=-1) + 1
        raise OptionError("operators", f"must be positions below {total}", info.trainable_ops)
    return chosen


def training_and_validation(
    graphs: LoweredGraphs, info: TrainingInfo, *, outputs: bool = False
) -> tuple[Computation, Computation]:
    """The computations of a training step and of a validation step, which has no teacher.

    Args:
        graphs: the lowered graphs of the file.
        info: resolved training info.
        outputs: whether training computes the model's outputs too, for a metric; it does if the
            ranges of activations move.

    Raises:
        OptionError: if the loss or the trainable operators are invalid.
    """
    losses = output_losses(graphs, info)
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
    )
    return training, replace(training, losses=losses, backward=False, outputs=True)


def with_integer_weights(plans: Plans, training: Computation, info: TrainingInfo) -> Plans:
    """Returns plans in which the quantized weights that train are integers, if `qas` is set."""
    if not info.qas:
        return plans
    plan, _ = plans.at(training, plans.graphs.file_batch)
    trained = [i for i in (plan.values[n].tensor for n in plan.parameters) if i is not None]
    each = ((i, plan.graph.tensors[i].quantization) for i in trained if can_store(plan, i))
    return Plans(plans.graphs, {i: q for i, q in each if q is not None})
