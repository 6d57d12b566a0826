"""What of a model can train, and what is in the way: all of it at once."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from odt.core.lowering.binding import bind_inputs, bind_operands, bind_outputs, row_of
from odt.core.lowering.unsupported import UnsupportedNode
from odt.core.model.graph import ABSENT, Graph, Node
from odt.core.planning.plan import Call, Plan
from odt.core.planning.trainable import gradient_of, trainable_by_operator, trainable_tensors
from odt.kernels.opdef import TensorSpec


@dataclass(frozen=True, slots=True)
class Blocked:
    """An operator that no gradient passes, in front of which there are weights.

    Attributes:
        node: the operator.
        tensor: index of the input that gets no gradient.
    """

    node: Node
    tensor: int


@dataclass(frozen=True, slots=True)
class Trainability:
    """What trains.

    Attributes:
        trained: tensors that get a gradient.
        untrained: weights of trainable operators that get none.
        blocked: why.
        deepest: the most operators, counted from the end, that train with all their weights.
    """

    trained: tuple[int, ...]
    untrained: tuple[int, ...]
    blocked: tuple[Blocked, ...]
    deepest: int


def trainability(
    graph: Graph, plan: Plan, trainable: frozenset[int], only: Collection[int] | None = None
) -> Trainability:
    """Holds what should train against what a plan trains.

    Args:
        graph: as in the file.
        plan: of a training step with these operators.
        trainable: positions of operators in the file.
        only: the tensors of theirs that should train; None for all.
    """
    lowered = plan.graph
    trained = [plan.values[name].tensor for name in plan.parameters]
    found = dict.fromkeys(i for i in trained if i is not None)
    wanted = trainable_tensors(lowered, trainable, only)
    missing = dict.fromkeys(i for i in wanted if i not in found)
    users = [origin for origin, i in trainable_by_operator(lowered, only=only) if i in missing]
    deepest = max(n.origin for n in graph.nodes) - max(users, default=-1)
    return Trainability(tuple(found), tuple(missing), _blocked(lowered, missing), deepest)


@dataclass(frozen=True, slots=True)
class Tail:
    """What is left of a model behind the last node that odt cannot compute.

    Attributes:
        operators: how many, counted from the end.
        begins: tensors that it reads from before.
        weights: constants in it that would train.
    """

    operators: int
    begins: tuple[int, ...]
    weights: tuple[int, ...]


def tail(graph: Graph, refusals: Collection[UnsupportedNode]) -> Tail:
    """The part of a file's graph behind all refusals: a model of its own would train it."""
    last = max(r.node.origin for r in refusals)
    nodes = [n for n in graph.nodes if n.origin > last]
    made = {i for n in nodes for i in n.outputs}
    read = dict.fromkeys(i for n in nodes for i in n.inputs if i != ABSENT and i not in made)
    return Tail(
        len(nodes),
        tuple(i for i in read if graph.tensors[i].data is None),
        trainable_tensors(graph, {n.origin for n in nodes}),
    )


def _blocked(graph: Graph, missing: Collection[int]) -> tuple[Blocked, ...]:
    """Where the way from weights without a gradient to the outputs ends."""
    needs = set(missing)
    blocked = []
    for node in graph.nodes:
        row = row_of(node.op)
        for name, i in bind_inputs(row, node).items():
            if i not in needs:
                continue
            floats = [o for o in node.outputs if graph.tensors[o].spec.dtype.kind == "f"]
            if gradient_of(row, name) is not None and floats:
                needs.update(floats)
            else:
                blocked.append(Blocked(node, i))
    return tuple(blocked)


def flops(graph: Graph) -> int:
    """Arithmetic of one forward pass of a lowered graph; a multiplication and an addition are 2."""
    total = 0
    for node in graph.nodes:
        row = row_of(node.op)
        names: dict[str, Any] = {**bind_operands(row, node), **bind_outputs(row, node)}
        specs: dict[str, TensorSpec] = {n: graph.tensors[i].spec for n, i in names.items()}
        total += row.flops(node.attrs, specs)
    return total


def training_flops(plan: Plan) -> int:
    """Arithmetic of a plan's forward and backward phases; gradients that nobody wants have none."""
    return sum(entry.flops for entry in plan.entries if isinstance(entry, Call))
