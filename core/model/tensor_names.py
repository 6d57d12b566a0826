"""Names by which users give arrays for the inputs and outputs of a model.

An array is found by the name of its tensor in the file, by its name in the signature, or by its
number, which counts in the order of the file. A name that several tensors have selects none of
them.
"""

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np

from odt.core.model.graph import MAX_NAME, Graph, Tensor
from odt.core.storage.reading import listed
from odt.dataclass import dataclass
from odt.errors import DataError, one_line
from odt.kernels.rows.opdef import TensorSpec

MAX_SIMILAR = 3  # names that a message suggests
NUMBERED = ("{}", "arr_{}")  # names of the k-th array; the second by numpy.savez


@dataclass(frozen=True, slots=True)
class TensorNames:
    """Names of the inputs or outputs of a model, of which arrays are given.

    Attributes:
        all: names of each input or output, in the order of the file.
        members: numbers of those of which arrays are given.
        entries: position of each in the signature; None for those that it does not have.
        open: those of which the file leaves axes open, other than the batch.
    """

    all: tuple[tuple[str, ...], ...]
    members: tuple[int, ...]
    entries: tuple[int | None, ...] = ()
    open: tuple[Tensor, ...] = ()

    def open_hint(self, shape: tuple[int, ...]) -> str:
        """Returns advice for samples that do not fit; empty if the file leaves no axis open.

        Args:
            shape: shape of the array of samples.
        """
        hints = []
        for tensor in self.open:
            sizes = (1, *shape[1:])
            fits = len(sizes) == len(tensor.signature) and all(
                size in (-1, n) for size, n in zip(tensor.signature[1:], shape[1:], strict=True)
            )
            example = f"{tensor.name}={'x'.join(map(str, sizes))}" if fits else ""
            hints.append(
                f'In the file, {tensor.open_text} of "{one_line(tensor.name, MAX_NAME)}" may have '
                f"any size: give `input_shapes={example}`."
            )
        return " ".join(hints)

    def order_note(self, specs: Sequence[TensorSpec], where: str, what: str) -> str:
        """Returns a note on arrays that are given in order; empty if no order could be meant.

        Args:
            specs: shape and dtype of one sample of each member.
            where: file or argument, for the note.
            what: word for a tensor.
        """
        entries = [self.entries[k] for k in self.members] if self.entries else []
        numbers = [entry for entry in entries if entry is not None]
        distinct = len(set(specs)) == len(specs)  # arrays in another order do not fit
        if distinct or len(numbers) < len(specs) or numbers == sorted(numbers):
            return ""
        names = [self.all[k][-1] if self.all[k] else str(k) for k in self.members]
        other = [names[k] for k in np.argsort(numbers)]
        return (
            f"{where}: read in the order of the file's {what}s, {listed(names)}; the signature has "
            f"them as {listed(other)}. Arrays by name need no order."
        )

    def find(
        self, arrays: Collection[str], where: str, *, strict: bool = True, remedy: str = ""
    ) -> list[str]:
        """Returns the name of the array of each member.

        Args:
            arrays: names of all arrays.
            where: file or argument, for messages.
            strict: whether there must be no other arrays.
            remedy: what to do if no array is found, as the end of the message.

        Raises:
            DataError: if an array is missing, has two names, or belongs to no member.
        """
        count, total = len(self.members), len(self.all)
        for pattern in NUMBERED:
            if count < total and {pattern.format(k) for k in range(total)} == set(arrays):
                return [pattern.format(k) for k in self.members]  # arrays of all outputs
            names = [pattern.format(k) for k in range(count)]
            has_all = set(names) <= set(arrays) and pattern.format(count) not in arrays
            if has_all and not (strict and len(arrays) > count):
                return names
        matches = [[n for n in arrays if n in self.all[k] or n == str(k)] for k in self.members]
        rest = set(arrays).difference(*matches)
        if all(len(names) == 1 for names in matches) and not (strict and rest):
            return [names[0] for names in matches]
        all_names = {name for names in self.all for name in names}
        if len(arrays) == count == 1 and not all_names.intersection(arrays):
            return list(arrays)  # a single array may have any name
        actual = listed(sorted(arrays))
        raise DataError(f"{where}: must hold {self._text()}, but got {actual}{remedy or '.'}")

    def _text(self) -> str:
        count = len(self.members)
        names = [self.all[k][-1] if self.all[k] else str(k) for k in self.members]
        by_name = f" or {listed(names)}" if any(self.all[k] for k in self.members) else ""
        numbered = "one array, or one named 0" if count == 1 else f"{count} arrays named 0, 1, …"
        return f"{numbered}{by_name}"


def similar_names(pattern: str, names: Sequence[str]) -> Sequence[str]:
    """Returns the MAX_SIMILAR names that a misspelled one may mean, the most similar first.

    They are the first of all names if none is similar.

    Args:
        pattern: a name, or a shell pattern of names.
        names: all names.
    """
    import difflib

    word = "".join(c for c in pattern.lower() if c not in "*?[]")
    in_lower_case = {name.lower(): name for name in reversed(names)}
    close = difflib.get_close_matches(word, in_lower_case, MAX_SIMILAR, 0.3)
    return [in_lower_case[name] for name in close] or names[:MAX_SIMILAR]


def numbered_names(count: int) -> TensorNames:
    """Returns the names of tensors that have numbers only."""
    return TensorNames(((),) * count, tuple(range(count)))


def names_of(
    graph: Graph, tensors: Sequence[int], members: Sequence[int] | None = None
) -> TensorNames:
    """Returns the names of inputs or outputs.

    Args:
        graph: the graph, whose tensors have the names.
        tensors: the inputs or the outputs.
        members: numbers of those of which arrays are given; None for all.
    """
    all_tensors = [graph.tensors[i] for i in tensors]
    counts = Counter(name for tensor in all_tensors for name in tensor.names)
    unique = tuple(tuple(n for n in t.names if counts[n] == 1) for t in all_tensors)
    return TensorNames(
        unique,
        members=tuple(range(len(all_tensors)) if members is None else members),
        entries=tuple(t.entry for t in all_tensors),
        open=tuple(t for t in all_tensors if t.open_axes),
    )
