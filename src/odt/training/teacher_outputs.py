"""What a teacher teaches: its outputs, computed or stored, as targets of training."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, TypeAlias

import numpy as np

from odt.core.data.array_columns import array_columns
from odt.core.data.column import Column
from odt.core.data.columns import open_columns
from odt.core.data.dataset import DataSet
from odt.core.data.protocol import Data
from odt.core.data.real_inputs import RealInputs
from odt.core.data.taught_data import TaughtData
from odt.core.recipe.distillation import CATEGORICAL
from odt.core.recipe.output_losses import default_loss, ends_in_softmax
from odt.core.recipe.sample_specs import SampleSpecs
from odt.core.runtime.runtime import Runtime
from odt.core.training.inference import Predictor
from odt.core.training.trainer import Trainer
from odt.data.run_samples import Samples
from odt.errors import OptionError
from odt.kernels.geometry.quantize import Quantization
from odt.kernels.registry import LOSSES
from odt.kernels.rows.lossdef import FRACTIONS
from odt.kernels.rows.opdef import Array, TensorSpec
from odt.models.model import lowered_of
from odt.training.teacher import Teacher
from odt.training.weights import as_array

Compute: TypeAlias = Callable[[], None]
Convert: TypeAlias = Callable[[Array], None]  # of outputs (n, …), in place
FLOAT32 = np.dtype(np.float32)
SMALLEST = 1e-20  # probability
ROWS = 256  # rows of a file by which its outputs are recognized as probabilities
TOLERANCE = 1e-3  # of the sum of a row of probabilities


def taught_samples(
    teacher: Teacher,
    samples: Samples,
    specs: SampleSpecs,
    core: Trainer,
    budget: int | None,
) -> tuple[Data, Data, Compute | None]:
    """Adds a teacher's outputs to the targets of training.

    Args:
        teacher: the teacher.
        samples: samples of the run.
        specs: specs of one sample of the student.
        core: trainer of the student.
        budget: bytes that the process may use; None for no limit.

    Returns:
        All samples, the same without inputs, and a function that computes the teacher's
        outputs before they are read; None if they are stored.

    Raises:
        OptionError: if the teacher's inputs or outputs are not those of the student.
        DataError: if the file of outputs does not fit.
    """
    (loss, spec), *_ = specs.losses
    compute: Compute | None = None
    if teacher.model is None:
        column = _open_outputs(teacher.outputs, spec, samples.count)
    else:
        outputs = np.empty((samples.count, *spec.shape), spec.dtype)
        (column,) = array_columns([outputs], [spec], "the teacher's outputs")
        compute = partial(_run, teacher.model, samples.data, outputs, specs, core, budget)
    convert = _conversion(teacher, column, LOSSES[loss].targets)
    targets = len(specs.target_specs)
    return (
        TaughtData(samples.all, targets, column, convert),
        TaughtData(samples.targets, targets, column, convert),
        compute,
    )


def _conversion(teacher: Teacher, column: Column, kind: str) -> Convert:
    """Returns the function that turns outputs of the teacher into targets.

    Args:
        teacher: the teacher.
        column: its outputs.
        kind: kind of the targets of the loss.
    """
    logits = _gives_logits(teacher, column, kind)
    if kind in CATEGORICAL:
        size = column.spec.shape[-1]

        def soften(rows: Array) -> None:
            _soften(rows.reshape(-1, size, copy=False), teacher.temperature, logits)

        return soften
    return _logistic if kind == FRACTIONS and logits else _unchanged


def _open_outputs(outputs: Any, spec: TensorSpec, count: int) -> Column:
    """Opens stored outputs of `count` samples: an array or the path of a file."""
    if isinstance(outputs, str | os.PathLike):
        (column,) = open_columns(os.fspath(outputs), [spec], "teacher's output")
    else:
        rows = as_array("teacher_outputs", outputs)
        (column,) = array_columns([rows], [spec], "teacher_outputs")
    if column.length < count:
        raise OptionError(
            "teacher_outputs", f"must hold the outputs of all {count} samples", column.length
        )
    return column


def _run(
    model: Any,
    data: DataSet,
    outputs: Array,
    student: SampleSpecs,
    core: Trainer,
    budget: int | None,
) -> None:
    """Computes a teacher's outputs for all samples; within a budget, one at a time.

    Args:
        model: the teacher, or the path of its file.
        data: the student's samples.
        outputs: array (N, …) for the outputs.
        student: specs of one sample of the student.
        core: trainer of the student.
        budget: bytes that the process may use; None for no limit.

    Raises:
        OptionError: if inputs or output are not those of the student, or the budget is too small.
    """
    graphs = lowered_of(model).graphs
    limit = None if budget is None else 1  # samples and threads at once
    with Predictor(graphs, core.info.batch_size, micro_batch=limit, workers=limit) as predictor:
        teacher = predictor.runtime
        quantizations = _real_inputs(teacher, student)
        inputs = [
            (spec.size, FLOAT32 if quantization else spec.dtype)
            for spec, quantization in zip(student.input_specs, quantizations, strict=True)
        ]
        if [(s.size, s.dtype) for s in teacher.input_specs] != inputs:
            actual = _shown(teacher.input_specs)
            raise OptionError("teacher", "must have the student's inputs", actual)
        _, spec = student.losses[0]
        if [(s.size, s.dtype) for s in teacher.output_specs] != [(spec.size, spec.dtype)]:
            actual = _shown(teacher.output_specs)
            raise OptionError("teacher", f"must have one output {spec}", actual)
        constants = sum(t.spec.nbytes for t in graphs.graph.tensors if t.data is not None)
        nbytes = core.parameters.nbytes + constants + teacher.arena_nbytes
        _check_budget(budget, core.process + nbytes)
        real_data = RealInputs(data, student.input_specs, quantizations)
        first = 0
        for (rows,) in predictor.run(real_data, range(len(outputs))):
            outputs[first : first + len(rows)] = rows.reshape(len(rows), *spec.shape)
            first += len(rows)
            core.seen(first, len(outputs))


def _gives_logits(teacher: Teacher, column: Column, kind: str) -> bool:
    """Whether the outputs are logits: a model's last operator tells it, or the values of a file."""
    if teacher.model is not None:
        graph = lowered_of(teacher.model).graph
        if kind in CATEGORICAL:
            return not ends_in_softmax(graph, graph.outputs[0])
        return default_loss(graph, graph.outputs[0]) is None
    rows = np.empty((min(ROWS, column.length), column.spec.size), column.spec.dtype)
    column.read(range(len(rows)), rows)
    if rows.min() < 0 or rows.max() > 1:
        return True
    sums = rows.reshape(-1, *column.spec.shape[-1:]).sum(-1)
    return kind in CATEGORICAL and bool(np.abs(sums - 1).max() > TOLERANCE)


def _check_budget(budget: int | None, needed: int) -> None:
    """Refuses a budget of fewer bytes than the process needs with teacher and student."""
    if budget is not None and needed > budget:
        from odt.core.planning.budget.fit_budget import megabytes, rounded_down

        raise OptionError(
            "memory_budget",
            f"must be at least {megabytes(needed)} to compute the teacher's outputs",
            rounded_down(budget),
            "Give stored outputs: `teacher_outputs=`.",
        )


def _soften(rows: Array, temperature: float, logits: bool) -> None:
    """Turns logits or probabilities into probabilities at a temperature, in place."""
    if not logits:
        np.log(np.maximum(rows, SMALLEST, out=rows), out=rows)
    rows /= rows.dtype.type(temperature)
    rows -= rows.max(-1, keepdims=True)
    np.exp(rows, out=rows)
    rows /= rows.sum(-1, keepdims=True)


def _logistic(rows: Array) -> None:
    """Computes 1 / (1 + e⁻ˣ) in place, as (1 + tanh(x / 2)) / 2, which cannot overflow."""
    np.multiply(np.tanh(rows / 2, out=rows) + 1, 0.5, out=rows)


def _unchanged(rows: Array) -> None:
    """Leaves the outputs as they are."""


def _real_inputs(teacher: Runtime, student: SampleSpecs) -> list[Quantization | None]:
    """Returns the quantization of each of the student's inputs that the teacher reads as floats.

    None for the other inputs, also for those that the teacher lacks, which the caller refuses.
    """
    count = len(student.quantizations)
    dtypes = [spec.dtype for spec in teacher.input_specs[:count]]
    pairs = zip_longest(student.quantizations, dtypes)
    return [quantization if dtype == FLOAT32 else None for quantization, dtype in pairs]


def _shown(specs: Sequence[TensorSpec]) -> str:
    return ", ".join(map(str, specs))
