"""Finds operators that spell out a formula: a pattern is the formula, with names for its operands.

A name stands for any tensor, the same wherever it appears; a tuple for an operator with the
patterns of its inputs; a list for alternatives.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from odt.core.model.graph import Node

Pattern = str | tuple[Any, ...] | list[Any]
Bindings = Mapping[str, int]

NOTHING: Bindings = MappingProxyType({})
COMMUTATIVE = frozenset({"ADD", "MUL"})


def match(
    makers: Mapping[int, Node], pattern: Pattern, i: int, bindings: Bindings = NOTHING
) -> Iterator[tuple[Bindings, frozenset[int]]]:
    """Yields the tensors with names in a pattern of tensor i, and those that its operators compute.

    Args:
        makers: tensor → the operator that computes it.
        pattern: the pattern of tensor i.
        i: the tensor to begin at.
        bindings: tensors of names that are known.
    """
    if isinstance(pattern, str):
        if bindings.get(pattern, i) == i:
            yield {**bindings, pattern: i}, frozenset()
        return
    if isinstance(pattern, list):
        for alternative in pattern:
            yield from match(makers, alternative, i, bindings)
        return
    op, *parts = pattern
    node = makers.get(i)
    if node is None or node.op != op or len(node.inputs) != len(parts):
        return
    orders = [node.inputs, node.inputs[::-1]] if op in COMMUTATIVE else [node.inputs]
    for inputs in orders:
        ways = [(bindings, frozenset({i}))]  # to match the inputs so far
        for part, k in zip(parts, inputs, strict=True):
            ways = [
                (new_bindings, matched | inner)
                for before, matched in ways
                for new_bindings, inner in match(makers, part, k, before)
            ]
        yield from ways
