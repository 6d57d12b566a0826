"""Comparison of two model files: their contents, and their outputs on the same data."""

import difflib
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from odt.arguments import checked_arguments
from odt.core.formats.flatbuffer.training_info_buffer import stored_training_info
from odt.core.model.graph import Graph
from odt.core.model.model import Model as File
from odt.core.recipe.lowered_model import lower_model
from odt.core.training.inference import Predictor
from odt.core.training.passes import Seen
from odt.data.sources import samples_of
from odt.dataclass import dataclass
from odt.errors import OdtError
from odt.habits import known_arguments
from odt.kernels.rows.opdef import Array, TensorSpec
from odt.models.model import Model, Path, computed_of, file_of
from odt.text import Printed, table


@dataclass(frozen=True, slots=True)
class Change:
    """How a constant differs between two models.

    Attributes:
        node: position and operator of the first node that reads it; empty if none does.
        tensor: its label in the first model.
        spec: shape and dtype.
        values: number of values that differ; all if the shapes differ.
        size: number of all values.
        largest: largest absolute difference; NaN if the shapes differ.
        relative: norm of the difference, as a fraction of the norm of the first model's finite
            values; infinite if that is 0, NaN if the shapes differ.
    """

    node: str
    tensor: str
    spec: str
    values: int
    size: int
    largest: float
    relative: float


@dataclass(frozen=True, slots=True)
class Difference:
    """How two model files differ.

    Attributes:
        operators: lines that only one of the models has, beginning with - or +; empty if both
            have the same operators.
        changes: constants that differ, in the order of the first model; empty if the operators
            differ.
        equal: number of equal constants.
        parts: other parts that differ: inputs and outputs, signatures, metadata, training info.
    """

    operators: tuple[str, ...]
    changes: tuple[Change, ...]
    equal: int
    parts: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Whether there is no difference."""
        return not (self.operators or self.changes or self.parts)


@checked_arguments
def compare_models(first: Model | Path, second: Model | Path) -> Difference:
    """Compares the contents of two model files; weights as float32.

    Args:
        first: a model or the path of its file.
        second: another model or the path of its file.

    Raises:
        ModelError: if a model cannot be read.
    """
    files = file_of(first), file_of(second)
    a, b = (lower_model(file, outputs="file").graph for file in files)
    operators = tuple(
        line
        for line in difflib.unified_diff(_operators(a), _operators(b), n=0, lineterm="")
        if not line.startswith(("---", "+++", "@@"))
    )
    changes = []
    if not operators:
        changes = [_change(a, i, b, j) for i, j in _constants(a, b)]
    return Difference(
        operators=operators,
        changes=tuple(change for change in changes if change is not None),
        equal=changes.count(None),
        parts=tuple(_parts(*files)),
    )


def _operators(graph: Graph) -> list[str]:
    """Describes each node in a line: position, operator, and shapes of its operands."""

    def specs(tensors: Sequence[int]) -> str:
        return ", ".join(str(graph.tensors[i].spec) for i in tensors if i >= 0)

    return [f"{n.origin} {n.op} {specs(n.inputs)} -> {specs(n.outputs)}" for n in graph.nodes]


def _constants(a: Graph, b: Graph) -> Iterator[tuple[int, int]]:
    """Yields pairs of constants of two graphs with the same operators, each pair once."""
    pairs: dict[tuple[int, int], None] = {}  # a set in the order of the nodes
    for one, other in zip(a.nodes, b.nodes, strict=True):
        # Nodes of one operator may differ in the number of optional inputs.
        for i, j in zip(one.inputs, other.inputs, strict=False):
            if i >= 0 and j >= 0 and a.tensors[i].data is not None:
                pairs[i, j] = None
    yield from pairs


def _change(a: Graph, i: int, b: Graph, j: int) -> Change | None:
    """Returns how tensor i of graph a differs from tensor j of graph b; None if it does not."""
    old, new = a.tensors[i].real, b.tensors[j].real
    if old is None:
        return None
    if new is not None and np.array_equal(old, new, equal_nan=old.dtype.kind == "f"):
        return None
    reader = next(node for node in a.nodes if i in node.inputs)
    change = Change(
        node=f"{reader.origin} {reader.op}",
        tensor=a.label(i),
        spec=str(a.tensors[i].spec),
        values=old.size,
        size=old.size,
        largest=math.nan,
        relative=math.nan,
    )
    if new is None or old.shape != new.shape:
        return change
    before, after = old.astype(np.float64), new.astype(np.float64)
    is_same = (old == new) | (np.isnan(before) & np.isnan(after))
    difference = np.subtract(after, before, out=np.zeros(before.shape), where=~is_same)
    norm = float(np.linalg.norm(before[np.isfinite(before)]))
    return replace(
        change,
        values=int(np.count_nonzero(~is_same)),
        largest=float(np.abs(difference).max(initial=0)),
        relative=float(np.linalg.norm(difference)) / norm if norm else math.inf,
    )


def _parts(first: File, second: File) -> Iterator[str]:
    """Names the parts outside the graph that differ."""
    if first.format != second.format:
        yield f"format: {first.format}, {second.format}"
    a, b = first.graph, second.graph
    if _names_and_specs(a, a.inputs) != _names_and_specs(b, b.inputs):
        yield "names or shapes of inputs"
    if _names_and_specs(a, a.outputs) != _names_and_specs(b, b.outputs):
        yield "names or shapes of outputs"
    if first.signatures != second.signatures:
        yield "signatures"
    for name in sorted(first.metadata.keys() | second.metadata.keys()):
        buffers = [
            bytes(model.buffer(model.metadata[name])) if name in model.metadata else None
            for model in (first, second)
        ]
        if buffers[0] != buffers[1]:
            yield f"metadata {name}"
    if stored_training_info(first) != stored_training_info(second):
        yield "training info"


def _names_and_specs(graph: Graph, tensors: Sequence[int]) -> list[tuple[str, TensorSpec]]:
    return [(graph.tensors[i].name, graph.tensors[i].spec) for i in tensors]


@dataclass(frozen=True, slots=True)
class Agreement(Printed):
    """Agreement of one output of two models on the same samples.

    Attributes:
        largest: largest absolute difference of a value; NaN if one of them is NaN.
        span: largest minus smallest value of the first model's output.
        sample: number of the sample with the largest difference.
        top: fraction of samples whose largest value is at the same position; None for an output
            with a single value.
        samples: number of samples.
    """

    largest: float
    span: float
    sample: int
    top: float | None
    samples: int

    @property
    def relative(self) -> float:
        """The largest difference as a fraction of the span."""
        return self.largest / self.span if self.span else self.largest

    def __str__(self) -> str:
        """Returns the text of `odt verify` for an output."""
        top = "" if self.top is None else f"; same largest output in {self.top:.2%}"
        return (
            f"largest difference {self.largest:.3g}, {self.relative:.3g} of the range "
            f"{self.span:.3g}, in sample {self.sample} of {self.samples}{top}"
        )


@known_arguments()
@checked_arguments
def compare_outputs(
    first: Model | Path,
    second: Model | Path,
    x: Any,
    *,
    batch_size: int = 32,
    micro_batch: int | None = None,
    workers: int | None = None,
    progress: Seen | None = None,
) -> tuple[Agreement, ...]:
    """Compares the outputs of two models on the same samples, as `odt verify` does.

    Args:
        first: a model or the path of its file.
        second: another model or the path of its file, with inputs and outputs of the same shapes.
        x: inputs (N, …), as in `Trainer.fit`.
        batch_size: samples of a batch.
        micro_batch: samples that a worker computes at once; chosen by odt if left out.
        workers: number of worker threads; chosen by odt if left out.
        progress: called after each batch with the number of samples computed so far and the number
            of all samples.

    Returns:
        An Agreement for each output.

    Raises:
        DataError: if the inputs do not fit a model.
        ModelError: if a model cannot be read.
        OdtError: if the outputs have different shapes.
        OptionError: if a number of samples or workers is invalid.
        UnsupportedError: if odt cannot compute an operator.
    """
    files = [file_of(model) for model in (first, second)]
    graphs = [
        computed_of(model if isinstance(model, Model) else Model(file)).graphs
        for model, file in zip((first, second), files, strict=True)
    ]
    options = {"micro_batch": micro_batch, "workers": workers}
    with (
        Predictor(graphs[0], batch_size, **options) as one,
        Predictor(graphs[1], batch_size, **options) as other,
    ):
        data, others = (samples_of(x, None, predictor.runtime) for predictor in (one, other))
        shapes = [[s.shape for s in p.runtime.output_specs] for p in (one, other)]
        if shapes[0] != shapes[1]:
            raise OdtError(
                f"{files[1].path}: must have outputs of the shapes of {files[0].path}, "
                f"{shapes[0]}, but got {shapes[1]}."
            )
        totals = [_AgreementTotals() for _ in shapes[0]]
        order = range(data.length)
        first_sample = 0
        runs = zip(one.run(data, order), other.run(others, order), strict=True)
        for outputs, other_outputs in runs:
            for total, a, b in zip(totals, outputs, other_outputs, strict=True):
                total.add(first_sample, a, b)
            first_sample += len(outputs[0])
            if progress is not None:
                progress(first_sample, data.length)
        return tuple(total.result(data.length) for total in totals)


class _AgreementTotals:
    """Accumulates an Agreement batch by batch."""

    def __init__(self) -> None:
        self._largest = -1.0  # below any difference
        self._sample = 0  # with the largest difference
        self._least, self._most = math.inf, -math.inf
        self._size = 0  # values of a sample
        self._same = 0  # samples whose largest value is at the same position

    def add(self, first: int, a: Array, b: Array) -> None:
        """Adds the outputs (n, …) of both models for the samples from number `first` on."""
        rows, others = (x.reshape(len(x), -1).astype(np.float64) for x in (a, b))
        differences = np.abs(rows - others).max(axis=1)
        worst = int(np.argmax(differences))  # the first NaN, if there is one
        difference = float(differences[worst])
        # NaN is above all numbers.
        if difference > self._largest or math.isnan(difference) > math.isnan(self._largest):
            self._largest = difference
            self._sample = first + worst
        self._least = min(self._least, float(rows.min()))
        self._most = max(self._most, float(rows.max()))
        self._size = rows.shape[1]
        self._same += int(np.count_nonzero(rows.argmax(axis=1) == others.argmax(axis=1)))

    def result(self, length: int) -> Agreement:
        """Returns the agreement over all samples, `length` of them."""
        return Agreement(
            largest=self._largest,
            span=self._most - self._least,
            sample=self._sample,
            top=self._same / length if self._size > 1 else None,
            samples=length,
        )


def describe_difference(difference: Difference, names: Sequence[str]) -> list[str]:
    """Returns the lines of the differences between two model files.

    Args:
        difference: the difference.
        names: paths of the two models.
    """
    if difference.is_empty:
        return [f"{names[0]} and {names[1]}: no difference in {difference.equal} constants"]
    lines = [f"{names[0]} and {names[1]}: different {part}" for part in difference.parts]
    if difference.operators:
        return [*lines, f"different operators (- {names[0]}, + {names[1]})", *difference.operators]
    total = difference.equal + len(difference.changes)
    lines.append(f"same operators; {len(difference.changes)} of {total} constants differ")
    if not difference.changes:
        return lines
    rows = [("OPERATOR", "TENSOR", "SHAPE", "VALUES", "LARGEST", "RELATIVE")]
    rows += [
        (
            change.node,
            change.tensor,
            change.spec,
            f"{change.values:,} of {change.size:,}",
            f"{change.largest:.3g}",
            "from 0" if math.isinf(change.relative) else f"{change.relative:.2%}",
        )
        for change in difference.changes
    ]
    return [*lines, *table(rows, right=(3, 4, 5))]
