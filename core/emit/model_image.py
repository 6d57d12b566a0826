"""The trained model file as bytes that stay, and places of the weights: what C needs to export.

The exporter itself shows where weights are: it runs with weights whose bits number all values, so
that the bits of a value in the file tell which one it is. All else that the exporter changes, such
as metadata and new buffers, is part of the image.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np

from odt.core.emit.stored_forms import StoredForm
from odt.dataclass import dataclass
from odt.errors import UnsupportedError
from odt.kernels.rows.opdef import Array

ONE = np.float32(1).view(np.uint32)  # the first number; all others are finite, too
MOST = np.float32(np.inf).view(np.uint32) - ONE  # numbers of finite floats from ONE on
PROBES = 2, 120  # range of the integers of 8 bits with which an exporter runs


@dataclass(frozen=True, slots=True)
class Span:
    """Values of an array in the file.

    Attributes:
        offset: the first byte in the file.
        array: number of the array.
        start: the first value of the array.
        axes: for each axis of the values in the file, their number, and the step from one to the
            next in the array.
    """

    offset: int
    array: int
    start: int
    axes: tuple[tuple[int, int], ...]

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return 4 * int(np.prod([count for count, _ in self.axes]))

    def values(self, a: Array) -> Array:
        """Returns the values as the file has them."""
        indices = np.array([self.start])
        for count, step in self.axes:
            indices = np.add.outer(indices, step * np.arange(count))
        values: Array = a.reshape(-1)[indices.reshape(-1)]
        return values


@dataclass(frozen=True, slots=True)
class WholeSpan:
    """A whole array in the file.

    Attributes:
        offset: the first byte in the file.
        array: number of the array.
        nbytes: bytes in the file.
        form: how the file stores real numbers; None if it has the integers of the array.
    """

    offset: int
    array: int
    nbytes: int
    form: StoredForm | None

    def data(self, a: Array) -> bytes:
        """Returns the bytes that the file has."""
        return stored_bytes(a, self.form)


@dataclass(frozen=True, slots=True)
class ModelImage:
    """A model file.

    Attributes:
        data: its bytes, with any bytes in the spans.
        spans: values of arrays of float32, in order of their places.
        wholes: the other arrays. They and the spans do not overlap.
    """

    data: bytes
    spans: Sequence[Span]
    wholes: Sequence[WholeSpan]

    def file(self, arrays: Sequence[Array]) -> bytes:
        """Returns the file for values of the arrays."""
        file = bytearray(self.data)
        for span in self.spans:
            values = span.values(arrays[span.array])
            file[span.offset : span.offset + span.nbytes] = values.astype("<f4").tobytes()
        for whole in self.wholes:
            file[whole.offset : whole.offset + whole.nbytes] = whole.data(arrays[whole.array])
        return bytes(file)


def stored_bytes(a: Array, form: StoredForm | None) -> bytes:
    """Returns the values of an array as a file has them."""
    return (a if form is None else form.stored(a)).tobytes()


def model_image(
    export: Callable[[Path], None],
    arrays: Sequence[Array],
    forms: Mapping[int, StoredForm],
    path: str,
) -> ModelImage:
    """Returns the image of the file that an exporter writes.

    Args:
        export: writes the file for the values that the arrays have.
        arrays: arrays that training changes: of float32, or of integers as the file has them.
        forms: number of an array of float32 → how the file stores it in another type.
        path: path of the model, for messages.

    Raises:
        UnsupportedError: if values that training changes are in the file in another form.
    """
    reals = [k for k, a in enumerate(arrays) if a.dtype == np.float32 and k not in forms]
    others = [k for k in range(len(arrays)) if k not in reals]
    count = sum(arrays[k].size for k in reals)
    rng = np.random.default_rng(0)
    with _restored(arrays), tempfile.TemporaryDirectory() as folder:

        def export_numbers(numbers: Array) -> tuple[bytes, dict[int, bytes]]:
            """Returns the file for numbers of the reals, and the bytes of other arrays."""
            values = numbers.astype(np.uint32).view(np.float32)
            at = 0
            for k in reals:
                a = arrays[k]
                a[...] = values[at : at + a.size].reshape(a.shape)
                at += a.size
            for k in others:
                form, shape = forms.get(k), arrays[k].shape
                arrays[k][...] = form.sample(rng) if form else rng.integers(*PROBES, shape)
            file = Path(folder, "model")
            export(file)
            data = {k: stored_bytes(arrays[k], forms.get(k)) for k in others}
            return file.read_bytes(), data

        can_probe = all(arrays[k].dtype.itemsize == 1 or k in forms for k in others)
        if can_probe and count <= MOST // 2:  # two files have different numbers
            numbers = ONE + np.arange(count)
            one, data_of_one = export_numbers(numbers)
            # In reverse, and after all numbers of the first file: `_spans` compares both.
            other, data_of_other = export_numbers(numbers[::-1] + count)
            spans = _spans(one, other, arrays, reals)
            wholes = [
                WholeSpan(at, k, len(data_of_one[k]), forms.get(k))
                for k in others
                for at in _places(one, other, data_of_one[k], data_of_other[k])
            ]
            image = ModelImage(one, spans, wholes)
            has_reals = sum(span.nbytes for span in spans) >= 4 * count
            has_others = {span.array for span in wholes} == {*others}
            if has_reals and has_others and image.file(arrays) == other:
                return image
    raise not_exportable(path)


def not_exportable(path: str) -> UnsupportedError:
    """Returns the error for a model whose file a C program cannot export."""
    return UnsupportedError(
        f"{path}: must hold all weights that train as float32 or float16, or as integers with "
        "`qas=`, to be exported by a C program, but has some in another form or file. "
        "Give `export=False`."
    )


def _places(one: bytes, other: bytes, data: bytes, other_data: bytes) -> Iterator[int]:
    """Yields the positions where one file has `data`, and the other file `other_data`."""
    at = one.find(data)
    while at >= 0:
        if other.startswith(other_data, at):
            yield at
        at = one.find(data, at + 1)


@contextmanager
def _restored(arrays: Sequence[Array]) -> Iterator[None]:
    """Restores the values of arrays at the end of a `with` block."""
    values = [a.copy() for a in arrays]
    try:
        yield
    finally:
        for a, before in zip(arrays, values, strict=True):
            a[...] = before


def _spans(one: bytes, other: bytes, arrays: Sequence[Array], reals: Sequence[int]) -> list[Span]:
    """Returns where files differ, and which values of arrays are there in the first one.

    The values of the first file count from ONE.

    Args:
        one, other: the files.
        arrays: all arrays.
        reals: numbers of those that are float32 in the files.
    """
    size = min(len(one), len(other)) // 4 * 4
    spans: list[Span] = []
    firsts = np.cumsum([0, *(arrays[k].size for k in reals)])
    # Tensors begin at any byte in an ONNX file.
    for shift in range(4):
        words, others = (
            np.frombuffer(file, "<u4", (size - shift) // 4, shift) for file in (one, other)
        )
        numbers = words.astype(np.int64) - int(ONE)
        is_value = (words != others) & (numbers >= 0) & (numbers < firsts[-1])
        # The other file has the values in the other order, after all of these.
        is_value &= others.astype(np.int64) - int(ONE) == 2 * firsts[-1] - 1 - numbers
        for first, end in _runs(np.flatnonzero(is_value)):
            owners = np.searchsorted(firsts, numbers[first:end], "right") - 1
            cuts = [0, *(np.flatnonzero(np.diff(owners)) + 1), end - first]
            for a, b in pairwise(cuts):
                owner = owners[a]
                values = numbers[first + a : first + b] - firsts[owner]
                offset = shift + 4 * int(first + a)
                spans += _regular(offset, reals[owner], values)
    return sorted(spans, key=lambda span: span.offset)


def _runs(positions: Array) -> Iterator[tuple[int, int]]:
    """Yields [first, end) of successive positions."""
    if len(positions):
        cuts = np.flatnonzero(np.diff(positions) != 1) + 1
        for run in np.split(positions, cuts):
            yield int(run[0]), int(run[-1]) + 1


def _regular(offset: int, array: int, values: Array) -> Iterator[Span]:
    """Yields spans for the numbers of an array's values in the file.

    Numbers that nested loops yield are one span.
    """
    axes: list[tuple[int, int]] = []
    while len(values) > 1:
        steps = np.diff(values)
        others = np.flatnonzero(steps != steps[0])
        count = int(others[0]) + 1 if len(others) else len(values)
        if len(values) % count:
            break
        blocks = values.reshape(-1, count)
        if (blocks - blocks[:, :1] != steps[0] * np.arange(count)).any():
            break
        axes.insert(0, (count, int(steps[0])))
        values = blocks[:, 0]
    size = int(np.prod([count for count, _ in axes], initial=1))
    for k, start in enumerate(values.tolist()):
        yield Span(offset + 4 * size * k, array, start, tuple(axes) or ((1, 1),))
