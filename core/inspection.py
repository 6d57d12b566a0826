"""What a model holds and what of it would train, as far as that can be said without data."""

from collections.abc import Collection
from dataclasses import dataclass

from odt.core.graph import Graph
from odt.core.lower import file_batch, lower
from odt.core.plans.trained import trainable_tensors
from odt.errors import OdtError


@dataclass(frozen=True, slots=True)
class Inspection:
    """What would train.

    Attributes:
        trained: by position of the operator in the file, the tensors it would train.
        refusal: why the model cannot be trained; empty if it can.
    """

    trained: dict[int, tuple[int, ...]]
    refusal: str = ""

    def last(self, n: int) -> frozenset[int]:
        """The tensors that --num-of-trainable-ops n trains."""
        chosen = sorted(self.trained)[len(self.trained) - n :]
        return frozenset(i for origin in chosen for i in self.trained[origin])

    def among(
        self, operators: Collection[int] | None, tensors: Collection[int] | None
    ) -> "Inspection":
        """The same for some operators and some tensors only; None for all."""
        trained = {
            k: tuple(i for i in found if tensors is None or i in tensors)
            if operators is None or k in operators
            else ()
            for k, found in self.trained.items()
        }
        return Inspection(trained, self.refusal)


def inspect_graph(graph: Graph) -> Inspection:
    """Finds what each operator would train.

    Args:
        graph: as in the file.
    """
    origins = sorted({n.origin for n in graph.nodes})
    try:
        lowered = lower(graph, file_batch(graph))
    except OdtError as e:  # to be shown, not raised: a model that cannot train can be looked at
        return Inspection(dict.fromkeys(origins, ()), str(e))
    return Inspection({k: trainable_tensors(lowered, frozenset({k})) for k in origins})
