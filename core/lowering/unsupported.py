"""Unsupported nodes, and the reasons that error messages give."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from odt.core.model.graph import MAX_AXES, MAX_BYTES, MAX_NAME, Graph, Node, TensorLabels
from odt.core.model.onnx import PREFIX, OnnxNode
from odt.dataclass import dataclass
from odt.errors import ShapeError, UnsupportedError, one_line
from odt.kernels.rows.opdef import OpDef, Specs, TensorSpec

MAX_LISTED = 250  # characters of all reasons in one message
# Families of operators without a row, each with its reason.
_CONTROL_FLOW = ("IF", "WHILE", "CALL", "CALL_ONCE", "STABLEHLO_WHILE", "STABLEHLO_CASE")
_STATE = ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE")
_TABLES = ("HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE", "HASHTABLE_LOOKUP")
_INTEGERS = ("ConvInteger", "MatMulInteger", "QGemm")  # and names with one of:
_QUANTIZED = ("quantizel", "qlinear")  # QuantizeLinear, DynamicQuantizeLSTM, QLinearConv, …
# Custom operators that hold a network for an accelerator → the accelerator, and its compiler.
_COMPILED_FOR = {
    "edgetpu-custom-op": ("the Edge TPU", "edgetpu_compiler"),
    "ethos-u": ("the Ethos-U", "Vela"),
}


@dataclass(frozen=True, slots=True)
class UnsupportedNode:
    """A node that odt does not support.

    Attributes:
        node: node as in the file.
        where: the node's name in messages, with its output.
        reason: why it is unsupported.
    """

    node: Node
    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


def unsupported_node(graph: Graph, node: Node, error: ShapeError | None = None) -> UnsupportedNode:
    """Describes a node whose operator is unknown, or whose definition rejects it with an error."""
    where = f"node {node.origin} ({node.op})"
    if node.outputs:
        where += f", {graph.label(node.outputs[0])}"
    if error is not None:
        return UnsupportedNode(node, where, str(error))
    source = node.options.get("onnx")
    if isinstance(source, OnnxNode):
        name = f' "{one_line(source.name, MAX_NAME)}"' if source.name else ""
        where = f"node {node.origin}{name} ({node.op.removeprefix(PREFIX)})"
        reason = source.refusal or _without_kind(node.op.removeprefix(PREFIX))
        domain = source.domain or "ai.onnx"
        return UnsupportedNode(node, where, f"{reason} ({domain}, opset {source.opset})")
    return UnsupportedNode(node, where, _without_row(node.op))


def is_waiting(node: Node) -> bool:
    """Whether a node of an ONNX file is unknown only because an earlier one is."""
    source = node.options.get("onnx")
    return isinstance(source, OnnxNode) and source.waits


def unsupported_error(
    graph: Graph, unsupported: Sequence[UnsupportedNode], most: int = MAX_LISTED
) -> UnsupportedError:
    """Returns one error for all unsupported nodes.

    Args:
        graph: graph of the nodes.
        unsupported: the nodes; the error names the first, and more of them as long as they fit.
        most: largest number of characters of the nodes that the error names.
    """
    reasons = [str(refusal) for refusal in unsupported]
    lengths = accumulate(len(reason) + 2 for reason in reasons)
    shown = max(sum(length <= most for length in lengths), 1)
    count = len(reasons) - shown
    ending = f"; and {count} more. `OdtError.details` names them" if count else ""
    return UnsupportedError(
        f"{graph.name}: operators must be supported, but got {'; '.join(reasons[:shown])}{ending}.",
        "\n".join(reasons),
    )


def check_tensors(graph: TensorLabels, row: OpDef, tensors: Iterable[int]) -> None:
    """Checks the dtypes of an operator's tensors, before any shape is known.

    Raises:
        ShapeError: if a tensor is quantized, or its values are not numbers the operator takes.
    """
    for i in tensors:
        tensor = graph.tensors[i]
        if tensor.quantized and tensor.spec.dtype.kind in "iu":
            raise ShapeError(
                f"tensors must be float, but got {graph.label(i)} quantized to {tensor.spec.dtype}"
            )
        if tensor.spec.dtype.kind not in ("fiubc" if row.takes_complex else "fiub"):
            kind = (tensor.spec.dtype.names or [str(tensor.spec.dtype)])[0]
            raise ShapeError(f"tensors must be real numbers, but got {graph.label(i)} of {kind}")


def check_outputs(graph: TensorLabels, outputs: Mapping[str, int], specs: Specs) -> None:
    """Compares a node's outputs in the file with the inferred ones, except for their shapes.

    Args:
        graph: graph as in the file.
        outputs: name → tensor of the node.
        specs: name → spec, as inferred by the operator's row.

    Raises:
        ShapeError: if the number of outputs or a dtype differs, or a shape is too large.
    """
    if outputs.keys() != specs.keys():
        raise ShapeError(f"must have {len(specs)} outputs, but got {len(outputs)}")
    for name, spec in specs.items():
        if len(spec.shape) > MAX_AXES or min(spec.shape, default=0) < 0:
            raise ShapeError(
                f"{name} must have at most {MAX_AXES} axes, none below 0, "
                f"but got {len(spec.shape)}: {spec.shape[:8]}"
            )
        declared = graph.tensors[outputs[name]].spec.dtype
        if spec.dtype != declared:
            raise ShapeError(f"{name} must be {spec.dtype}, but got {declared} in the file")
        if spec.nbytes > MAX_BYTES:
            raise ShapeError(f"{name} must fit into {MAX_BYTES} bytes, but got {spec}")


def check_ends(graph: Graph, specs: Mapping[int, TensorSpec]) -> None:
    """Checks that inputs and outputs hold values, and that outputs have the shapes in the file.

    A shape that the file leaves open (no axes, or −1) matches any shape.

    Args:
        graph: graph as in the file.
        specs: inferred specs for the file's batch.

    Raises:
        UnsupportedError: if an input or output is empty, an output is no numbers that odt computes,
            or its shape differs from the file's.
    """
    for i in (*graph.inputs, *graph.outputs):
        if i in specs and not specs[i].size:
            raise UnsupportedError(
                f"{graph.name}: {graph.label(i)}: inputs and outputs must have values, "
                f"but got shape {specs[i].shape}"
            )
    for i in graph.outputs:
        tensor = graph.tensors[i]
        if i not in specs:
            raise UnsupportedError(
                f"{graph.name}: output {graph.label(i)}: must be computed, but got a variable, "
                "which odt does not keep"
            )
        if tensor.spec.dtype.kind == "V":  # a constant of a type that NumPy lacks
            (kind,) = tensor.spec.dtype.names or ("unknown",)
            raise UnsupportedError(
                f"{graph.name}: output {graph.label(i)}: must be real numbers, but got {kind}"
            )
        computed = specs[i].shape
        declared = tensor.signature or tensor.spec.shape
        fits = len(declared) == len(computed) and all(
            n in (-1, m) for n, m in zip(declared, computed, strict=True)
        )
        if declared and not fits:
            raise UnsupportedError(
                f"{graph.name}: output {graph.label(i)}: its shape must be the computed one, "
                f"{computed}, but got {declared} in the file"
            )


def _without_kind(kind: str) -> str:
    """Returns why odt does not compute a kind of ONNX nodes."""
    name = kind.rpartition(".")[2]
    if name in _INTEGERS or any(part in name.lower() for part in _QUANTIZED):
        return "is of a quantized file; train the float file that it was made from"
    return "is not supported"


def _without_row(op: str) -> str:
    """Returns why odt does not compute an operator that it has no row for."""
    kind, _, name = op.partition(":")
    if kind == "CUSTOM":
        return _custom(name)
    if op in _CONTROL_FLOW:
        return "is control flow that does not follow from constants"
    if op in _STATE:
        return "refers to a variable without a constant as initial value in the file"
    if op in _TABLES:
        return "keeps a table between runs"
    return "is not supported"


def _custom(name: str) -> str:
    if name.startswith("Flex"):
        return "is a TensorFlow operator (Flex), which only TensorFlow computes"
    if name in _COMPILED_FOR:
        device, compiler = _COMPILED_FOR[name]
        return f"is compiled for {device}: use the file that {compiler} was given"
    return "is a custom operator, which only its own library computes"
