"""Products of matrices: dense layers, products of activations."""

import math
from collections.abc import Callable, Mapping, Sequence

from odt.core.lowering.onnx.arithmetic import scaled
from odt.core.lowering.onnx.builder import Use
from odt.core.model.graph import ABSENT
from odt.errors import ShapeError


def gemm(u: Use) -> int:
    """α A B + β C, where A and B may be transposed and C is broadcast."""
    if (u.rank(0), u.rank(1)) != (2, 2):
        raise ShapeError(f"A and B must be matrices, but got {u.shape(0)} and {u.shape(1)}")
    x = u.input(0)
    if u.attr("transA", 0):
        x = u.b.transpose(x, (1, 0))
    order = (0, 1) if u.attr("transB", 0) else (1, 0)
    w = u.b.weight(u.node.inputs[1], order)
    alpha, beta = float(u.attr("alpha", 1.0)), float(u.attr("beta", 1.0))
    units = u.b.shape(w)[0]
    bias = ABSENT
    if u.has(2) and alpha == beta == 1 and u.shape(2) in ((units,), (1, units)):
        bias = u.b.weight(u.node.inputs[2], range(u.rank(2)), (units,))
    y = scaled(u, u.b.add("FULLY_CONNECTED", (x, w, bias)), alpha)
    if not u.has(2) or bias != ABSENT:
        return y
    return u.b.add("ADD", (y, scaled(u, u.input(2), beta)))


def matmul(u: Use) -> int:
    """A product as in NumPy; with a constant matrix it is a dense layer."""
    a, b = u.shape(0), u.shape(1)
    if not a or not b:
        raise ShapeError(f"A and B must have axes, but got {a} and {b}")
    if len(a) > 1 and len(b) == 2 and u.b.is_constant(u.raw(1)):
        w = u.b.weight(u.node.inputs[1], (1, 0))
        return u.b.add("FULLY_CONNECTED", (u.input(0), w, ABSENT), keep_num_dims=True)
    x, y = u.input(0), u.input(1)
    x = u.b.reshape(x, (1, *a)) if len(a) == 1 else x
    y = u.b.reshape(y, (*b, 1)) if len(b) == 1 else y
    rank = max(len(u.b.shape(x)), len(u.b.shape(y)))
    x, y = (u.b.reshape(i, (1,) * (rank - len(u.b.shape(i))) + u.b.shape(i)) for i in (x, y))
    product = u.b.add("BATCH_MATMUL", (x, y))
    dims = list(u.b.shape(product))
    if len(b) == 1:
        del dims[-1]
    if len(a) == 1:
        del dims[-1 if len(b) == 1 else -2]
    return u.b.reshape(product, dims)


def einsum(u: Use) -> int:
    """A product of two tensors, summed over the letters that the result lacks.

    Each operand becomes (batch…, rows, sum) or (batch…, sum, columns), where the batch has the
    letters of both operands and of the result.
    """
    equation = str(u.attr("equation", "")).replace(" ", "")
    terms, arrow, result = equation.partition("->")
    letters = terms.split(",")
    if len(letters) != 2 or not arrow or any(not t.isalpha() for t in (*letters, result)):
        raise ShapeError(f"equation must be that of two tensors, but got {equation[:40]!r}")
    a, b = letters
    if any(len(set(t)) != len(t) for t in (a, b, result)) or not set(result) <= {*a, *b}:
        raise ShapeError(f"no letter may be twice in a tensor, but got {equation[:40]!r}")
    sizes: dict[str, int] = {}
    for k, term in enumerate(letters):
        if len(term) != u.rank(k):
            raise ShapeError(f"equation must have the axes of {u.shape(k)}, but got {term}")
        for letter, n in zip(term, u.shape(k), strict=True):
            if sizes.setdefault(letter, n) != n:
                raise ShapeError(f"{letter} must have one length, but got {sizes[letter]} and {n}")
    both = [c for c in result if c in a and c in b]
    summed = [c for c in a if c in b and c not in result]
    rows, columns = ([c for c in result if c in t and c not in both] for t in (a, b))
    operands = []
    for k, groups in enumerate(((rows, summed), (summed, columns))):
        x, term = u.node.inputs[k], letters[k]
        alone = [c for c in term if c not in result and c not in summed]
        if alone:
            axes = u.b.constant([term.index(c) for c in alone])
            x = u.b.add("SUM", (u.input(k), axes), keep_dims=False)
            term = "".join(c for c in term if c not in alone)
        order = [term.index(c) for c in (*both, *groups[0], *groups[1])]
        dims = [math.prod(sizes[c] for c in group) for group in groups]
        operands.append(u.b.weight(x, order, (*(sizes[c] for c in both), *dims)))
    y = u.b.add("BATCH_MATMUL", operands)
    axes_of_y = [*both, *rows, *columns]
    y = u.b.reshape(y, [sizes[c] for c in axes_of_y])
    return u.b.transpose(y, [axes_of_y.index(c) for c in result])


KINDS: Mapping[str, Callable[[Use], int | Sequence[int]]] = {
    "Gemm": gemm,
    "MatMul": matmul,
    "Einsum": einsum,
}
