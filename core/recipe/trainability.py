"""Reports the weights of a model that can train, and the operators that block gradients."""

from collections.abc import Collection, Mapping

from odt.core.lowering.binding import (
    bind_inputs,
    bind_operands,
    bind_outputs,
    gradient_of,
    row_of,
)
from odt.core.model.graph import Graph, LoweredGraph, Node
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.plan import Call, Plan
from odt.core.planning.trainable import (
    held_constants,
    trainable_by_operator,
    trainable_tensors,
)
from odt.core.recipe.computations import trainable_operators
from odt.dataclass import dataclass

NOT_SELECTED = "not selected by the options or the training info"


@dataclass(frozen=True, slots=True)
class BlockedOperator:
    """An operator without a gradient that follows trainable weights.

    Attributes:
        node: the node.
        tensor: index of the input that gets no gradient.
    """

    node: Node
    tensor: int


@dataclass(frozen=True, slots=True)
class Trainability:
    """Report on the weights that can train.

    Attributes:
        trained: tensors that get a gradient.
        untrained: weights of trainable operators that get no gradient.
        blocked: operators that block their gradients.
        constant_reasons: other constants → why they do not train.
        deepest: the largest N for which all weights of the last N operators train.
    """

    trained: tuple[int, ...]
    untrained: tuple[int, ...]
    blocked: tuple[BlockedOperator, ...]
    constant_reasons: Mapping[int, str]
    deepest: int


def trainability(graph: Graph, info: TrainingInfo, plan: Plan) -> Trainability:
    """Compares the weights that should train with the weights that a plan trains.

    Args:
        graph: as in the file.
        info: resolved training info, which selects the weights that should train.
        plan: plan of a training step with this info.
    """
    lowered, only = plan.graph, info.trainable_tensors
    trained = [plan.values[name].tensor for name in plan.parameters]
    trained_tensors = dict.fromkeys(i for i in trained if i is not None)
    requested = trainable_tensors(lowered, trainable_operators(graph, info), only)
    missing = dict.fromkeys(i for i in requested if i not in trained_tensors)
    users = [origin for origin, i in trainable_by_operator(lowered, only=only) if i in missing]
    deepest = max((n.origin for n in graph.nodes), default=-1) - max(users, default=-1)
    others = dict.fromkeys((i for _, i in trainable_by_operator(lowered)), NOT_SELECTED)
    constant_reasons = {
        i: why for i, why in (others | held_constants(lowered)).items() if i not in requested
    }
    blocked = _blocked(lowered, missing)
    return Trainability(tuple(trained_tensors), tuple(missing), blocked, constant_reasons, deepest)


def _blocked(lowered: LoweredGraph, missing: Collection[int]) -> tuple[BlockedOperator, ...]:
    """Returns the nodes that block the gradients of some weights."""
    needs = set(missing)
    blocked = []
    for node in lowered.nodes:
        row = row_of(node.op)
        for name, i in bind_inputs(row, node).items():
            if i not in needs:
                continue
            floats = [o for o in node.outputs if lowered.tensors[o].spec.has_gradient]
            if gradient_of(row, name) is not None and floats:
                needs.update(floats)
            else:
                blocked.append(BlockedOperator(node, i))
    return tuple(blocked)


def flops(lowered: LoweredGraph) -> int:
    """Counts the operations of one forward pass of a lowered graph; a multiply-add counts 2."""
    total = 0
    for node in lowered.nodes:
        row = row_of(node.op)
        names = {**bind_operands(row, node), **bind_outputs(row, node)}
        specs = {name: lowered.tensors[i].spec for name, i in names.items()}
        total += row.flops(node.attrs, specs)
    return total


def training_flops(plan: Plan) -> int:
    """Counts the operations of a plan's forward and backward phases."""
    return sum(entry.flops for entry in plan.entries if isinstance(entry, Call))
