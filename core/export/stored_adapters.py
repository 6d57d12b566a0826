"""Low-rank adapters as a file holds them, and the weights of a model to which they belong."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from odt.core.lowering.low_rank import Adapter, Adapters, adaptable, model_hash
from odt.core.model.graph import ABSENT, Graph
from odt.core.storage.reading import listed
from odt.dataclass import dataclass
from odt.errors import DataError
from odt.kernels.rows.opdef import Array


@dataclass(frozen=True, slots=True)
class StoredAdapter:
    """The adapter of one weight.

    Attributes:
        name: name of the weight in the file.
        a: float32 (r, I).
        b: float32 (O, r).
        tensor: index of the weight in the model; ABSENT if the file does not have it.
    """

    name: str
    a: Array
    b: Array
    tensor: int = ABSENT


@dataclass(frozen=True, slots=True)
class StoredAdapters:
    """The adapters in a file.

    Attributes:
        path: the file.
        form: whose form the file has: odt, PEFT or GGUF.
        alpha: α; the product is scaled by α / r.
        members: one adapter for each adapted weight, all of the same rank r.
        model: hash of the model for which they were made; empty if the file has none.
        base: what the file says of that model; empty if it says nothing.
    """

    path: str
    form: str
    alpha: float
    members: tuple[StoredAdapter, ...]
    model: str = ""
    base: str = ""

    @property
    def rank(self) -> int:
        """The rank r."""
        return len(self.members[0].a)

    def matched(self, graph: Graph, names: Mapping[str, int]) -> Adapters:
        """Returns the adapters of a model.

        Args:
            graph: the model's, with float32 weights.
            names: name of a weight in such a file → its tensor.

        Raises:
            DataError: if a weight is not in the model, cannot have an adapter, or is of other size.
        """
        sizes = dict(adaptable(graph))
        unknown = [m.name for m in self.members if names.get(m.name) not in sizes]
        if unknown:
            raise DataError(
                f"{self.path}: modules with adapters must be weights of {graph.name} that can have "
                f"one, but got {listed(unknown)}. Its weights are {listed(names) or 'none'}."
            )
        members = []
        for stored in self.members:
            tensor = names[stored.name]
            units, width = sizes[tensor]
            for letter, matrix, shape in (
                ("A", stored.a, (self.rank, width)),
                ("B", stored.b, (units, self.rank)),
            ):
                if matrix.shape != shape:
                    raise DataError(
                        f"{self.path}: {letter} of {listed([stored.name])} must have shape "
                        f"{shape}, as its weight in {graph.name} has shape {(units, width)}, but "
                        f"got {matrix.shape}."
                    )
            members.append(Adapter(tensor, stored.a, stored.b))
        members.sort(key=lambda adapter: adapter.tensor)
        return Adapters(self.model or model_hash(graph), self.alpha, tuple(members))


def stored_pairs(matrices: Iterable[tuple[str, str, Array]]) -> tuple[StoredAdapter, ...]:
    """Joins A and B of each weight, which must have the same rank.

    Args:
        matrices: name of a weight, "A" or "B", and the matrix.

    Raises:
        ValueError: if there are no matrices, one of a pair is missing, or ranks differ.
    """
    pairs: dict[str, dict[str, Array]] = {}
    for name, letter, matrix in matrices:
        pairs.setdefault(name, {})[letter] = matrix
    if not pairs:
        raise ValueError("no array")
    alone = [name for name, pair in pairs.items() if len(pair) == 1]
    if alone:
        raise ValueError(f"only one of A and B of {listed(alone)}")
    members = tuple(StoredAdapter(name, pair["A"], pair["B"]) for name, pair in pairs.items())
    check_ranks(members)
    return members


def check_ranks(members: Sequence[StoredAdapter]) -> None:
    """Raises ValueError if not all matrices have two axes, and the same rank."""
    for member in members:
        for letter, matrix in (("A", member.a), ("B", member.b)):
            if matrix.ndim != 2 or not matrix.size:
                raise ValueError(f"{letter} of {listed([member.name])} of shape {matrix.shape}")
    ranks = Counter(n for m in members for n in (len(m.a), m.b.shape[1]))
    if len(ranks) != 1:
        raise ValueError(f"ranks {listed(sorted(ranks)) or 'none'}")


def base_name(graph: Graph) -> str:
    """Returns the name of a model's file, which files of adapters hold for the reader."""
    return os.path.basename(graph.name)
