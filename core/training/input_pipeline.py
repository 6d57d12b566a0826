"""Prepares augmented batches in a separate thread while the previous step runs.

A sample's augmentation is a function of seed, epoch and sample. Results therefore depend neither on
the batch size nor on the workers, and training that resumes within an epoch computes the same bits.
"""

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from odt.core.data.augmentations.augmentation import Augmentation, statistics
from odt.core.data.augmentations.general import Mixup
from odt.core.data.augmentations.random import SampleRandom
from odt.core.data.protocol import BoxedData, Data, SampleOrder, Weights
from odt.core.storage.closing import Closing
from odt.errors import OptionError
from odt.kernels.rows.opdef import Array, TensorSpec

if TYPE_CHECKING:
    from concurrent.futures import Future

MIXING = 1  # first of the streams of random numbers for mixup; 0 is for single samples
AHEAD = 2  # batches that are prepared while one is read


class InputPipeline(Closing):
    """Training data of successive epochs, read by position in the epoch's order.

    Attributes:
        waited: seconds in which steps waited for a batch.
        weights: weights of the samples, by position in the order of the epoch that was begun last,
            not by sample number; None for none.

    Args:
        data: source of the samples.
        samples: numbers of all training samples.
        inputs, targets: specs of one sample of each input and target; with weights of positions,
            also of these.
        shapes: further shapes of a sample of each input, such as that in the data, which say more
            than a flat one.
        batch: number of samples in a batch.
        augmentations: changes of a sample, in order; those of mixup come last.
        seed: seed of the random numbers.

    Raises:
        OptionError: if an augmentation does not fit the data.
    """

    def __init__(
        self,
        data: Data,
        samples: SampleOrder,
        inputs: Sequence[TensorSpec],
        targets: Sequence[TensorSpec],
        shapes: Sequence[Sequence[Sequence[int]]],
        batch: int,
        augmentations: Sequence[Augmentation],
        seed: int,
    ) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self.waited = 0.0
        self.weights: Weights | None = None
        self._data, self._samples, self._batch = data, samples, batch
        self._random = SampleRandom(seed)
        self._changes = [a for a in augmentations if not isinstance(a, Mixup)]
        self._boxed = data if isinstance(data, BoxedData) else None
        if self._boxed is not None:
            _check_boxes(augmentations)
        self._boxes = None if self._boxed is None else self._boxed.boxes_like(batch)
        self._mixups = [a for a in augmentations if isinstance(a, Mixup)]
        squeezed = [_without_ones(*s, i.shape) for s, i in zip(shapes, inputs, strict=True)]
        self._index = _input_for(augmentations, squeezed)
        self._shape = squeezed[self._index]
        if self._mixups:
            _check_floats((*inputs, *targets))
        self._facts = statistics(data, samples, inputs, self._index, self._shape)
        specs = (*inputs, *targets)
        self._inputs = len(inputs)
        self._slots = [_allocate(specs, batch) for _ in range(AHEAD + 1)]
        self._other = _allocate(specs, batch) if self._mixups else []
        self._scratch = np.empty(self._shape, np.float32)
        self._pool = ThreadPoolExecutor(1, "odt-augment")
        self._lock = threading.Lock()
        self._order: SampleOrder = ()
        self._epoch = 0
        self._current = -1  # the batch that is read; -1 before the first
        self._end = 0  # of the samples that are read in the epoch
        self._pending: deque[Future[None]] = deque()

    def epoch(self, number: int, order: SampleOrder, first: int, end: int) -> "InputPipeline":
        """Begins an epoch: positions `first` to `end` of the order are read next, in batches."""
        for future in self._pending:  # left over from an epoch that was stopped
            future.exception()
        self._pending.clear()
        self.weights = weights = self._data.weights
        if weights is not None:
            numbers = np.asarray(order)
            self.weights = replace(
                weights,
                samples=None if weights.samples is None else weights.samples[numbers],
                counted=tuple(a if a is None else a[numbers] for a in weights.counted),
            )
        self._order, self._epoch, self._end = order, number, end
        self._current = -1
        first_batch = first // self._batch
        for k in range(first_batch, first_batch + AHEAD):
            self._prepare(k)
        return self

    def read(self, samples: SampleOrder, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        """Copies prepared samples into the arrays; `samples` are positions within one batch.

        Raises:
            DataError: for values that no loss can use.
        """
        number, row = divmod(samples[0], self._batch)
        with self._lock:
            if number != self._current:
                self._advance(number)
        slot = self._slots[number % len(self._slots)]
        for out, prepared in zip((*inputs, *targets), slot, strict=True):
            np.copyto(out, prepared[row : row + len(samples)].reshape(out.shape, copy=False))

    def _advance(self, number: int) -> None:
        """Waits for a batch, and begins to prepare another one in the memory of the one before."""
        start = time.perf_counter()
        self._pending.popleft().result()
        self.waited += time.perf_counter() - start
        self._current = number
        self._prepare(number + AHEAD)

    def _prepare(self, number: int) -> None:
        """Begins to prepare a batch of the epoch, unless the epoch ends before."""
        first = number * self._batch
        if first < self._end:
            numbers = np.asarray(self._order[first : min(first + self._batch, self._end)])
            slot = self._slots[number % len(self._slots)]
            self._pending.append(self._pool.submit(self._fill, slot, numbers))

    def _fill(self, slot: Sequence[Array], numbers: Array) -> None:
        """Reads, augments and mixes samples."""
        self._augment(slot, numbers)
        for k, mixup in enumerate(self._mixups):
            draws = [
                mixup.draw(self._random.at(self._epoch, n, MIXING + k), len(self._samples))
                for n in numbers.tolist()
            ]
            other = self._other
            self._augment(other, np.asarray(self._samples)[[position for _, position in draws]])
            for row, (share, _) in enumerate(draws):
                for a, b in zip(slot, other, strict=True):
                    a[row] *= share
                    b[row] *= 1 - share
                    a[row] += b[row]

    def _augment(self, slot: Sequence[Array], numbers: Array) -> None:
        rows = [a[: len(numbers)] for a in slot]
        inputs, targets = rows[: self._inputs], rows[self._inputs :]
        if self._boxed is None or self._boxes is None:
            self._data.read(numbers, inputs, targets)  # type: ignore[arg-type]
            for row, number in zip(inputs[self._index], numbers.tolist(), strict=True):
                self._change(row.reshape(self._shape, copy=False), number)
            return
        boxes = self._boxes[: len(numbers)]
        self._boxed.read_boxes(numbers, inputs, boxes)  # type: ignore[arg-type]
        for row, number, inside in zip(inputs[self._index], numbers.tolist(), boxes, strict=True):
            self._change(row.reshape(self._shape, copy=False), number, inside)
        self._boxed.encode(boxes, targets)

    def _change(self, x: Array, number: int, boxes: Array | None = None) -> None:
        """Augments a sample in place, and the boxes in it; integers by way of float32."""
        random = self._random.at(self._epoch, number)
        if x.dtype == np.float32:
            self._apply(x, random, boxes)
            return
        np.copyto(self._scratch, x)
        self._apply(self._scratch, random, boxes)
        if x.dtype.kind in "iu":
            limits = np.iinfo(x.dtype)
            np.clip(np.rint(self._scratch), limits.min, limits.max, out=self._scratch)
        np.copyto(x, self._scratch, casting="unsafe")

    def _apply(self, x: Array, random: "np.random.Generator", boxes: Array | None) -> None:
        for change in self._changes:
            if boxes is None:
                change.apply(x, random, self._facts)
            else:
                change.apply_with_boxes(x, boxes, random, self._facts)

    def close(self) -> None:
        """Ends the thread."""
        self._pool.shutdown(cancel_futures=True)


def prepared_nbytes(
    specs: Sequence[TensorSpec], batch: int, augmentations: Sequence[Augmentation]
) -> int:
    """Returns the bytes of the batches that a pipeline allocates."""
    mixes = any(isinstance(a, Mixup) for a in augmentations)
    slots = AHEAD + 1 + mixes  # mixup reads the other samples into one more
    return slots * batch * sum(spec.nbytes for spec in specs)


def _allocate(specs: Sequence[TensorSpec], batch: int) -> list[Array]:
    return [np.empty((batch, spec.size), spec.dtype) for spec in specs]


def _without_ones(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Returns the shape with the most axes, without axes of length 1."""
    squeezed = [tuple(n for n in shape if n != 1) for shape in shapes]
    return max(squeezed, key=len) or (1,)


def _input_for(augmentations: Sequence[Augmentation], shapes: Sequence[tuple[int, ...]]) -> int:
    """Returns the position of the only input that all augmentations fit.

    Raises:
        OptionError: if there is none, or several.
    """
    fits: list[int] = []
    error: OptionError | None = None
    for k, shape in enumerate(shapes):
        try:
            for augmentation in augmentations:
                augmentation.check(shape)
            fits.append(k)
        except OptionError as e:
            error = e
    if len(fits) == 1:
        return fits[0]
    if not fits and error is not None:
        raise error
    raise OptionError("augment", "must fit one input of the model", f"{len(fits)} that it fits")


def _check_boxes(augmentations: Sequence[Augmentation]) -> None:
    """Checks that boxes can follow all augmentations; raises OptionError."""
    others = [a.word for a in augmentations if not a.keeps_boxes]
    if others:
        raise OptionError(
            "augment",
            "must keep boxes on their objects, as augmentations of images do",
            ", ".join(others),
            "Leave it out for targets of boxes.",
        )


def _check_floats(specs: Sequence[TensorSpec]) -> None:
    """Checks that all inputs and targets can be mixed; raises OptionError."""
    for spec in specs:
        if spec.dtype.kind != "f":
            raise OptionError(
                "augment",
                "mixup: inputs and targets must be floats",
                spec,
                "Give class labels as one-hot rows, for the loss `categorical_crossentropy`.",
            )
