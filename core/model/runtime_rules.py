"""Operators of a quantized file that LiteRT refuses or computes differently.

odt computes and trains the real numbers that integers represent. LiteRT's kernels move integers
between tensors without reading their scales, or refuse such files when they load them.

Source: runs of ai-edge-litert 2.3.0 on files of one operator (tests/judges).
"""

from collections.abc import Iterator

from odt.core.model.graph import ABSENT, Node
from odt.core.model.integer_operators import prescribed_quantization
from odt.core.model.model import Model
from odt.core.model.packed_integers import int2_filters
from odt.core.model.quantization_rules import ACTIVATIONS
from odt.kernels.rows.quantized_index import QUANTIZED

TOLERANCE = 1e-3  # relative, between scales that count as equal
# Refused if their output has another quantization than the prescribed one.
PRESCRIBED = frozenset(op for op, row in QUANTIZED.items() if row.range and row.checks_scales)
# Refused if their tensors have different scales; CONCATENATION of uint8 is computed.
EQUAL = frozenset(op for op, row in QUANTIZED.items() if row.checks_scales) - PRESCRIBED
# Move integers, or compute with them, as if all their tensors had one scale.
MOVED = frozenset(op for op, row in QUANTIZED.items() if row.same) - EQUAL
WITHOUT_INTEGERS = frozenset(op for op, row in QUANTIZED.items() if row.refused)
MAX_NAMES = 3  # operators that a note names
REMEDY = "Quantize the float model again, or export with `float_weights=True`."


def litert_note(model: Model) -> str:
    """Returns a note on operators that LiteRT refuses or computes differently; may be empty."""
    nodes = [n for n in model.graph.nodes if _is_on_integers(model, n)]
    refused = [f"node {n.origin} ({n.op}), {rule}" for n in nodes for rule in _refusals(model, n)]
    different = [f"node {n.origin} ({n.op})" for n in nodes if _differs(model, n)]
    parts = []
    if refused:
        parts.append(f"refuses {_listed(refused)}")
    if different:
        parts.append(
            "moves integers where odt computes the numbers that they represent: "
            f"{_listed(different)}, between different scales"
        )
    notes = [f"LiteRT {'; it '.join(parts)}. {REMEDY}"] if parts else []
    filters = int2_filters(model)
    layers = [f"node {n.origin} ({n.op})" for n in model.graph.nodes if filters & {*n.inputs}]
    if layers:
        notes.append(
            f"LiteRT computes other numbers from weights of int2 in {_listed(layers)}: trained "
            "files have int4 there."
        )
    return f"{model.path}: {' '.join(notes)}" if notes else ""


def _listed(names: list[str]) -> str:
    rest = len(names) - MAX_NAMES
    return "; ".join([*names[:MAX_NAMES], *([f"and {rest} more"] if rest > 0 else [])])


def _bound(model: Model, node: Node) -> list[int]:
    """The quantized tensors of a node."""
    return [i for i in (*node.inputs, *node.outputs) if i != ABSENT and i in model.quantization]


def _is_on_integers(model: Model, node: Node) -> bool:
    """Whether the output of a node has integers with one scale."""
    return len(node.outputs) > 0 and all(
        i in model.quantization
        and model.quantization[i].scale.size == 1
        and model.graph.tensors[i].spec.dtype in ACTIVATIONS
        for i in node.outputs
    )


def _refusals(model: Model, node: Node) -> Iterator[str]:
    """Yields rules of LiteRT that a node breaks, so that it refuses the file."""
    y = node.outputs[0]
    quantization, dtype = model.quantization[y], model.graph.tensors[y].spec.dtype
    if node.op in WITHOUT_INTEGERS:
        yield f"which it does not have for {dtype}"
    if node.op in PRESCRIBED:
        prescribed = prescribed_quantization(node.op, dtype)
        scale, zero = float(prescribed.scale[0]), int(prescribed.zero_point[0])
        near = abs(float(quantization.scale[0]) - scale) <= TOLERANCE * scale
        if not near or int(quantization.zero_point[0]) != zero:
            pair = f"{float(quantization.scale[0]):.6g} and {int(quantization.zero_point[0])}"
            text = f"whose output must have scale 1/{round(1 / scale)}, zero point {zero}"
            yield f"{text}, not {pair}"
    takes_several = node.op == "CONCATENATION" and dtype.kind == "u"
    if node.op in EQUAL and not takes_several and _has_several_scales(model, node):
        yield "whose tensors must have one scale"


def _differs(model: Model, node: Node) -> bool:
    """Whether LiteRT computes other numbers than those that the integers represent."""
    if node.op == "NEG":
        return any(bool(model.quantization[i].zero_point.any()) for i in _bound(model, node))
    return node.op in MOVED and _has_several_scales(model, node)


def _has_several_scales(model: Model, node: Node) -> bool:
    """Whether the quantized tensors of a node represent numbers in different ways."""
    quantizations = [model.quantization[i] for i in _bound(model, node)]
    scales = [float(q.scale[0]) for q in quantizations]
    zeros = {int(q.zero_point[0]) for q in quantizations}
    return max(scales) > (1 + TOLERANCE) * min(scales) or len(zeros) > 1
