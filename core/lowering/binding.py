"""Binds the names of an operator's row to the tensors of one node."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TypeVar

from odt.core.model.graph import ABSENT, Node
from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.registry import find_operator
from odt.kernels.rows.opdef import Kernel, OpDef
from odt.text import quantity

T = TypeVar("T")
ONE = ("y",)  # names of the outputs of most operators


def row_of(op: str) -> OpDef:
    """Returns the row of a supported operator."""
    row = find_operator(op)
    assert row is not None, f"{op}: must be a supported operator"
    return row


@dataclass(frozen=True, slots=True)
class NameList:
    """The names of an operator's inputs or outputs.

    Attributes:
        plain: the names without their suffixes.
        required: those that may not be absent, without names of several items.
        optional: those that may be absent.
        least: least number of items.
        several: whether a name takes several items.
    """

    plain: tuple[str, ...]
    required: tuple[str, ...]
    optional: frozenset[str]
    least: int
    several: bool


@cache
def names_of(names: tuple[str, ...]) -> NameList:
    """Parses names: `b?` is optional, `xs*` takes one or more items."""
    return NameList(
        tuple(n.rstrip("?*") for n in names),
        tuple(n for n in names if not n.endswith(("?", "*"))),
        frozenset(n[:-1] for n in names if n.endswith("?")),
        sum(not n.endswith("?") for n in names),
        any(n.endswith("*") for n in names),
    )


def bind(names: tuple[str, ...], items: Sequence[T]) -> dict[str, T]:
    """Binds names to items in order.

    `b?` is optional and bound as b; `xs*` takes one or more items: all except those of later names.

    Raises:
        ShapeError: if there are too few or too many items.
    """
    parsed = names_of(names)
    least, starred = parsed.least, parsed.several
    if len(items) < least or (len(items) > len(names) and not starred):
        if starred:
            counts = f"{least} or more tensors"
        elif least < len(names):
            counts = f"{least} to {len(names)} tensors"
        else:
            counts = quantity(least, "tensor")
        raise ShapeError(f"must have {counts} ({', '.join(names)}), but got {len(items)}")
    if not starred:
        return dict(zip(parsed.plain, items, strict=False))  # optional ones may be left out
    bound: dict[str, T] = {}
    at = 0
    for k, name in enumerate(names):
        if name.endswith("*"):
            members = len(items) - at - (len(names) - k - 1)
            for j in range(members):
                bound[f"{name[:-1]}{j}"] = items[at + j]
            at += members
        elif at < len(items):
            bound[name.rstrip("?")] = items[at]
            at += 1
    return bound


def bind_inputs(row: OpDef, node: Node) -> dict[str, int]:
    """Returns input name → tensor index, without absent inputs.

    Raises:
        ShapeError: if there are too few or too many inputs, or a required one is absent.
    """
    names = names_of(row.inputs)
    is_whole = ABSENT not in node.inputs
    if is_whole and len(node.inputs) == len(names.plain) and not names.several:
        return dict(zip(names.plain, node.inputs, strict=True))
    bound = bind(row.inputs, node.inputs)
    if is_whole and bound.keys() >= set(names.required):
        return bound
    needed = dict.fromkeys((*names.required, *(n for n in bound if n not in names.optional)))
    missing = [n for n in needed if bound.get(n, ABSENT) == ABSENT]
    if missing:
        raise ShapeError(f"must have the inputs {', '.join(missing)}, but got none")
    return {n: i for n, i in bound.items() if i != ABSENT}


def bind_operands(row: OpDef, node: Node) -> dict[str, int]:
    """Returns input name → tensor index for inputs that kernels read: no statics or states.

    Raises:
        ShapeError: as `bind_inputs`.
    """
    bound = bind_inputs(row, node)
    if not (row.static or row.zero_state):
        return bound
    hidden = names_of((*row.static, *row.zero_state)).plain
    return {n: i for n, i in bound.items() if n not in hidden}


def bind_outputs(row: OpDef, node: Node) -> dict[str, int]:
    """Returns output name → tensor index.

    Raises:
        ShapeError: if there are too few or too many outputs.
    """
    if row.outputs == ONE and len(node.outputs) == 1:
        return {"y": node.outputs[0]}
    return bind(row.outputs, node.outputs)


def expand(names: Sequence[str], names_present: Mapping[str, object]) -> Sequence[str]:
    """Expands a kernel's reads or writes: drops absent names, replaces `xs*` by xs0, xs1, …."""
    parsed = names_of(tuple(names))
    if not (parsed.several or parsed.optional):
        return parsed.plain
    if not parsed.several:
        return [n for n in parsed.plain if n in names_present or n not in parsed.optional]
    expanded: list[str] = []
    for name in names:
        if name.endswith("*"):
            stem = name[:-1]
            expanded += [
                k for k in names_present if k[: len(stem)] == stem and k[len(stem) :].isdigit()
            ]
        elif not name.endswith("?") or name[:-1] in names_present:
            expanded.append(name.rstrip("?"))
    return expanded


def gradient_of(row: OpDef, name: str) -> Kernel | None:
    """Returns the kernel of the gradient by an input, also by a member of a variadic input."""
    gradient = row.grads.get(name)
    if isinstance(gradient, Kernel):
        return gradient
    for stem, member in row.grads.items():
        if stem.endswith("*") and name.startswith(stem[:-1]) and callable(member):
            return member(int(name[len(stem) - 1 :]))
    return None
