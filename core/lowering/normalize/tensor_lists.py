"""TensorFlow's lists of tensors, in which the loop of a recurrent layer collects its steps.

Converters leave the list to TensorFlow (SELECT_TF_OPS) if it has no fixed shape, as in Keras layers
with an open batch. In a loop that is unrolled each position is a constant, so that a list is known
item by item: TensorListStack becomes PACK, TensorListFromTensor UNPACK, and the list itself is
never computed.

Source: TensorFlow's operators of the same names.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from odt.core.lowering.normalize.unread import without_unread
from odt.core.model.graph import Node
from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array, TensorSpec

NAMES = RESERVE, FROM_TENSOR, SET, GET, STACK = (
    "Reserve",
    "FromTensor",
    "SetItem",
    "GetItem",
    "Stack",
)
# Operators of TensorFlow (Flex), or the custom operators that a file converted with
# `allow_custom_ops` has in their place.
LISTS = {f"CUSTOM:{flex}TensorList{name}": name for flex in ("Flex", "") for name in NAMES}
MAX_ITEMS = 10_000  # below which the length of a list must be
Items = tuple[int | None, ...]  # tensors; None for one that has not been set


@dataclass(frozen=True, slots=True)
class Expansion:
    """The operators, list or tensor in place of an operator on lists.

    Attributes:
        nodes: operators on tensors.
        items: the list that it makes; None for an operator that makes a tensor.
        same: the tensor that it takes out of a list; None for other operators.
    """

    nodes: tuple[Node, ...] = ()
    items: Items | None = None
    same: int | None = None


def expand_list(
    node: Node,
    lists: Mapping[int, Items],
    values: Mapping[int, Array],
    specs: Mapping[int, TensorSpec],
    add_slices: Callable[[int], Sequence[int]],
) -> Expansion | None:
    """Replaces an operator on lists.

    Args:
        node: the operator, one of LISTS.
        lists: tensor → items of the list that it holds.
        values: tensor → value, if it is known.
        specs: tensor → spec, if it is known.
        add_slices: adds tensors for the slices of a tensor along its first axis; returns them.

    Returns:
        None if a length, a position or an item is unknown.
    """
    first, name = node.inputs[0], LISTS[node.op]
    if name == RESERVE:
        count = _integer(values, node.inputs[1])
        is_bounded = count is not None and 0 <= count < MAX_ITEMS
        return Expansion(items=(None,) * (count or 0)) if is_bounded else None
    if name == FROM_TENSOR:
        shape = specs[first].shape if first in specs else ()
        return _unpack(node, add_slices(first)) if shape and shape[0] < MAX_ITEMS else None
    items = lists.get(first)
    if items is None:
        return None
    return _stack(node, items) if name == STACK else _item(node, items, values)


def _unpack(node: Node, slices: Sequence[int]) -> Expansion:
    items, options = tuple(slices), {"num": len(slices), "axis": 0}
    unpack = replace(node, op="UNPACK", inputs=node.inputs[:1], outputs=items, options=options)
    return Expansion((unpack,), items=items)


def _stack(node: Node, items: Items) -> Expansion | None:
    tensors = tuple(i for i in items if i is not None)
    if not items or len(tensors) < len(items):
        return None
    options = {"values_count": len(items), "axis": 0}
    return Expansion((replace(node, op="PACK", inputs=tensors, options=options),))


def _item(node: Node, items: Items, values: Mapping[int, Array]) -> Expansion | None:
    """Expands an operator that sets or takes one item."""
    k = _integer(values, node.inputs[1])
    if k is None or not 0 <= k < len(items):
        return None
    if LISTS[node.op] == SET:
        return Expansion(items=(*items[:k], node.inputs[2], *items[k + 1 :]))
    return Expansion(same=items[k]) if items[k] is not None else None


def without_lists(nodes: Sequence[Node], outputs: Sequence[int]) -> list[Node]:
    """Returns the nodes, without lists that no operator reads."""
    return without_unread(nodes, outputs, lambda node: node.op in LISTS)


def _integer(values: Mapping[int, Array], i: int) -> int | None:
    return int(values[i].item()) if i in values and values[i].size == 1 else None
