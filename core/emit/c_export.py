"""The export of a program: writes the model file with the weights of the moment."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from odt.core.emit.c_data import DataBlock
from odt.core.emit.model_image import ModelImage, Span

SHARED = 256  # bytes from which on constants of kernels are looked for in the file

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


class _Piece(NamedTuple):
    """Successive bytes of the file.

    Attributes:
        offset: the first byte.
        nbytes: their number.
        address: where they are in memory, in C.
        axes: axes of values in another order; () if they are in order.
    """

    offset: int
    nbytes: int
    address: str
    axes: tuple[tuple[int, int], ...] = ()


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
        constants: constants of the kernels, and their addresses in C; these bytes are not there
            again for the export.
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
    yield f"int {name}_export({name}_writer write, void *context) {{"
    yield "  static const struct { const void *bytes; uint32_t size; } pieces[] = {"
    yield from (f"    {{{p.address}, {0 if p.axes else p.nbytes}}}," for p in pieces)
    yield "  };"
    orders = [p for p in pieces if p.axes]
    if orders:
        yield "  static const file_order orders[] = {"
        for p in orders:
            axes = ", ".join(f"{{{count}, {step}}}" for count, step in p.axes)
            yield f"    {{{p.address}, {len(p.axes)}, {{{axes}}}}},"
        yield "  };"
        yield "  const file_order *order = orders;"
    yield f"  if (!is_ready) return {upper}_NOT_READY;"
    yield "  int failed = 0;"
    if averages:
        yield "  exchange_averages();"
    yield "  for (size_t k = 0; k < sizeof pieces / sizeof *pieces && !failed; k++) {"
    if orders:
        yield "    failed = pieces[k].size"
        yield "      ? write(context, pieces[k].bytes, pieces[k].size)"
        yield "      : write_values(write, context, order++);"
    else:
        yield "    failed = write(context, pieces[k].bytes, pieces[k].size);"
    yield "  }"
    if averages:
        yield "  exchange_averages();"
    yield f"  return failed ? {upper}_NOT_WRITTEN : {upper}_OK;"
    yield "}"
    yield ""


def _pieces(
    image: ModelImage, constants: Sequence[tuple[bytes, str]], block: DataBlock
) -> Iterator[_Piece]:
    """Yields the whole file."""
    pieces = [_weights(span) for span in image.spans]
    taken = [(p.offset, p.offset + p.nbytes) for p in pieces]
    for data, address in constants:
        at = image.data.find(data) if len(data) >= SHARED else -1
        if at >= 0 and all(at + len(data) <= first or end <= at for first, end in taken):
            taken.append((at, at + len(data)))
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
