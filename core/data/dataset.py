"""Data sets for training: columns of inputs and targets, checks of values, sample orders."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from odt.core.data.column import Column
from odt.core.data.protocol import SampleOrder, Scales, Weights
from odt.core.data.sample_weights import check_weights
from odt.dataclass import dataclass
from odt.errors import DataError
from odt.kernels.registry import LOSSES
from odt.kernels.rows.lossdef import (
    DISTRIBUTIONS,
    FRACTIONS,
    IGNORED,
    LABELS,
    Check,
    LabelCheck,
    check_finite,
)
from odt.kernels.rows.opdef import Array, TensorSpec


def target_check(loss: str, output: TensorSpec) -> Check:
    """Returns the check of targets for a loss.

    Args:
        loss: name of the loss.
        output: spec of the model's output, whose last axis is the classes.
    """
    return LOSSES[loss].check(output)


def _counted(column: Column, check: Check) -> Array | None:
    """Returns the fraction of the labels of each sample that are not ignored; None if none is."""
    if not isinstance(check, LabelCheck) or not check.ignores:
        return None
    counts: Array | None = None
    for at, rows in column.blocks():
        if rows.size and rows.min() < 0:
            if counts is None:
                counts = np.ones(column.length)
            counts[at : at + len(rows)] = np.mean(rows >= 0, axis=1)
    return counts


class DataSet:
    """Inputs and targets of the same samples.

    Attributes:
        length: number of samples.
        weights: weights of samples and positions, and ignored labels; None for 1 and no such label.
        sample_weights, position_weights: the weights.
        columns: inputs, targets and weights of positions.
        checks: checks of values, one for each column.
        notes: warnings about the files for the user.

    Args:
        inputs: one column for each model input.
        targets: one column for each loss; none for prediction.
        checks: one check of values for each column of targets.
        weights: weight of each sample; None for 1.
        position_weights: one column for each target, of the weights of its positions; empty for 1.

    Raises:
        DataError: if the columns differ in length, or hold no samples.
    """

    def __init__(
        self,
        inputs: Sequence[Column],
        targets: Sequence[Column] = (),
        checks: Sequence[Check] = (),
        weights: Array | None = None,
        position_weights: Sequence[Column] = (),
    ) -> None:
        self.inputs = tuple(inputs)
        self.targets = tuple(targets)
        self.position_weights = tuple(position_weights)
        self.sample_weights = weights
        self.columns = columns = self.inputs + self.targets + self.position_weights
        self._target_checks = tuple(checks) or (check_finite,) * len(self.targets)
        self.checks = (
            (check_finite,) * len(self.inputs)
            + self._target_checks
            + (check_weights,) * len(self.position_weights)
        )
        if len({c.length for c in columns}) != 1:
            actual = ", ".join(f"{c.name}: {c.length} of {c.spec}" for c in columns)
            raise DataError(
                f"all arrays and files must hold the same number of samples, but got {actual}."
            )
        self.length = columns[0].length
        if not self.length:
            raise DataError(f"{columns[0].name}: must hold samples, but holds none.")
        self.weights = self._find_weights()
        self.notes = tuple(note for c in columns for note in c.notes)

    def _find_weights(self) -> Weights | None:
        pairs = zip(self.targets, self._target_checks, strict=True)
        counted = tuple(_counted(column, check) for column, check in pairs)
        if all(counts is None for counts in counted):
            counted = ()
        scales = Scales.SAMPLES if self.sample_weights is not None else Scales.BATCH
        if self.position_weights:
            scales = Scales.POSITIONS
        return Weights(self.sample_weights, scales, counted) if scales or counted else None

    def read(
        self, samples: Sequence[int], inputs: Sequence[Array], targets: Sequence[Array]
    ) -> None:
        """Reads samples into the arrays, one row each, and checks their values.

        Args:
            samples: numbers of the samples.
            inputs: an array for each input.
            targets: an array for each target, and for the weights of its positions if there are
                any; empty to read none.

        Raises:
            DataError: for a value that no loss can use, with file and sample.
        """
        columns = zip(self.columns, self.checks, strict=True)
        # There are fewer arrays if targets are not read.
        for (column, check), out in zip(columns, (*inputs, *targets), strict=False):
            column.read(samples, out)
            problem = check(out.reshape(len(out), -1, copy=False))
            if problem is not None:
                row, rule = problem
                raise DataError(f"{column.name}: sample {int(samples[row])}: {rule}.")

    def labels(self, losses: Sequence[tuple[str, TensorSpec]]) -> Array | None:
        """Returns the class of each sample; None if the targets are not classes of whole samples.

        Args:
            losses: name of each loss, and the spec of one sample of its output.
        """
        result = np.empty(self.length, np.int64)
        for at, labels in self._label_blocks(losses):
            if labels is None:
                return None
            result[at : at + len(labels)] = labels
        return result

    def only_class(self, losses: Sequence[tuple[str, TensorSpec]]) -> int | None:
        """Returns the class of all samples; None for several classes, or other targets.

        Args:
            losses: name of each loss, and the spec of one sample of its output.
        """
        first: int | None = None
        for _, block in self._label_blocks(losses):
            if block is None:
                return None
            labels = block[block != IGNORED]
            if not labels.size:
                continue
            if first is None:
                first = int(labels[0])
            if (labels != first).any():  # np.unique would load numpy.ma
                return None
        return first

    def _label_blocks(
        self, losses: Sequence[tuple[str, TensorSpec]]
    ) -> Iterator[tuple[int, Array | None]]:
        """Yields blocks of samples: number of the first, and classes; None for other targets."""
        kind = LOSSES[losses[0][0]].targets
        if len(losses) != 1 or kind not in (LABELS, DISTRIBUTIONS, FRACTIONS):
            yield 0, None
            return
        (column,) = self.targets
        classes = column.spec.size
        has_one_label = kind == DISTRIBUTIONS or classes == 1
        if not has_one_label or column.spec.shape[-1:] not in ((), (classes,)):
            yield 0, None
            return
        for at, rows in column.blocks():
            if kind == FRACTIONS and not np.isin(rows, (0, 1)).all():
                yield at, None
                return
            yield at, rows.argmax(1) if kind == DISTRIBUTIONS else rows[:, 0]

    def without_ignored(self) -> "DataSet":
        """Returns the data set with labels that must all be classes."""
        checks = [
            replace(check, ignores=False) if isinstance(check, LabelCheck) else check
            for check in self._target_checks
        ]
        weights = self.sample_weights, self.position_weights
        return DataSet(self.inputs, self.targets, checks, *weights)

    def without_inputs(self) -> "DataSet":
        """Returns the data set with its targets only."""
        columns, checks = self.targets, self._target_checks
        return DataSet((), columns, checks, self.sample_weights, self.position_weights)

    def with_weights(
        self, weights: Array | None, position_weights: Sequence[Column] = ()
    ) -> "DataSet":
        """Returns the data set with a weight for each sample, or for the positions of targets.

        Args:
            weights: weight of each sample; None for 1.
            position_weights: as for a new data set.
        """
        return DataSet(self.inputs, self.targets, self._target_checks, weights, position_weights)

    def with_arrays(self, arrays: Sequence[Array]) -> "DataSet":
        """Returns a data set with other arrays, of the same dtypes and sample shapes, unweighted.

        Args:
            arrays: those of the inputs, then those of the targets.
        """
        pairs = zip(self.inputs + self.targets, arrays, strict=True)
        columns = [column.with_rows(a) for column, a in pairs]
        inputs, targets = columns[: len(self.inputs)], columns[len(self.inputs) :]
        return DataSet(inputs, targets, self._target_checks)

    def mapped_nbytes(self, *, in_order: bool) -> int:
        """Returns the bytes of the files that are mapped at a time.

        Args:
            in_order: whether samples are read in the order of the file.
        """
        return sum(
            min(column.rows.nbytes, column.pages.mapped_nbytes(in_order=in_order))
            for column in self.columns
            if column.file is not None and column.pages is not None
        )

    def limit_mapped(self, nbytes: int) -> None:
        """Limits the bytes of each file that are mapped at a time."""
        for column in self.columns:
            if column.pages is not None:
                column.pages.max_mapped = nbytes

    def check_all(self) -> None:
        """Checks the values of all samples.

        Raises:
            DataError: if a file has values that no loss can use; names the first such sample.
        """
        problems = []
        for column, check in zip(self.columns, self.checks, strict=True):
            for at, rows in column.blocks():
                problem = check(rows)
                if problem is not None:
                    row, rule = problem
                    problems.append(f"{column.name}: sample {at + row}: {rule}")
                    break
        if problems:
            raise DataError("; ".join(problems) + ".")


@dataclass(frozen=True, slots=True)
class EpochOrder:
    """The order of samples in each epoch: a function of seed and epoch, so training can resume.

    Attributes:
        samples: numbers of the samples of an epoch.
        shuffle: whether each epoch has its own random order instead of the file's order.
        seed: seed of the random order, 0 or more.
        drop_last: whether to leave out a last batch that is not full, as onert_train does.
    """

    samples: SampleOrder
    shuffle: bool = False
    seed: int = 0
    drop_last: bool = True

    def steps(self, batch: int) -> int:
        """Number of steps of an epoch with `batch` samples each."""
        whole, rest = divmod(len(self.samples), batch)
        return whole + (rest > 0 and not self.drop_last)

    def order(self, epoch: int) -> SampleOrder:
        """Numbers of the samples of an epoch, in order."""
        if not self.shuffle:
            return self.samples
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.samples))
        if isinstance(self.samples, range):
            order += self.samples.start
        else:
            order = np.asarray(self.samples)[order]
        return order  # type: ignore[return-value]  # an array is read like a Sequence
