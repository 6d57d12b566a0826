"""Data sets for training: columns of inputs and targets, checks of values, splits, orders."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from odt.core.data.columns import Column
from odt.errors import DataError
from odt.kernels.opdef import Array, TensorSpec

# Rows of values → the first row that no loss can use and what is wrong with it, or None.
Check: TypeAlias = Callable[[Array], tuple[int, str] | None]

SUM_TOLERANCE = 1e-3  # of a distribution; float16 files keep one to about 5e-4
ROWS = 1024  # looked at together, so that a check's scratch does not grow with the batch
CHECK_BYTES = 1 << 20


def check_finite(rows: Array) -> tuple[int, str] | None:
    """Checks that values are finite."""
    if rows.dtype.kind != "f" or not rows.size or _finite(rows):
        return None
    for k, row in enumerate(rows):
        if not _finite(row):
            bad = float(row[np.argmin(np.isfinite(row))])
            return k, f"values must be finite, but got {bad}"
    raise AssertionError("no row is at fault")


def _finite(rows: Array) -> bool:
    return math.isfinite(rows.min()) and math.isfinite(rows.max())


def check_distributions(classes: int) -> Check:
    """Checks rows of probabilities: each run of `classes` values must add up to 1."""

    def check(rows: Array) -> tuple[int, str] | None:
        problem = check_finite(rows)
        if problem is not None:
            return problem
        each = rows.reshape(-1, classes, copy=False)
        for at in range(0, len(each), ROWS):
            block = each[at : at + ROWS]
            sums = block.sum(axis=1)
            if block.min() >= 0 and abs(sums - 1).max() <= SUM_TOLERANCE:
                continue
            bad = (block.min(axis=1) < 0) | (abs(sums - 1) > SUM_TOLERANCE)
            k = int(np.argmax(bad))
            row = (at + k) * classes // rows.shape[1]
            least = float(block[k].min())
            got = f"a value {least:g}" if least < 0 else f"the sum {float(sums[k]):g}"
            return row, (
                f"a target of categorical cross-entropy must be {classes} values ≥ 0 that add up "
                f"to 1, but got {got}"
            )
        return None

    return check


def check_unit_interval(rows: Array) -> tuple[int, str] | None:
    """Checks that values are in 0 … 1."""
    problem = check_finite(rows)
    if problem is not None or not rows.size or (rows.min() >= 0 and rows.max() <= 1):
        return problem
    bad = (rows < 0) | (rows > 1)
    k = int(np.argmax(bad.any(axis=1)))
    got = float(rows[k][np.argmax(bad[k])])
    return k, f"targets of binary cross-entropy must be 0 … 1, but got {got:g}"


def check_labels(classes: int) -> Check:
    """Checks class numbers: 0 to classes − 1."""

    def check(rows: Array) -> tuple[int, str] | None:
        if not rows.size or (rows.min() >= 0 and rows.max() < classes):
            return None
        for k, row in enumerate(rows):
            for label in (row.min(), row.max()):
                if not 0 <= label < classes:
                    return k, f"labels must be 0 … {classes - 1}, but got {label}"
        raise AssertionError("no label is at fault")

    return check


def target_check(loss: str, output: TensorSpec) -> Check:
    """The check of targets for a loss.

    Args:
        loss: name of the loss.
        output: spec of the model's output, whose last axis counts classes.
    """
    classes = output.shape[-1] if output.shape else 1
    if loss == "categorical_crossentropy":
        return check_distributions(classes)
    if loss == "sparse_categorical_crossentropy":
        return check_labels(classes)
    if loss == "binary_crossentropy":
        return check_unit_interval
    return check_finite


class DataSet:
    """Inputs and targets of the same samples.

    Attributes:
        length: number of samples.
        notes: warnings about the files for the user.

    Args:
        inputs: one column for each model input.
        targets: one column for each loss; none for prediction.
        checks: one check of values for each column of targets.

    Raises:
        DataError: if the columns differ in length.
    """

    def __init__(
        self,
        inputs: Sequence[Column],
        targets: Sequence[Column] = (),
        checks: Sequence[Check] = (),
    ) -> None:
        self.inputs = tuple(inputs)
        self.targets = tuple(targets)
        self._checks = (check_finite,) * len(self.inputs) + (
            tuple(checks) or (check_finite,) * len(self.targets)
        )
        columns = self.inputs + self.targets
        lengths = sorted({c.length for c in columns})
        if len(lengths) != 1:
            got = ", ".join(f"{c.name}: {c.length}" for c in columns)
            raise DataError(f"all files must hold the same number of samples, but got {got}.")
        self.length = lengths[0]
        self.notes = tuple(note for c in columns for note in c.notes)

    def read(
        self, samples: Sequence[int], inputs: Sequence[Array], targets: Sequence[Array]
    ) -> None:
        """Reads samples into the arrays, one row each, and checks their values.

        Raises:
            DataError: for a value that no loss can use, with file and sample.
        """
        columns = zip(self.inputs + self.targets, self._checks, strict=True)
        for (column, check), out in zip(columns, (*inputs, *targets), strict=False):
            column.read(samples, out)
            problem = check(out.reshape(len(out), -1, copy=False))
            if problem is not None:
                row, rule = problem
                raise DataError(f"{column.name}: sample {int(samples[row])}: {rule}.")

    def without_inputs(self) -> "DataSet":
        """The data set with its targets alone."""
        return DataSet((), self.targets, self._checks[len(self.inputs) :])

    def limit_mapped(self, nbytes: int) -> None:
        """Limits the bytes of each file that are mapped at a time."""
        for column in self.inputs + self.targets:
            if column.pages is not None:
                column.pages.max_mapped = nbytes

    def check_all(self) -> None:
        """Checks the values of all samples.

        Raises:
            DataError: if a file has values that no loss can use, with its first such sample.
        """
        problems = []
        for column, check in zip(self.inputs + self.targets, self._checks, strict=True):
            block = max(1, CHECK_BYTES // max(1, column.spec.nbytes))
            out = np.empty((min(block, self.length), column.spec.size), column.spec.dtype)
            for at in range(0, self.length, block):
                part = out[: min(block, self.length - at)]
                column.read(slice(at, at + len(part)), part)
                problem = check(part)
                if problem is not None:
                    problems.append(f"{column.name}: sample {at + problem[0]}: {problem[1]}")
                    break
        if problems:
            raise DataError("; ".join(problems) + ".")


@dataclass(frozen=True, slots=True)
class Split:
    """Samples for training and for validation, which are the last ones of the file."""

    training: range
    validation: range


def split(length: int, validation_split: float) -> Split:
    """Splits samples as onert_train does, in float32: 1,000 samples at 0.2 give 800 and 199.

    Raises:
        DataError: if `validation_split` is not within 0 … 1.
    """
    if not 0 <= validation_split <= 1:
        raise DataError(f"--validation-split: must be 0 … 1, but got {validation_split}.")
    one, total = np.float32(1), np.float32(length)
    border = one - np.float32(validation_split)
    start = int(total * border)
    return Split(range(start), range(start, start + int(total * (one - border))))


@dataclass(frozen=True, slots=True)
class EpochOrder:
    """The order of samples in each epoch, a function of seed and epoch so that it can be resumed.

    Attributes:
        samples: samples of an epoch.
        shuffle: whether each epoch has its own random order; else the order of the file.
        seed: seed of the random order, 0 or more.
    """

    samples: range
    shuffle: bool = False
    seed: int = 0

    def order(self, epoch: int) -> Sequence[int]:
        """Numbers of the samples of an epoch, in order."""
        if not self.shuffle:
            return self.samples
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.samples))
        order += self.samples.start
        return order  # type: ignore[return-value]  # an array does what is asked of a Sequence
