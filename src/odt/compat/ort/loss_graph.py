"""The loss of an evaluation model, taken apart: a sum of terms, each of one tensor of the model.

odt trains the model without its loss. A term is a loss of odt that reads targets, or, where odt has
none, the sum of a tensor times coefficients that follow from the labels of a batch.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from odt.core.model.graph import ABSENT, Graph, Node, Tensor
from odt.core.model.onnx import PREFIX, OnnxNode
from odt.core.storage.reading import printable
from odt.dataclass import dataclass
from odt.errors import UnsupportedError
from odt.kernels.rows.opdef import Array, TensorSpec

CROSS_ENTROPY = "sparse_categorical_crossentropy"
SQUARED, ABSOLUTE = "mean_squared_error", "mean_absolute_error"
BINARY = "binary_crossentropy"
COEFFICIENTS = ""  # a term without a loss of odt
LOSS_DOMAIN = "odt"  # of a node Loss, which stands for a loss that ONNX does not have
LAST_AXIS = -1  # of the class numbers, unless a node says another
SAME = ("Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape", "Flatten")  # of one value
PROBABILITIES = ("Softmax", "Sigmoid")


@dataclass(frozen=True, slots=True)
class Classes:
    """Labels that select values of a tensor (N, …, K).

    Attributes:
        labels: input with the labels (N, …).
        weight: weights of the classes (K,).
        ignored: label that is left out; None for none.
    """

    labels: int
    weight: Array | None = None
    ignored: int | None = None


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a loss.

    Attributes:
        tensor: what it reads.
        is_sum: whether it is the sum over values, or over labels, instead of their mean.
        factor: factor of the term.
        loss: loss of odt; COEFFICIENTS for none.
        target: input with the targets of the loss.
        classes: labels that select values, whose sum is the term; None for the sum of all values.
        general: tensor of the term without a loss of odt.
    """

    tensor: int
    is_sum: bool = False
    factor: float = 1.0
    loss: str = COEFFICIENTS
    target: int = ABSENT
    classes: Classes | None = None
    general: "Term | None" = None


Sum: TypeAlias = tuple[float, list[Term]]  # a constant, and terms
Operands: TypeAlias = Sequence[tuple[int, int]]  # values and targets of a loss; empty: no such loss


class LossGraph:
    """Takes the loss of a graph apart.

    Attributes:
        graph: the graph; nodes that terms need are added to it.
        terms: the terms.
        constant: what is added to their sum.
    """

    def __init__(self, graph: Graph, loss: int) -> None:
        self.graph = graph
        self._makers = {y: node for node in graph.nodes for y in node.outputs}
        self._tensors, self._nodes = list(graph.tensors), list(graph.nodes)
        self.constant, terms = self._sum(loss)
        self.terms = self._fitting(terms)
        self.graph = replace(graph, tensors=tuple(self._tensors), nodes=tuple(self._nodes))

    # ---- sums of terms

    def _sum(self, i: int) -> Sum:
        """Returns a number of the loss: a constant, and terms."""
        data, node = self._tensors[i].data, self._makers.get(i)
        if data is not None and data.size == 1:
            return float(data.reshape(-1)[0]), []
        if node is None:
            raise self._unsupported(i, "computed from the model's outputs")
        sums: dict[str, Callable[[Node], Sum]] = {
            **dict.fromkeys(SAME, self._same),
            **dict.fromkeys(("Add", "Sub", "Sum"), self._added),
            **dict.fromkeys(("Mul", "Div"), self._multiplied),
            **dict.fromkeys(("ReduceMean", "ReduceSum"), self._reduced),
            "Neg": lambda node: _scaled(self._same(node), -1.0),
            "Loss": self._loss_of_odt,
            "SoftmaxCrossEntropyLoss": self._cross_entropy,
            "NegativeLogLikelihoodLoss": self._cross_entropy,
        }
        if _kind(node) not in sums:
            raise self._unsupported(i, "a sum of means, sums and cross-entropies", node)
        return sums[_kind(node)](node)

    def _same(self, node: Node) -> Sum:
        return self._sum(node.inputs[0])

    def _added(self, node: Node) -> Sum:
        sign = -1.0 if _kind(node) == "Sub" else 1.0
        first, *others = map(self._sum, node.inputs)
        parts = [first, *(_scaled(other, sign) for other in others)]
        return sum(c for c, _ in parts), [t for _, terms in parts for t in terms]

    def _multiplied(self, node: Node) -> Sum:
        (a, first), (b, second) = map(self._sum, node.inputs)
        if second and (first or _kind(node) == "Div"):
            raise self._unsupported(node.outputs[0], "a sum with constant factors", node)
        if _kind(node) == "Div":
            if not b:
                raise self._unsupported(node.outputs[0], "divided by other numbers than 0", node)
            b = 1 / b
        return _scaled((b, second), a) if second else _scaled((a, first), b)

    def _unsupported(self, i: int, rule: str, node: Node | None = None) -> UnsupportedError:
        name = _source(node).name
        got = f"{_kind(node)}{f' ({printable(name)})' if name else ''}" if node else ""
        got = got or self.graph.label(i)
        return UnsupportedError(f"{self.graph.name}: the loss must be {rule}, but got {got}.")

    # ---- terms

    def _loss_of_odt(self, node: Node) -> Sum:
        """Returns a loss of odt that ONNX does not have."""
        if _source(node).domain != LOSS_DOMAIN or len(node.inputs) != 2:
            raise self._unsupported(node.outputs[0], "one that odt knows", node)
        x, t = node.inputs
        return 0.0, [Term(x, loss=str(_source(node).attributes.get("loss", "")), target=t)]

    def _reduced(self, node: Node) -> Sum:
        if _source(node).attributes.get("axes") or node.inputs[1:] not in ((), (ABSENT,)):
            raise self._unsupported(node.outputs[0], "the mean or sum of all values", node)
        return 0.0, [self._of_values(node.inputs[0], is_sum=_kind(node) == "ReduceSum")]

    def _of_values(self, v: int, *, is_sum: bool) -> Term:
        """Returns the mean or sum of all values, as a loss of odt if there is one."""
        general = Term(v, is_sum)
        for loss, match in (
            (SQUARED, self._square),
            (ABSOLUTE, self._absolute),
            (BINARY, self._binary),
        ):
            for x, t in match(v):
                if t in self.graph.inputs and x not in self.graph.inputs:
                    return Term(x, is_sum, loss=loss, target=t, general=general)
        return general

    def _square(self, v: int) -> Operands:
        """Matches (x − t)²."""
        node = self._makers.get(v)
        if _kind(node) == "Pow" and node and self._is_constant(node.inputs[1], 2):
            return self._difference(node.inputs[0])
        if _kind(node) == "Mul" and node and node.inputs[0] == node.inputs[1]:
            return self._difference(node.inputs[0])
        return ()

    def _absolute(self, v: int) -> Operands:
        """Matches |x − t|."""
        node = self._makers.get(v)
        return self._difference(node.inputs[0]) if node and _kind(node) == "Abs" else ()

    def _difference(self, v: int) -> Operands:
        """Matches x − t; either operand may be the targets."""
        node = self._makers.get(v)
        if node is None or _kind(node) != "Sub":
            return ()
        a, b = node.inputs
        return (a, b), (b, a)

    def _binary(self, v: int) -> Operands:
        """Matches −(t log p + (1 − t) log(1 − p)) for p = sigmoid(x)."""
        total = self._operand("Neg", v)
        both = self._makers.get(total) if total is not None else None
        if both is None or _kind(both) != "Add":
            return ()
        ones, zeros = (self._makers.get(i) for i in both.inputs)
        if not (ones and zeros and _kind(ones) == _kind(zeros) == "Mul"):
            return ()
        p, t = self._operand("Log", ones.inputs[0]), ones.inputs[1]
        q = self._operand("Log", zeros.inputs[0])
        x = self._operand("Sigmoid", p) if p is not None else None
        if x is None or q is None or self._rest(q) != p or self._rest(zeros.inputs[1]) != t:
            return ()
        return ((x, t),)

    def _rest(self, v: int) -> int | None:
        """Returns a if tensor v is 1 − a."""
        node = self._makers.get(v)
        if node and _kind(node) == "Sub" and self._is_constant(node.inputs[0], 1):
            return node.inputs[1]
        return None

    def _operand(self, kind: str, v: int) -> int | None:
        """Returns the operand of the node of a kind that computes tensor v."""
        node = self._makers.get(v)
        return node.inputs[0] if node and _kind(node) == kind else None

    def _is_constant(self, i: int, value: float) -> bool:
        data = self._tensors[i].data
        return data is not None and data.size == 1 and float(data.reshape(-1)[0]) == value

    def _cross_entropy(self, node: Node) -> Sum:
        scores, labels = node.inputs[:2]
        attributes = _source(node).attributes
        weight = None
        if len(node.inputs) > 2 and node.inputs[2] != ABSENT:
            weight = self._tensors[node.inputs[2]].data
            if weight is None:
                raise self._unsupported(node.inputs[2], "one with constant class weights", node)
        reduction = attributes.get("reduction", "mean")
        if reduction not in ("mean", "sum"):
            raise self._unsupported(scores, "a mean or a sum of the samples' losses", node)
        ignored = attributes.get("ignore_index")
        scores, labels = self._class_last(scores, labels, node)
        is_sum, logs = reduction == "sum", _kind(node) == "NegativeLogLikelihoodLoss"
        log_p = scores if logs else self._add("LogSoftmax", [scores], {"axis": -1})
        general = Term(log_p, is_sum, -1.0, classes=Classes(labels, weight, ignored))
        if logs and _kind(self._makers.get(scores)) == "LogSoftmax":
            maker = self._makers[scores]
            axis = _source(maker).attributes.get("axis", LAST_AXIS)
            if axis in (LAST_AXIS, 1) and len(self._shape(labels)) == 1:
                scores, logs = maker.inputs[0], False
        if logs or weight is not None or ignored is not None:
            return 0.0, [general]
        return 0.0, [Term(scores, is_sum, loss=CROSS_ENTROPY, target=labels, general=general)]

    def _class_last(self, scores: int, labels: int, node: Node) -> tuple[int, int]:
        """Returns scores (N, …, K) and the input with labels (N, …)."""
        is_flat = False  # whether labels (N · …,) and scores (N · …, K) were reshaped
        while labels not in self.graph.inputs:
            maker = self._makers.get(labels)
            if _kind(maker) not in ("Reshape", "Flatten", "Cast", "Identity") or maker is None:
                raise self._unsupported(labels, "one with an input as labels", node)
            is_flat = is_flat or _kind(maker) in ("Reshape", "Flatten")
            labels = maker.inputs[0]
        rank = len(self._shape(labels))
        if is_flat:
            maker = self._makers.get(scores)
            if _kind(maker) != "Reshape" or maker is None:
                raise self._unsupported(scores, "one whose scores are reshaped as labels", node)
            return maker.inputs[0], labels
        if rank < 2:
            return scores, labels
        order = (0, *range(2, rank + 1), 1)
        maker = self._makers.get(scores)
        back = tuple(int(k) for k in np.argsort(order))
        if maker and _source(maker).attributes.get("perm") == back:
            return maker.inputs[0], labels
        return self._add("Transpose", [scores], {"perm": order}), labels

    def _shape(self, i: int) -> Sequence[int]:
        return self._tensors[i].signature

    # ---- which terms are losses of odt

    def _fitting(self, terms: list[Term]) -> list[Term]:
        """Returns terms that odt can train together.

        Losses of odt are divided by samples in one way, have factors above 0, read logits, and
        take targets that nothing else reads.
        """
        readers = Counter(t.target for t in terms)
        fits = len({t.is_sum for t in terms}) <= 1 and all(
            t.loss
            and t.factor > 0
            and readers[t.target] == 1
            and not (t.general and self._ends_in_probabilities(t))
            for t in terms
        )
        return self._apart(terms if fits else [_general(self, t) for t in terms])

    def _ends_in_probabilities(self, term: Term) -> bool:
        """Whether odt would take the values that a loss reads for probabilities."""
        i = term.tensor
        while _kind(self._makers.get(i)) in SAME:
            i = self._makers[i].inputs[0]
        return term.loss in (CROSS_ENTROPY, BINARY) and _kind(self._makers.get(i)) in PROBABILITIES

    def _apart(self, terms: list[Term]) -> list[Term]:
        """Gives each term a tensor of its own."""
        seen, result = set(self.graph.inputs), list[Term]()
        for term in terms:
            tensor = term.tensor
            if tensor in seen:
                tensor = self._add("Identity", [tensor], {})
            seen.add(tensor)
            result.append(replace(term, tensor=tensor))
        return result

    def _add(self, kind: str, inputs: Sequence[int], attributes: Mapping[str, Any]) -> int:
        """Adds a node of one output; returns it."""
        y = len(self._tensors)
        self._tensors.append(Tensor("", TensorSpec((), np.dtype(np.float32))))
        opset = max((_source(n).opset for n in self.graph.nodes), default=0)
        opset = next((_source(n).opset for n in self.graph.nodes if not _source(n).domain), opset)
        source = OnnxNode("", kind, "", opset, attributes)
        node = Node(f"{PREFIX}{kind}", tuple(inputs), (y,), {"onnx": source}, len(self._nodes))
        self._nodes.append(node)
        self._makers[y] = node
        return y


def _general(graph: LossGraph, term: Term) -> Term:
    """Returns a term without a loss of odt."""
    if term.general is None:
        if term.loss:
            raise UnsupportedError(
                f"{graph.graph.name}: the loss {term.loss} must be the only term of its kind, but "
                "got others that odt computes in another way."
            )
        return term
    return replace(term.general, factor=term.factor * term.general.factor)


def _scaled(value: Sum, factor: float) -> Sum:
    constant, terms = value
    return constant * factor, [replace(t, factor=t.factor * factor) for t in terms]


def _source(node: Node | None) -> OnnxNode:
    if node is None:
        return OnnxNode("", "", "", 0, {})
    source: OnnxNode = node.options["onnx"]
    return source


def _kind(node: Node | None) -> str:
    """Returns the operator of a node; empty for none."""
    return _source(node).kind
