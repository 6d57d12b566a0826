"""Weights that several subgraphs of a file read: what changes in one changes in all.

A signature is a subgraph with tensors of its own. Converters store a weight that several signatures
read once, in a buffer that tensors of all these subgraphs name, or once for each of them. In both
cases it is one weight for its author.

Two constants are one weight if they have the same values in the file and, where several weights
have these values or all values are equal (such as biases of zeros), operators read them in the same
way: the same operator reads the same constants and results of such operators beside them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.integers.stored_values import bias_quantization, integer_biases, layer_scale
from odt.core.lowering.normalize.inline import inline
from odt.core.model.dequantize import CONVERSIONS
from odt.core.model.graph import ABSENT, Graph, Node
from odt.core.model.model import Model
from odt.core.model.quantization_rules import check_quantization, has_quantized_activations
from odt.dataclass import dataclass
from odt.errors import ModelError
from odt.kernels.geometry.quantize import Quantization, dequantize, quantize
from odt.kernels.rows.opdef import Array

ROUNDS = 12  # operators before a reader that are compared, at most
Place = tuple[int, int]  # subgraph, and tensor there
Values = tuple[Array, Quantization | None]


class _Label(NamedTuple):
    """How a tensor is computed, or a constant is read.

    Attributes:
        number: hash; equal for tensors that are computed, or read, in the same way.
        shows: whether a constant with different values is among the tensors that it is computed
            from, or read together with.
    """

    number: int
    shows: bool


@dataclass(frozen=True, slots=True)
class SharedWeights:
    """Changes in a subgraph that follow from changed weights of another one.

    Attributes:
        subgraph: number of the subgraph.
        values: place of a constant → its new values, as stored, and quantization.
        unknown: names of constants that may be a changed weight.
    """

    subgraph: int
    values: Mapping[Place, Values] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()


def shared_weights(model: Model, new: Mapping[int, Values]) -> Iterator[SharedWeights]:
    """Yields the new values in subgraphs that a model's graph does not run.

    Args:
        model: the model, with subgraphs inlined.
        new: constant → its new values, as the file stores them, and quantization.
    """
    done = {model.place(i) for i in range(len(model.graph.tensors))}
    changed = {i: _digest(values) + _scale_bytes(scales) for i, (values, scales) in new.items()}
    mine: _Readers | None = None
    for other in other_subgraphs(model):
        mine = mine or _Readers(model)
        same, unknown = _matches(mine, _Readers(other), changed)
        values = {j: _in_shape_of(other, j, new[i]) for j, i in same.items()}
        values |= dict(_biases(other, values))
        others = {other.place(j): v for j, v in values.items()}
        names = tuple(other.graph.label(j) for j in unknown if other.place(j) not in done)
        yield SharedWeights(
            other.subgraph, {p: v for p, v in others.items() if p not in done}, names
        )
        done |= others.keys()


def readers_of(model: Model, constants: Iterable[int]) -> list[str]:
    """Names the signatures of subgraphs that a model's graph does not run and that read constants.

    Args:
        model: the model, with subgraphs inlined.
        constants: constants of its graph.

    Returns:
        Names of signatures, or "of subgraph N" without one.
    """
    new: dict[int, Values] = {}
    for i in constants:
        data = model.graph.tensors[i].data
        if data is not None and data.size:  # any change finds the readers: here all bits
            other = np.bitwise_not(np.ascontiguousarray(data).reshape(-1).view(np.uint8))
            new[i] = other.view(data.dtype).reshape(data.shape), model.quantization.get(i)
    changes = [s for s in shared_weights(model, new) if s.values or s.unknown]
    return signatures_of(model, [s.subgraph for s in changes])


def signatures_of(model: Model, subgraphs: Iterable[int]) -> list[str]:
    """Names the signatures of subgraphs, or these by number."""
    keys = {s.subgraph: s.key for s in model.signatures}
    return [keys.get(k, f"of subgraph {k}") for k in subgraphs]


def has_other_subgraphs(model: Model) -> bool:
    """Whether a file has subgraphs that a model's graph does not run."""
    return next(other_subgraphs(model), None) is not None


def other_subgraphs(model: Model) -> Iterator[Model]:
    """Yields the subgraphs of a file that a model's graph does not run, as models.

    Those that break a rule of the format are left out: they stay as they are.
    """
    done = {model.subgraph, *model.bodies}
    named = dict.fromkeys(s.subgraph for s in model.signatures)
    for number in (*named, *range(model.subgraphs)):
        if number in done:
            continue
        try:
            other = parse_model(model.data, model.path, subgraph=number)
            if has_quantized_activations(other):
                check_quantization(other)
            inlined = inline(other)
        except ModelError:
            continue
        done |= {number, *other.bodies}
        yield inlined


def _in_shape_of(other: Model, j: int, new: Values) -> Values:
    """Returns new values in the shape of a constant of another subgraph."""
    values, quantization = new
    data = other.graph.tensors[j].data
    assert data is not None
    return values.reshape(data.shape), quantization


def _biases(other: Model, new: Mapping[int, Values]) -> Iterator[tuple[int, Values]]:
    """Yields biases of integers that keep their real values with new scales of the weights."""
    for x, w, b in integer_biases(other):
        quantization = new[w][1] if w in new else None
        old = other.graph.tensors[b].data
        if b in new or quantization is None or old is None or x not in other.quantization:
            continue
        before = other.quantization.get(b)
        real = dequantize(old, bias_quantization(before, layer_scale(other, x, w)))
        scale = (other.quantization[x].scale * quantization.scale).astype("<f4")
        steps = Quantization(scale, np.zeros(scale.size, np.int64), 0)
        stored = None if before is None else replace(before, scale=scale[: before.scale.size])
        yield b, (quantize(real, steps, old.dtype), stored)


class _Readers:
    """Constants of a graph by what they hold, and how operators read them.

    Attributes:
        graph: the graph.
        contents: constant → digest of its type, scales and values.
        plain: constants whose values are all the same.
        spans: constant → where its values are in memory.
    """

    def __init__(self, model: Model) -> None:
        self.graph: Graph = model.graph
        self.contents: dict[int, bytes] = {}
        self.plain: set[int] = set()
        self.spans: dict[int, tuple[int, int, str]] = {}
        digests: dict[tuple[int, int, str], bytes] = {}
        for i, tensor in enumerate(self.graph.tensors):
            if tensor.data is None or not tensor.data.size:
                continue
            span = tensor.data.ctypes.data, tensor.data.nbytes, tensor.data.dtype.str
            self.spans[i] = span
            if span not in digests:
                digests[span] = _digest(tensor.data)
            self.contents[i] = digests[span] + _scale_bytes(model.quantization.get(i))
            first = tensor.data.reshape(-1)[:1]
            if (tensor.data == first).all():
                self.plain.add(i)
        self._same = self._behind_conversions()
        self._nodes: dict[int, list[tuple[Node, list[int]]]] = {}
        for node in self.graph.nodes:
            inputs = [self._same.get(k, k) for k in node.inputs]
            if self._same.keys().isdisjoint(node.outputs):
                for k in set(inputs):
                    self._nodes.setdefault(k, []).append((node, inputs))
        self._rounds = [dict.fromkeys(self._computed(), _Label(0, False))]

    def _behind_conversions(self) -> dict[int, int]:
        """Returns output of a DEQUANTIZE or DENSIFY → the constant that it converts."""
        constants: dict[int, int] = {}
        for node in self.graph.nodes:
            if node.op in CONVERSIONS and len(node.inputs) == len(node.outputs) == 1:
                x = constants.get(node.inputs[0], node.inputs[0])
                if x in self.contents:
                    constants[node.outputs[0]] = x
        return constants

    def _computed(self) -> Iterator[int]:
        yield from self.graph.inputs
        for node in self.graph.nodes:
            yield from node.outputs

    def read(self, i: int, count: int) -> set[_Label]:
        """Returns how nodes read a constant.

        Args:
            i: the constant.
            count: operators before the reader that count.
        """
        while len(self._rounds) <= count:
            self._rounds.append(self._next(self._rounds[-1]))
        ways = set[_Label]()
        for node, inputs in self._nodes.get(i, ()):
            labels = [self._label(k, self._rounds[count]) for k in inputs]
            operands = zip(inputs, labels, strict=True)
            shows = any(label.shows for k, label in operands if k not in (i, ABSENT))
            position = inputs.index(i)
            others = tuple(label.number for k, label in enumerate(labels) if k != position)
            ways.add(_Label(hash((node.op, position, others)), shows))
        return ways

    def _label(self, i: int, computed: Mapping[int, _Label]) -> _Label:
        """Returns the label of a constant by its contents, and of other tensors from `computed`."""
        if i in self.contents:
            return _Label(hash(self.contents[i]), i not in self.plain)
        return computed.get(i, _Label(i if i == ABSENT else 0, False))

    def _next(self, before: Mapping[int, _Label]) -> dict[int, _Label]:
        """Returns labels that tell one operator more apart than those of the round before."""
        after = dict.fromkeys(self.graph.inputs, _Label(1, False))
        for node in self.graph.nodes:
            labels = [self._label(self._same.get(k, k), before) for k in node.inputs]
            numbers, shows = tuple(x.number for x in labels), any(x.shows for x in labels)
            for k, y in enumerate(node.outputs):
                after[y] = _Label(hash((node.op, k, numbers)), shows)
        return after


def _matches(
    mine: _Readers, other: _Readers, changed: Mapping[int, bytes]
) -> tuple[dict[int, int], list[int]]:
    """Finds the constants of another graph that are changed weights.

    Args:
        mine: the graph with the weights.
        other: the other graph.
        changed: weight → digest of its new values.

    Returns:
        Constant of the other graph → weight; and constants that may be one of several weights that
        change differently.
    """
    by_content: dict[bytes, list[int]] = {}
    for i, content in mine.contents.items():
        by_content.setdefault(content, []).append(i)
    contents = {mine.contents[i] for i in changed if i in mine.contents}
    same: dict[int, int] = {}
    unknown: list[int] = []
    for j, content in other.contents.items():
        if content not in contents:
            continue
        near, plain = by_content[content], j in other.plain
        weight = None if plain else _agreed(near, changed)
        # Operators further away tell more weights apart, until those left change alike.
        for count in range(ROUNDS if weight is None else 0):
            ways = {way for way in other.read(j, count) if way.shows or not plain}
            read = [i for i in near if not ways.isdisjoint(mine.read(i, count))]
            weight = _agreed(read, changed)
            if weight is not None or not (read or plain):
                break
            near = read or near
        # Equal values, such as zeros, in one place of the file, read alike: the same weight.
        if weight is None and plain and mine.spans[near[0]] == other.spans[j]:
            ways = other.read(j, ROUNDS - 1)
            weight = _agreed([i for i in near if ways & mine.read(i, ROUNDS - 1)], changed)
        if weight is None and not plain:
            unknown.append(j)
        if weight is not None and weight in changed:
            same[j] = weight
    return same, unknown


def _agreed(weights: list[int], changed: Mapping[int, bytes]) -> int | None:
    """Returns one of some weights if all get the same values; None if they do not, or for none."""
    return weights[0] if len({changed.get(i) for i in weights}) == 1 else None


def _scale_bytes(scales: Quantization | None) -> bytes:
    return b"" if scales is None else scales.scale.tobytes() + scales.zero_point.tobytes()


def _digest(values: Array) -> bytes:
    """Returns a digest of the type and the bytes of values."""
    digest = blake2b(values.dtype.str.encode(), digest_size=16)
    digest.update(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
    return digest.digest()
