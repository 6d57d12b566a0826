"""Finds where the values of a tensor come from: behind moved axes, and in a part of a tensor."""

from collections.abc import Mapping, Sequence

from odt.core.lowering.binding import row_of
from odt.core.model.graph import Node, Tensor
from odt.dataclass import dataclass

VIEWS = frozenset(("RESHAPE", "EXPAND_DIMS", "SQUEEZE"))
SLICES = ("SLICE", "STRIDED_SLICE")


@dataclass(frozen=True, slots=True)
class Part:
    """A tensor that is a part of another.

    Attributes:
        x, y: the whole, and the part.
        axis, begin, end: an axis of x, and its entries in y, which has all entries of other axes.
    """

    x: int
    y: int
    axis: int
    begin: int
    end: int


def part_of(tensors: Sequence[Tensor], node: Node, i: int) -> Part | None:
    """Returns tensor i as a part of a node's input, if it is a slice of one axis, or of a SPLIT."""
    if node.op == "SPLIT":
        x, shape = node.inputs[1], tensors[i].spec.shape
        axis = node.attrs.axis % len(shape)
        begin = node.outputs.index(i) * shape[axis]
        return Part(x, i, axis, begin, begin + shape[axis])
    x = node.inputs[0]
    if node.op not in SLICES or tensors[x].data is not None:
        return None
    cuts, axis, spec = [], 0, tensors[x].spec
    for entry in row_of(node.op).forward.prepare(node.attrs, {"x": spec})["at"]:
        if entry is None:
            continue
        size = spec.shape[axis]
        # Slices of a range are ranges; an index takes one entry, from the end if it is negative.
        extent = range(size)[entry] if isinstance(entry, slice) else range(size)[entry:][:1]
        if extent.step != 1 or not extent:
            return None
        if extent != range(size):
            cuts.append(Part(x, i, axis, extent.start, extent.stop))
        axis += 1
    return cuts[0] if len(cuts) == 1 else None


def moved_axes(
    tensors: Sequence[Tensor], makers: Mapping[int, Node], i: int
) -> tuple[int, tuple[int, ...]]:
    """Finds the tensor before operators that move axes, and add or remove axes of length 1.

    Returns:
        That tensor, and its axes longer than 1 in the order that they have in tensor i.
    """
    transposes: list[Node] = []
    while (node := makers.get(i)) is not None:
        x = node.inputs[0]
        if node.op == "TRANSPOSE":
            transposes.append(node)
        elif node.op not in VIEWS or _long(tensors[x]) != _long(tensors[i]):
            break
        i = x
    axes = [k for k, size in enumerate(tensors[i].spec.shape) if size != 1]
    for node in reversed(transposes):
        spec = tensors[node.inputs[0]].spec
        long = [k for k, size in enumerate(spec.shape) if size != 1]
        axes = [axes[long.index(p)] for p in node.attrs.axes(spec) if p in long]
    return i, tuple(axes)


def _long(tensor: Tensor) -> list[int]:
    """Returns the lengths of a tensor's axes that are longer than 1."""
    return [size for size in tensor.spec.shape if size != 1]
