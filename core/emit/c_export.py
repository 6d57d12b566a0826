"""The C function that exports: it writes the model file with the current weights."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from odt.core.emit.c_data import DataBlock
from odt.core.emit.c_literals import array_bytes
from odt.core.emit.model_image import IntegerSpan, ModelImage, Span

SHARED = 256  # bytes: smaller constants of kernels are not searched for in the file

# Writes values that are in another order in the file, a block at a time.
WRITE_VALUES = """typedef struct {
  const float *values;
  int rank;
  struct { int32_t count, step; } axes[RANK];
} file_order;

static int write_values(WRITER write, void *context, const file_order *order) {
  float block[64];
  int32_t at[RANK] = {0};
  int32_t value = 0;
  for (int filled = 0, axis = 0; axis >= 0;) {
    block[filled++] = order->values[value];
    for (axis = order->rank - 1; axis >= 0; axis--) {
      value += order->axes[axis].step;
      if (++at[axis] < order->axes[axis].count) break;
      value -= order->axes[axis].step * order->axes[axis].count;
      at[axis] = 0;
    }
    if (filled == 64 || axis < 0) {
      if (write(context, block, sizeof *block * (size_t)filled)) return 1;
      filled = 0;
    }
  }
  return 0;
}
"""

# Writes a bias of real numbers as integers, a block at a time; those that did not change stay.
WRITE_INTEGERS = """typedef struct {
  const float *values, *before;
  const int32_t *integers;
  const double *steps; /* 1 / scale */
  int32_t count;
} file_integers;

static int write_integers(WRITER write, void *context, const file_integers *a) {
  int32_t block[64];
  for (int32_t i = 0, filled = 0; i < a->count; i++) {
    double whole = rint(a->values[i] * a->steps[i]);
    whole = whole > INT32_MIN ? whole : INT32_MIN, whole = whole < INT32_MAX ? whole : INT32_MAX;
    block[filled++] = a->values[i] == a->before[i] ? a->integers[i] : (int32_t)whole;
    if (filled == 64 || i == a->count - 1) {
      if (write(context, block, sizeof *block * (size_t)filled)) return 1;
      filled = 0;
    }
  }
  return 0;
}
"""


class _Piece(NamedTuple):
    """Successive bytes of the file.

    Attributes:
        offset: the first byte.
        nbytes: their number.
        address: where they are in memory, in C.
        axes: count and step of each axis of values in another order; () if they are in order.
        integers: for a bias, the fields of `file_integers` after `values`; () for others.
    """

    offset: int
    nbytes: int
    address: str
    axes: tuple[tuple[int, int], ...] = ()
    integers: tuple[str, ...] = ()

    @property
    def entry(self) -> str:
        """The piece in the table of pieces: bytes that are written as they are, or a mark.

        Size 0 marks values in another order, size 0 without address a bias.
        """
        if self.integers:
            return "{0, 0}"
        return f"{{{self.address}, {0 if self.axes else self.nbytes}}}"


def export_function(
    image: ModelImage,
    name: str,
    constants: Sequence[tuple[bytes, str]],
    block: DataBlock,
    *,
    averages: bool,
) -> Iterator[str]:
    """Yields the lines of the function, and what it reads.

    Args:
        image: the model file.
        name: prefix of the functions.
        constants: constants of the kernels, and their addresses in C; the file takes equal bytes
            from there.
        block: gets all other bytes that stay.
        averages: whether the file has the moving averages of the weights.
    """
    pieces = [*_pieces(image, constants, block)]
    upper = name.upper()
    rank = max((len(piece.axes) for piece in pieces), default=0)
    if rank:
        text = WRITE_VALUES.replace("RANK", str(rank)).replace("WRITER", f"{name}_writer")
        yield from text.splitlines()
        yield ""
    biases = [p for p in pieces if p.integers]
    if biases:
        yield from WRITE_INTEGERS.replace("WRITER", f"{name}_writer").splitlines()
        yield ""
    yield f"int {name}_export({name}_writer write, void *context) {{"
    yield "  static const struct { const void *bytes; uint32_t size; } pieces[] = {"
    yield from (f"    {p.entry}," for p in pieces)
    yield "  };"
    orders = [p for p in pieces if p.axes]
    if orders:
        yield "  static const file_order orders[] = {"
        for p in orders:
            axes = ", ".join(f"{{{count}, {step}}}" for count, step in p.axes)
            yield f"    {{{p.address}, {len(p.axes)}, {{{axes}}}}},"
        yield "  };"
        yield "  const file_order *order = orders;"
    if biases:
        yield "  static const file_integers integers[] = {"
        yield from (f"    {{{', '.join((p.address, *p.integers))}}}," for p in biases)
        yield "  };"
        yield "  const file_integers *bias = integers;"
    yield f"  if (!is_ready) return {upper}_NOT_READY;"
    yield "  int failed = 0;"
    if averages:
        yield "  exchange_averages();"
    yield "  for (size_t k = 0; k < sizeof pieces / sizeof *pieces && !failed; k++) {"
    yield "    if (pieces[k].size) failed = write(context, pieces[k].bytes, pieces[k].size);"
    if orders:
        yield "    else if (pieces[k].bytes) failed = write_values(write, context, order++);"
    if biases:
        yield "    else failed = write_integers(write, context, bias++);"
    yield "  }"
    if averages:
        yield "  exchange_averages();"
    yield f"  return failed ? {upper}_NOT_WRITTEN : {upper}_OK;"
    yield "}"
    yield ""


def _pieces(
    image: ModelImage, constants: Sequence[tuple[bytes, str]], block: DataBlock
) -> Iterator[_Piece]:
    """Yields the whole file: weights, constants that are equal in kernels, and the rest between."""
    pieces = [_weights(span) for span in image.spans]
    pieces += [_integers(span, block) for span in image.integers]
    ranges = [(p.offset, p.offset + p.nbytes) for p in pieces]
    for data, address in constants:
        at = image.data.find(data) if len(data) >= SHARED else -1
        if at >= 0 and all(at + len(data) <= first or end <= at for first, end in ranges):
            ranges.append((at, at + len(data)))
            pieces.append(_Piece(at, len(data), address))
    begin = 0
    for piece in [*sorted(pieces), _Piece(len(image.data), 0, "")]:
        if piece.offset > begin:
            data = image.data[begin : piece.offset]
            yield _Piece(begin, len(data), block.address(data))
        if piece.nbytes:
            yield piece
        begin = piece.offset + piece.nbytes


def _weights(span: Span) -> _Piece:
    """Returns the piece for values of a weight."""
    address = f"AT(weights_{span.array}, {4 * span.start})"
    in_order = len(span.axes) == 1 and span.axes[0][1] == 1
    return _Piece(span.offset, span.nbytes, address, () if in_order else span.axes)


def _integers(span: IntegerSpan, block: DataBlock) -> _Piece:
    """Returns the piece for a weight that is integers in the file; `block` gets its constants."""
    address = f"AT(weights_{span.array}, 0)"
    bias = span.bias
    if bias is None:
        return _Piece(span.offset, span.nbytes, address)
    constants = bias.before, bias.integers, 1 / bias.scale.astype(np.float64)
    operands = *(block.address(array_bytes(a)) for a in constants), str(bias.integers.size)
    return _Piece(span.offset, span.nbytes, address, integers=operands)
