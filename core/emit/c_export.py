"""The C function that exports: it writes the model file with the current weights."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from odt.core.emit.c_data import DataBlock
from odt.core.emit.c_literals import array_bytes
from odt.core.emit.model_image import ModelImage, Span, WholeSpan
from odt.core.emit.stored_forms import StoredFloat16
from odt.core.model.dequantize import FLOAT16

SHARED = 256  # bytes: smaller constants of kernels are not searched for in the file

# Writes values that are in another order in the file, a block at a time.
WRITE_VALUES = """typedef struct {
  const float *values;
  int rank;
  struct { int32_t count, step; } axes[RANK];
} file_orders;

static int write_values(WRITER write, void *context, const file_orders *order) {
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

# Writes numbers as float16, a block at a time. Ties go to even numbers, as in IEEE 754.
WRITE_HALVES = """typedef struct {
  const float *values;
  int32_t count;
} file_halves;

static uint16_t half(float value) {
  float size = fabsf(value);
  uint32_t bits, sign;
  memcpy(&sign, &value, sizeof sign);
  memcpy(&bits, &size, sizeof bits);
  sign = sign >> 16 & 0x8000;
  if (bits > 0x7f800000) return (uint16_t)(sign | 0x7e00); /* not a number */
  if (bits >= 0x47800000) return (uint16_t)(sign | 0x7c00); /* 2^16: infinite */
  if (bits < 0x38800000) { /* 2^-14: subnormal. The last bit of 0.5 is that of these numbers. */
    size += 0.5f;
    memcpy(&bits, &size, sizeof bits);
    return (uint16_t)(sign | (bits - 0x3f000000));
  }
  bits += 0xfff + (bits >> 13 & 1); /* rounds, and may carry into the exponent */
  return (uint16_t)(sign | ((bits - 0x38000000) >> 13));
}

static int write_halves(WRITER write, void *context, const file_halves *a) {
  uint16_t block[64];
  for (int32_t i = 0, filled = 0; i < a->count; i++) {
    block[filled++] = half(a->values[i]);
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
        halves: number of values that the file has as float16; 0 for others.
    """

    offset: int
    nbytes: int
    address: str
    axes: tuple[tuple[int, int], ...] = ()
    integers: tuple[str, ...] = ()
    halves: int = 0

    @property
    def entry(self) -> str:
        """The piece in the table of pieces: bytes that are written as they are, or a mark.

        Size 0 marks values in another order, size 0 without address a bias, and size 1 without
        address values of float16.
        """
        if self.halves:
            return "{0, 1}"
        if self.integers:
            return "{0, 0}"
        return f"{{{self.address}, {0 if self.axes else self.nbytes}}}"

    @property
    def fields(self) -> str:
        """The fields of the piece in the table of those that are written alike."""
        if self.halves:
            return f"{self.address}, {self.halves}"
        if self.integers:
            return ", ".join((self.address, *self.integers))
        axes = ", ".join(f"{{{count}, {step}}}" for count, step in self.axes)
        return f"{self.address}, {len(self.axes)}, {{{axes}}}"


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
    orders = [p for p in pieces if p.axes]
    biases = [p for p in pieces if p.integers]
    halves = [p for p in pieces if p.halves]
    rank = str(max((len(p.axes) for p in orders), default=0))
    writers = {WRITE_VALUES: orders, WRITE_INTEGERS: biases, WRITE_HALVES: halves}
    for text in [text for text, those in writers.items() if those]:
        yield from text.replace("RANK", rank).replace("WRITER", f"{name}_writer").splitlines()
        yield ""
    yield f"int {name}_export({name}_writer write, void *context) {{"
    yield "  static const struct { const void *bytes; uint32_t size; } pieces[] = {"
    yield from (f"    {p.entry}," for p in pieces)
    yield "  };"
    yield from _table(orders, "order", "orders")
    yield from _table(biases, "bias", "integers")
    yield from _table(halves, "weight", "halves")
    yield f"  if (!is_ready) return {upper}_NOT_READY;"
    yield "  int failed = 0;"
    if averages:
        yield "  exchange_averages();"
    yield "  for (size_t k = 0; k < sizeof pieces / sizeof *pieces && !failed; k++) {"
    if halves:
        yield "    if (pieces[k].size && !pieces[k].bytes) {"
        yield "      failed = write_halves(write, context, weight++);"
        yield "      continue;"
        yield "    }"
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


def _table(pieces: Sequence[_Piece], row: str, table: str) -> Iterator[str]:
    """Yields a table of pieces that are written alike, and a pointer to the next one, `row`."""
    if pieces:
        yield f"  static const file_{table} {table}[] = {{"
        yield from (f"    {{{piece.fields}}}," for piece in pieces)
        yield "  };"
        yield f"  const file_{table} *{row} = {table};"


def _pieces(
    image: ModelImage, constants: Sequence[tuple[bytes, str]], block: DataBlock
) -> Iterator[_Piece]:
    """Yields the whole file: weights, constants that are equal in kernels, and the rest between."""
    pieces = [_weights(span) for span in image.spans]
    pieces += [_whole(span, block) for span in image.wholes]
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


def _whole(span: WholeSpan, block: DataBlock) -> _Piece:
    """Returns the piece for a weight that is not float32 in the file; `block` gets constants."""
    address = f"AT(weights_{span.array}, 0)"
    form = span.form
    if form is None:
        return _Piece(span.offset, span.nbytes, address)
    if isinstance(form, StoredFloat16):
        return _Piece(span.offset, span.nbytes, address, halves=span.nbytes // FLOAT16.itemsize)
    constants = form.before, form.integers, 1 / form.scale.astype(np.float64)
    operands = *(block.address(array_bytes(a)) for a in constants), str(form.integers.size)
    return _Piece(span.offset, span.nbytes, address, integers=operands)
