"""Products of matrices: dense layers, products of activations."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from odt.core.lowering.onnx.arithmetic import scaled
from odt.core.lowering.onnx.builder import Use
from odt.core.model.graph import ABSENT
from odt.dataclass import dataclass
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


@dataclass(frozen=True, slots=True)
class Term:
    """A tensor of an equation, with a letter for each axis."""

    x: int
    letters: str


def einsum(u: Use) -> int:
    """A product of tensors, summed over the letters that the result lacks, from left to right."""
    words, result = _equation(u)
    terms = [Term(u.node.inputs[k], word) for k, word in enumerate(words)]
    sizes: dict[str, int] = {}
    for k, term in enumerate(terms):
        for letter, n in zip(term.letters, u.shape(k), strict=True):
            if sizes.setdefault(letter, n) != n:
                raise ShapeError(f"{letter} must have one length, but got {sizes[letter]} and {n}")
    term, order = terms[0], result + "".join(words)
    for k, other in enumerate(terms[1:], 1):
        later = {*result, *"".join(words[k + 1 :])}
        term = _product(u, term, other, sorted(later, key=order.find), sizes)
    term = _summed(u, term, result)
    return u.b.transpose(u.b.plain(term.x), [term.letters.index(c) for c in result])


def _equation(u: Use) -> tuple[list[str], str]:
    """Returns the letters of the tensors and of the result.

    Letters stand for the axes of an ellipsis, too.
    """
    equation = str(u.attr("equation", "")).replace(" ", "")
    left, arrow, right = equation.partition("->")
    words = left.split(",")
    if len(words) != len(u.node.inputs):
        raise ShapeError(f"equation must be that of {len(u.node.inputs)} tensors, but got {left}")
    named = [word.replace("...", "") for word in (*words, right)]
    if any(len(set(word)) != len(word) for word in named):
        raise ShapeError(f"no letter may be twice in a tensor, but got {equation[:40]!r}")
    words, hidden = _without_ellipsis(u, words)
    if arrow:
        result = right.replace("...", hidden)
    else:  # letters that occur once, in alphabetic order
        once = sorted(c for c in set(left) if c.isalpha() and left.count(c) == 1)
        result = hidden + "".join(once)
    if not set(result) <= set("".join(words)):
        raise ShapeError(f"the result must have letters of the tensors, but got {equation[:40]!r}")
    return words, result


def _without_ellipsis(u: Use, words: Sequence[str]) -> tuple[list[str], str]:
    """Returns words with Greek letters in place of "...", and the longest such letters.

    An ellipsis of fewer axes has the last ones, as in broadcasting.
    """
    named, longest = [], ""
    for k, word in enumerate(words):
        missing = u.rank(k) - len(word.replace("...", ""))
        if missing < 0 or (missing and "..." not in word) or word.count(".") not in (0, 3):
            raise ShapeError(f"equation must have the axes of {u.shape(k)}, but got {word[:40]}")
        letters = "".join(chr(ord("α") + i) for i in reversed(range(missing)))
        longest = max(longest, letters, key=len)
        named.append(word.replace("...", letters))
    return named, longest


def _summed(u: Use, term: Term, needed: Iterable[str]) -> Term:
    """Sums over the letters that nothing else has."""
    needed = {*needed}
    alone = [c for c in term.letters if c not in needed]
    if not alone:
        return term
    axes = u.b.constant([term.letters.index(c) for c in alone])
    y = u.b.add("SUM", (u.b.plain(term.x), axes), keep_dims=False)
    return Term(y, "".join(c for c in term.letters if c in needed))


def _product(u: Use, a: Term, b: Term, later: Sequence[str], sizes: Mapping[str, int]) -> Term:
    """Multiplies two tensors, and sums over the letters that nothing later has.

    Each operand becomes (batch…, rows, sum) or (batch…, sum, columns), where the batch has the
    letters of both operands and of what is `later`, in whose order letters stand.
    """
    a, b = _summed(u, a, {*later, *b.letters}), _summed(u, b, {*later, *a.letters})
    both = [c for c in later if c in a.letters and c in b.letters]
    summed = [c for c in a.letters if c in b.letters and c not in later]
    rows = [c for c in later if c in a.letters and c not in both]
    columns = [c for c in later if c in b.letters and c not in both]
    operands = []
    for term, groups in ((a, (rows, summed)), (b, (summed, columns))):
        order = [term.letters.index(c) for c in (*both, *groups[0], *groups[1])]
        dims = [math.prod(sizes[c] for c in group) for group in groups]
        operands.append(u.b.weight(term.x, order, (*(sizes[c] for c in both), *dims)))
    y = u.b.add("BATCH_MATMUL", operands)
    letters = "".join((*both, *rows, *columns))
    return Term(u.b.reshape(y, [sizes[c] for c in letters]), letters)


KINDS: Mapping[str, Callable[[Use], int | Sequence[int]]] = {
    "Gemm": gemm,
    "MatMul": matmul,
    "Einsum": einsum,
}
