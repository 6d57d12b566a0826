"""A graph that grows at random, and what the table of operators draws with."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from odt.kernels.rows.opdef import Array
from support.graph_fuzz.graphs import ACTIVATIONS, SampleGraph

T = TypeVar("T")
Options = dict[str, Any]
MAX_VALUES = 400  # in a tensor
LARGEST = 30.0  # of its values
MAX_AXES = 5


class UnfitError(Exception):
    """An operator cannot be put here."""


@dataclass
class Growth(SampleGraph):
    """A graph that grows at random.

    Attributes:
        first: the first axis that operators may change: 1, or 0 where the batch axis may be moved
            and folded too.
        unused: float tensors that nothing reads yet.
    """

    first: int = 1
    unused: list[int] = field(default_factory=list)

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def choice(self, options: Sequence[T]) -> T:
        if not options:
            raise UnfitError
        return options[int(self.rng.integers(len(options)))]

    def between(self, low: int, high: int) -> int:
        """An integer, both ends included."""
        if high < low:
            raise UnfitError
        return int(self.rng.integers(low, high + 1))

    def shape(self, x: int) -> tuple[int, ...]:
        return tuple(self.values[x].shape)

    def image(self, x: int) -> tuple[int, ...]:
        """The shape of a tensor with four axes."""
        if self.values[x].ndim != 4:
            raise UnfitError
        return self.shape(x)

    def axis(self, x: int) -> int:
        return self.choice(range(self.first, self.values[x].ndim))

    def axes(self, x: int) -> list[int]:
        """One or more."""
        found = [k for k in range(self.first, self.values[x].ndim) if self.chance(0.5)]
        return found or [self.axis(x)]

    def signed(self, axis: int, rank: int) -> int:
        """Sometimes counted from the end."""
        return axis - rank if self.chance(0.3) else axis

    def activation(self) -> str:
        """To be fused; mostly none."""
        return self.choice([*ACTIVATIONS.values()]) if self.chance(0.3) else ""

    def of_batch(self, values: Sequence[int]) -> int:
        """An integer constant whose first entry is the batch."""
        i = self.constant([int(n) for n in values])
        if self.first:
            self.batches.append((i, 0))
        return i

    def operand(self, *shape: int, scale: float | None = None) -> int:
        """A float constant: a new one, one that has this shape already, or two of them added."""
        same = [i for i in self.weights() if self.constants[i].shape == shape]
        if same and self.chance(0.3):
            return self.choice(same)
        w = self.weight(*shape, scale=scale)
        if same and self.chance(0.2):
            return self.add("ADD", (w, self.choice(same)))
        return w

    def stretched(self, x: int) -> int:
        """A constant that is broadcast against x; where axis 0 is free, x against it too."""
        shape = [n if self.chance(0.7) else 1 for n in self.shape(x)]
        if self.first:
            shape[0] = 1
            return self.operand(*shape[0 if self.chance(0.4) else self.between(1, len(shape)) :])
        if self.chance(0.5):
            return self.operand(*shape[self.between(0, len(shape)) :])
        wide = [
            self.between(1, 3) if n == 1 else k for n, k in zip(self.shape(x), shape, strict=True)
        ]
        return self.operand(*[self.between(1, 3)] * self.between(0, 1), *wide)

    def other(self, x: int) -> int:
        """What a binary operator takes beside x: an activation that matches, or a constant."""
        if self.chance(0.5):
            return self.stretched(x)
        floats = [i for i, a in enumerate(self.values) if a.dtype.kind == "f"]
        return self.choice([i for i in floats if i != x and self._matches(i, x)])

    def _matches(self, i: int, x: int) -> bool:
        if i in self.constants:
            return False
        one, other = self.shape(i), self.shape(x)
        try:
            np.broadcast_shapes(one, other)
        except ValueError:
            return False
        return not self.first or (len(one) == len(other) and one[:1] == other[:1] == (1,))

    def alike(self, x: int, but: int) -> int:
        """Returns a float activation with x's shape except along one axis; perhaps x itself."""

        def rest(i: int) -> tuple[int, ...]:
            return tuple(n for k, n in enumerate(self.shape(i)) if k != but)

        floats = [
            i
            for i, a in enumerate(self.values)
            if a.dtype.kind == "f" and a.ndim == self.values[x].ndim
        ]
        return self.choice([i for i in floats if rest(i) == rest(x) and i not in self.constants])

    def factors(self, count: int) -> list[int]:
        """Axes that make up so many values."""
        found = []
        for _ in range(self.between(0, 2)):
            found.append(self.choice([n for n in range(1, count + 1) if count % n == 0]))
            count //= found[-1]
        return [*found, count]

    def positive(self, x: int) -> int:
        """Values made of x that are at least 0.3."""
        return self.add("ADD", (self.add("MUL", (x, x)), self.constant(np.array(0.3))))

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Takes back what the block added and raises UnfitError if the graph is not fit."""
        nodes, values, batches = len(self.nodes), len(self.values), len(self.batches)
        try:
            yield
            made = [i for n in self.nodes[nodes:] for i in n.outputs]
            if not made or not all(map(_is_tame, (self.values[i] for i in made))):
                raise UnfitError
        except UnfitError:
            del self.nodes[nodes:], self.values[values:], self.batches[batches:]
            self.constants = {i: a for i, a in self.constants.items() if i < values}
            raise
        for node in self.nodes[nodes:]:
            self.unused = [i for i in self.unused if i not in node.inputs]
            self.unused += [i for i in node.outputs if self.values[i].dtype.kind == "f"]


def _is_tame(a: Array) -> bool:
    if a.size == 0 or a.size > MAX_VALUES or a.ndim > MAX_AXES:
        return False
    return a.dtype.kind != "f" or bool(np.isfinite(a).all() and abs(a).max() < LARGEST)


Draw = Callable[[Growth, str, int], None]


def entries(table: dict[str, Draw]) -> Callable[..., Callable[[Draw], Draw]]:
    """A decorator that enters a function into a table, for the operators it names."""

    def draws(*ops: str) -> Callable[[Draw], Draw]:
        def enter(draw: Draw) -> Draw:
            table.update(dict.fromkeys(ops, draw))
            return draw

        return enter

    return draws
