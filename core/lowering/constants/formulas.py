"""Constants of formulas at one operator: scalars, epsilons, masks, scales, tables of sinusoids."""

import re
from collections.abc import Collection, Iterator
from fnmatch import translate
from math import isclose

from odt.core.lowering.constants.front_ends import tolerance_of
from odt.core.lowering.constants.signals import is_mask, is_sinusoidal
from odt.core.lowering.constants.view import SCALES, View
from odt.core.model.graph import ABSENT, Node
from odt.kernels.rows.opdef import Array

SCALAR = "scalar"
EPSILON = "epsilon at a root"
BUFFER = "marked by the converter as no parameter"
NORMALIZATION = "statistics of the data"
MASK = "mask of an attention"
ZEROS_AND_ONES = "mask of zeros and ones"
ATTENTION_SCALE = "scale of an attention's scores"
FILL = "value that replaces others"
SINUSOIDS = "table of sinusoids"

# Names that tico gives to constants that are not parameters: buffers, constants of the program,
# and initial states of recurrent modules.
BUFFER_NAMES = ("tico::b_*", "tico::c_*", "const_tensor_*", "*.rnn.*_prop_tensor_*")
NORMALIZATION_NAMES = "normalization/"  # beginning of those of the layers that odt new makes
# Operators that apply a mask, read a table, or replace values.
MASKING = ("ADD", "SUB")
READING = ("ADD", "SUB", "MUL", "GATHER", "CONCATENATION")
REPLACING = ("SELECT", "SELECT_V2", "WHERE", "MAXIMUM", "MINIMUM")
POWERS = (0.5, 0.25, -0.25, -0.5)  # of the size of a key: factors of scores or of both operands
ROUNDED = 1e-3  # relative error of a scale that is stored as float16
HIDING = 1e3  # the softmax of a score that is smaller by so much is 0


def scalars_and_names(view: View) -> Iterator[tuple[int, str]]:
    """Yields scalars, epsilons, and constants that a converter has marked by a name."""
    epsilons = view.graph.epsilons()
    is_buffer = re.compile("|".join(map(translate, BUFFER_NAMES))).match
    for i, tensor in enumerate(view.tensors):
        if tensor.data is None or tensor.spec.dtype.kind != "f":
            continue
        if not tensor.spec.shape:
            yield i, SCALAR
        elif tensor.name.startswith(NORMALIZATION_NAMES):
            yield i, NORMALIZATION
        elif is_buffer(tensor.name):
            yield i, BUFFER
        elif i in epsilons:
            yield i, EPSILON


def masks(view: View) -> Iterator[tuple[int, str]]:
    """Yields masks: of attentions, of zeros and ones, and values that replace hidden ones."""
    for node, i in _uses(view, (*MASKING, "MUL", *REPLACING)):
        if view.is_weight(i):
            if node.op in MASKING and _hides(view.values(i)):
                yield i, MASK
            elif node.op == "MUL" and is_mask(view.values(i)):
                yield i, ZEROS_AND_ONES
            elif node.op in REPLACING and _fills(view, i):
                yield i, FILL


def _fills(view: View, i: int) -> bool:
    """Whether a constant of several entries has one value."""
    return view.tensors[i].spec.size > 1 and view.uniform(i) is not None


def _hides(values: Array) -> bool:
    """Whether values are zeros, and a number that leaves nothing of a score."""
    if not values.size:
        return False
    hides = values != 0
    value = values.flat[hides.argmax()]
    return bool(abs(value) >= HIDING and not hides.all() and (values[hides] == value).all())


def attention_scales(view: View) -> Iterator[tuple[int, str]]:
    """Yields factors of one value that scale the scores of an attention by the size of its keys.

    Exporters of PyTorch write such a factor as a constant with an axis. With keys of size d, it is
    d^-½ for scores, or d^-¼ for queries and keys.
    """
    for node, i in _uses(view, SCALES):
        value = view.uniform(i) if view.is_weight(i) and view.tensors[i].spec.size == 1 else None
        if value is not None and any(
            isclose(value, size**power, rel_tol=ROUNDED)
            for size in _key_sizes(view, node)
            for power in POWERS
            if size > 1
        ):
            yield i, ATTENTION_SCALE


def _key_sizes(view: View, node: Node) -> Iterator[int]:
    """Yields the sizes of keys, if a node scales scores, queries or keys."""
    operand = view.operand(node)
    if operand is None:
        return
    products = [*view.users(node.outputs[0]), view.makers.get(view.behind(operand[0]))]
    for product in products:
        if product is None or product.op != "BATCH_MATMUL" or len(product.inputs) != 2:
            continue
        shape = view.tensors[product.inputs[0]].spec.shape
        if len(shape) > 1 and view.dependent.issuperset(product.inputs):
            yield shape[-2] if product.options.get("adj_x") else shape[-1]


def sinusoids(view: View) -> Iterator[tuple[int, str]]:
    """Yields tables of sinusoids: positions of a transformer, and rotary tables."""
    seen = set[int]()
    for _, i in _uses(view, READING):
        if i not in seen and view.is_weight(i):
            if is_sinusoidal(view.values(i), tolerance_of(view, i)):
                yield i, SINUSOIDS
            seen.add(i)


def _uses(view: View, operators: Collection[str]) -> Iterator[tuple[Node, int]]:
    """Yields the constants that some operators read, each once for an operator."""
    seen = set[tuple[str, int]]()
    for node in view.nodes:
        if node.op in operators:
            for i in (view.source(i) for i in node.inputs if i != ABSENT):
                if (node.op, i) not in seen and view.is_real(i):
                    yield node, i
                seen.add((node.op, i))
