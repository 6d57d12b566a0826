"""What blocks add to a model: nodes, constants and inputs, by the names of tensors."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from odt.compat.ort.onnx_source import OnnxSource, proto
from odt.core.formats.onnx.writer import (
    MODEL_OPSET,
    Axes,
    Parts,
    fields,
    message,
    node,
    tensor,
    value_info,
)
from odt.core.model.graph import Graph
from odt.errors import OptionError, TrainingError

NUMBERS = ("SoftmaxCrossEntropyLoss", "Loss")  # operators whose results are numbers
PREFIX = "onnx::"  # begins the names that blocks give


class Recorder:
    """A model to which blocks add nodes; what `onnxblock.base` gives.

    Attributes:
        source: the model before; None for an empty one.
        parts: the model as it is now.
        opset: version of ONNX's operators.
    """

    def __init__(self, source: OnnxSource | None, opset: int = 0) -> None:
        self.source = source
        self.parts = Parts.from_bytes(source.data) if source else Parts([], [], {}, {}, {}, {}, [])
        self.opset = opset or (source.opset if source else 0)
        self._graph: Graph | None = source.file.graph if source else None
        self._names = {t.name for t in self._graph.tensors} if self._graph else set[str]()
        self._declared: dict[str, tuple[np.dtype[Any], Axes]] = {}
        self._ranks: dict[str, int] = {}  # of numbers and constants that blocks added
        self._count, self._domains = 0, set[str]()

    @property
    def model(self) -> Any:
        """The model as it is now: an onnx.ModelProto if onnx is imported, else its bytes."""
        return proto(b"".join(self.parts.chunks()))

    def node(
        self,
        kind: str,
        inputs: Sequence[str],
        attributes: Mapping[str, float | str | Sequence[int]] | None = None,
        *,
        domain: str = "",
        word: str = "",
    ) -> str:
        """Adds a node; returns the name of its output."""
        for name in inputs:
            self._check(name)
        output = self.name(word or f"{kind.lower()}_output")
        self.parts.nodes.append(node(kind, inputs, [output], self.name(kind), domain, attributes))
        self._names.add(output)
        rank = self._rank_of(kind, inputs, attributes or {})
        if rank is not None:
            self._ranks[output] = rank
        if domain and domain not in self._domains:
            self._domains.add(domain)
            self.parts.model.extend(fields([(MODEL_OPSET, message((1, domain), (2, 1)))]))
        return output

    def _rank_of(
        self, kind: str, inputs: Sequence[str], attributes: Mapping[str, Any]
    ) -> int | None:
        """Returns the number of axes of a result, if it follows from blocks alone."""
        if kind in ("ReduceMean", "ReduceSum"):
            return None if attributes.get("keepdims", 1) else 0
        if kind in NUMBERS:
            return 0
        ranks = [self._ranks.get(name) for name in inputs if name]
        if not ranks or None in ranks:
            return None
        return max(rank for rank in ranks if rank is not None)

    def shape_of_number(self, name: str) -> Axes | None:
        """Returns the shape of a tensor of one value that blocks made; None if it is unknown."""
        rank = self._ranks.get(name)
        return None if rank is None else (1,) * rank

    def constant(self, word: str, values: Any) -> str:
        """Adds a constant; returns its name."""
        name = self.name(word)
        self.parts.initializers[name] = tensor(name, np.asarray(values))
        self._ranks[name] = np.ndim(values)
        self._names.add(name)
        return name

    def input_like(self, name: str, like: str) -> str:
        """Adds an input with dtype and shape of an input or output of the model."""
        return self._add_input(name or self.name("input"), *self.declared(like))

    def labels_of(self, name: str, scores: str) -> str:
        """Adds an input of class numbers for an output whose last axis is the classes."""
        _, shape = self.declared(scores)
        return self._add_input(name, np.dtype(np.int64), shape[:-1])

    def _add_input(self, name: str, dtype: np.dtype[Any], shape: Axes) -> str:
        self.parts.inputs[name] = value_info(name, dtype, shape)
        self._declared[name] = dtype, shape
        self._names.add(name)
        return name

    def has(self, name: str) -> bool:
        """Whether there is a tensor of a name."""
        return name in self._names

    def declared(self, name: str) -> tuple[np.dtype[Any], Axes]:
        """Returns dtype and shape of an input or output; open axes have names.

        Raises:
            OptionError: if it is neither.
        """
        if name in self._declared:
            return self._declared[name]
        declared = self.source.declared() if self.source else {}
        if name not in declared:
            rule = "must be inputs or outputs of the model"
            raise OptionError("loss", rule, name, f"It has {', '.join(declared) or 'none'}.")
        return declared[name]

    def name(self, word: str) -> str:
        """Returns a name that no tensor has."""
        while True:
            self._count += 1
            name = f"{PREFIX}{word}::{self._count}"
            if name not in self._names:
                return name

    def _check(self, name: str) -> None:
        if name and name not in self._names:
            rule = "must combine tensors of the model"
            raise OptionError("loss", rule, repr(name), "Blocks take and return their names.")


_current: list[Recorder] = []


def current() -> Recorder:
    """Returns the recorder to which blocks add.

    Raises:
        TrainingError: if a block is called outside `onnxblock.base`.
    """
    if not _current:
        raise TrainingError(
            "onnxblock: blocks must be called inside `with onnxblock.base(model):`, but there is "
            "none. generate_artifacts opens it itself."
        )
    return _current[-1]


@contextmanager
def recording(recorder: Recorder) -> Iterator[Recorder]:
    """Makes blocks add to a recorder during a `with` block."""
    if _current:
        raise TrainingError(
            "onnxblock: one model must be open at a time, but got a second one inside the first"
        )
    _current.append(recorder)
    try:
        yield recorder
    finally:
        _current.pop()
