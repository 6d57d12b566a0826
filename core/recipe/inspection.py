"""Inspects a model: the weights that each operator would train. Needs no data."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace

from odt.core.lowering.lower import LoweredGraphs
from odt.core.planning.trainable import held_constants, trainable_by_operator
from odt.dataclass import dataclass
from odt.errors import OdtError
from odt.kernels.rows.opdef import TensorSpec


@dataclass(frozen=True, slots=True)
class Inspection:
    """The weights of a model that would train.

    Attributes:
        trained: position of each operator in the file → the tensors that it would train.
        specs: inferred specs of the tensors for the file's batch; the specs in the file if
            inference fails.
        constant_reasons: constant that does not train unless a user names it → why.
        refusal: reason why the model cannot be trained; empty if it can.
    """

    trained: dict[int, tuple[int, ...]]
    specs: Mapping[int, TensorSpec]
    constant_reasons: Mapping[int, str] = field(default_factory=dict)
    refusal: str = ""

    def values(self, tensors: Iterable[int]) -> int:
        """Returns the total number of values of some tensors."""
        return sum(self.specs[i].size for i in tensors)

    def from_each(self) -> dict[int, int]:
        """Returns operator position → number of values that train from this operator on."""
        counts: dict[int, int] = {}
        seen: set[int] = set()
        total = 0
        for origin in sorted(self.trained, reverse=True):
            new = set(self.trained[origin]) - seen
            seen |= new
            counts[origin] = total = total + self.values(new)
        return counts

    def among(
        self, operators: Collection[int] | None, tensors: Collection[int] | None
    ) -> "Inspection":
        """Returns the inspection restricted to some operators and tensors; None for all."""
        trained: dict[int, tuple[int, ...]] = {}
        for k, weights in self.trained.items():
            if operators is None or k in operators:
                trained[k] = tuple(i for i in weights if tensors is None or i in tensors)
            else:
                trained[k] = ()
        training = {i for each in trained.values() for i in each}
        constant_reasons = {i: why for i, why in self.constant_reasons.items() if i not in training}
        return replace(self, trained=trained, constant_reasons=constant_reasons)


def inspect_graph(graphs: LoweredGraphs) -> Inspection:
    """Finds the weights that each operator would train."""
    graph = graphs.graph
    specs = {i: tensor.spec for i, tensor in enumerate(graph.tensors)}
    trained: dict[int, dict[int, None]] = {n.origin: {} for n in graph.nodes}
    constant_reasons: dict[int, str] = {}
    refusal = ""
    try:
        lowered = graphs.at_file_batch
        specs |= graphs.specs
        for origin, i in trainable_by_operator(lowered):
            trained[origin][i] = None
        constant_reasons = held_constants(lowered)
    except OdtError as e:  # shown, not raised: a model that cannot be trained can be inspected
        refusal = str(e)
    return Inspection(
        {k: tuple(trained[k]) for k in sorted(trained)}, specs, constant_reasons, refusal
    )
