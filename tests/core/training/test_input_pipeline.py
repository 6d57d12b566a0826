"""Augmented batches: the same samples whatever the batch size, also after a jump into an epoch."""

from collections.abc import Sequence

import numpy as np
import pytest
from support.networks import ArrayData

import odt
from odt.core.data.augmentations.registry import parse_augmentations
from odt.core.data.dataset import EpochOrder
from odt.core.training.input_pipeline import InputPipeline
from odt.errors import DataError, OptionError
from odt.kernels.rows.opdef import Array, TensorSpec

FLOAT = np.dtype(np.float32)
X = np.random.default_rng(0).normal(size=(50, 6, 5, 3)).astype(np.float32)
Y = np.eye(4, dtype=np.float32)[np.arange(50) % 4]
DATA = ArrayData([X], [Y])
NO_BOX = (-1, 0, 0, 0, 0)
ORDER = EpochOrder(range(40), shuffle=True, seed=3)
SPECS = [TensorSpec((6, 5, 3), FLOAT)], [TensorSpec((4,), FLOAT)]


def pipeline(
    text: object,
    batch: int,
    data: ArrayData = DATA,
    specs: tuple[list[TensorSpec], list[TensorSpec]] = SPECS,
) -> InputPipeline:
    shapes = [[a.shape[1:]] for a in data.inputs]
    return InputPipeline(data, range(40), *specs, shapes, batch, parse_augmentations(text), 3)


def epoch(made: InputPipeline, number: int, batch: int, first: int = 0) -> tuple[Array, Array]:
    """All samples of an epoch, by sample, read in parts of a batch."""
    order = np.asarray(ORDER.order(number))
    x, y = np.zeros((50, 90), np.float32), np.zeros((50, 4), np.float32)
    made.epoch(number, ORDER.order(number), first, 40)
    for at in range(first, 40, batch):
        end = min(at + batch, 40)
        for part in (range(at, (at + end) // 2), range((at + end) // 2, end)):
            if len(part):
                rows = np.empty((len(part), 90), np.float32), np.empty((len(part), 4), np.float32)
                made.read(part, [rows[0]], [rows[1]])
                x[order[part]], y[order[part]] = rows
    return x, y


@pytest.mark.parametrize("text", ["flip,rotate,noise", "shift:0.3,mixup:0.5", "mixup,mixup:1"])
def test_samples_depend_on_epoch_and_seed_alone(text: str) -> None:
    with pipeline(text, 8) as one, pipeline(text, 7) as other, pipeline(text, 8) as resumed:
        first, second, third = (epoch(one, n, 8) for n in (1, 2, 3))
        for wanted, number in ((third, 3), (first, 1)):
            for a, b in zip(wanted, epoch(other, number, 7), strict=True):
                np.testing.assert_array_equal(a, b)
        rest = epoch(resumed, 2, 8, first=16)
        done = np.asarray(ORDER.order(2))[16:]
        for a, b in zip(second, rest, strict=True):
            np.testing.assert_array_equal(a[done], b[done])
    assert np.abs(first[0] - second[0]).max() > 0.1
    assert not first[0][40:].any()
    np.testing.assert_allclose(first[1][:40].sum(axis=1), 1, rtol=1e-6)


def test_mixup_mixes_inputs_and_targets_alike() -> None:
    """Inputs that are copies of the targets stay copies."""
    data = ArrayData([Y], [Y])
    specs = [TensorSpec((4,), FLOAT)], [TensorSpec((4,), FLOAT)]
    with pipeline("mixup:1", 10, data, specs) as made:
        made.epoch(1, range(40), 0, 40)
        x, y = np.empty((2, 10, 4), np.float32)
        made.read(range(10), [x], [y])
    np.testing.assert_array_equal(x, y)
    mixed = (y > 0).sum(axis=1) == 2
    assert mixed.sum() >= 4
    parts = y[np.arange(10), np.arange(10) % 4]
    assert 0.05 < parts[mixed].min() < parts[mixed].max() < 0.95


class Boxed(ArrayData):
    """Images with boxes, whose target for a model is the boxes themselves."""

    def boxes_like(self, samples: int) -> Array:
        return np.empty((samples, *self.targets[0].shape[1:]), np.float32)

    def read_boxes(self, samples: Sequence[int], inputs: Sequence[Array], boxes: Array) -> None:
        super().read(samples, inputs, [boxes])

    def encode(self, boxes: Array, targets: Sequence[Array]) -> None:
        targets[0][...] = boxes.reshape(len(boxes), -1)


def boxed() -> Boxed:
    """A white rectangle in each black image, and its box in one of two rows."""
    random = np.random.default_rng(5)
    x = np.zeros((50, 16, 20, 3), np.float32)
    boxes = np.full((50, 2, 5), NO_BOX, np.float32)
    for k in range(50):
        (y1, y2), (x1, x2) = (np.sort(random.choice(n + 1, 2, replace=False)) for n in (16, 20))
        x[k, y1:y2, x1:x2] = 1
        boxes[k, k % 2] = (k % 3, y1 / 16, x1 / 20, y2 / 16, x2 / 20)
    return Boxed([x], [boxes])


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_boxes_follow_their_images(dtype: type) -> None:
    data = boxed()
    data.inputs = [data.inputs[0].astype(dtype)]
    specs = [TensorSpec((16, 20, 3), np.dtype(dtype))], [TensorSpec((10,), FLOAT)]
    results = []
    for batch in (8, 7):
        with pipeline("flip:both,brightness", batch, data, specs) as source:
            order = np.asarray(ORDER.order(2))
            x: Array = np.empty((40, 960), dtype)
            boxes: Array = np.empty((40, 10), np.float32)
            source.epoch(2, ORDER.order(2), 0, 40)
            for at in range(0, 40, batch):
                part = slice(at, min(at + batch, 40))
                source.read(range(part.start, part.stop), [x[part]], [boxes[part]])
            results.append((x[order.argsort()], boxes[order.argsort()]))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)
    images, targets = results[0][0].reshape(40, 16, 20, 3), results[0][1].reshape(40, 2, 5)
    changed = 0
    for k, (image, rows) in enumerate(zip(images, targets, strict=True)):
        assert tuple(rows[1 - k % 2]) == NO_BOX
        assert rows[k % 2, 0] == k % 3
        y1, x1, y2, x2 = np.rint(rows[k % 2, 1:] * (16, 20, 16, 20)).astype(int)
        mask = np.zeros((16, 20), bool)
        mask[y1:y2, x1:x2] = True
        np.testing.assert_array_equal(image[..., 0] > 0.5, mask)
        changed += not np.array_equal(mask, data.inputs[0][k, ..., 0] > 0)
    assert changed > 20
    np.testing.assert_array_equal(data.targets[0], boxed().targets[0])  # the data do not change


@pytest.mark.parametrize("text", ["mixup", "flip,time-shift,mixup", [lambda x, rng: x]])
def test_augmentations_that_lose_boxes_are_refused(text: object) -> None:
    specs = [TensorSpec((16, 20, 3), FLOAT)], [TensorSpec((10,), FLOAT)]
    names = "time-shift, mixup" if str(text).startswith("flip") else "mixup|custom"
    rule = f"must keep boxes on their objects, .*, but got ({names})"
    with pytest.raises(OptionError, match=rule):
        pipeline(text, 8, boxed(), specs)


def test_an_epoch_that_is_left_early_does_not_disturb_the_next() -> None:
    with pipeline("noise", 8) as one, pipeline("noise", 8) as other:
        one.epoch(1, ORDER.order(1), 0, 40)
        one.read(range(4), [np.empty((4, 90), np.float32)], [np.empty((4, 4), np.float32)])
        for a, b in zip(epoch(one, 2, 8), epoch(other, 2, 8), strict=True):
            np.testing.assert_array_equal(a, b)


def test_errors_of_the_thread_are_raised_where_the_batch_is_read() -> None:
    class Broken(ArrayData):
        def read(
            self, samples: Sequence[int], inputs: Sequence[Array], targets: Sequence[Array]
        ) -> None:
            if targets and 23 in np.asarray(samples):
                raise DataError("x: sample 23: must be finite, but got nan.")
            super().read(samples, inputs, targets)

    with pipeline("noise", 8, Broken([X], [Y])) as made, pytest.raises(DataError, match="23"):
        epoch(made, 1, 8)


def test_integers_are_rounded_and_stay_in_their_range() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (40, 6, 5)).astype(np.uint8)
    specs = [TensorSpec((6, 5), pixels.dtype)], SPECS[1]
    out = np.empty((40, 30), np.uint8)
    with pipeline("brightness:0.9,noise:0.5", 40, ArrayData([pixels], [Y[:40]]), specs) as made:
        made.epoch(1, range(40), 0, 40)
        made.read(range(40), [out], [np.empty((40, 4), np.float32)])
    assert out.min() == 0
    assert out.max() == 255
    assert np.mean(out == pixels.reshape(40, 30)) < 0.2


def test_the_input_is_the_one_that_fits() -> None:
    table = np.random.default_rng(1).normal(size=(50, 9)).astype(np.float32)
    specs = [TensorSpec((9,), FLOAT), *SPECS[0]], SPECS[1]
    data = ArrayData([table, X], [Y])
    rows = np.empty((8, 9), np.float32), np.empty((8, 90), np.float32)
    with pipeline("rotate:90", 8, data, specs) as made:
        made.epoch(1, range(40), 0, 40)
        made.read(range(8), rows, [np.empty((8, 4), np.float32)])
    np.testing.assert_array_equal(rows[0], table[:8])
    assert np.abs(rows[1] - X[:8].reshape(8, 90)).max() > 0.1
    with pytest.raises(OptionError, match="must fit one input of the model, but got 2 that it"):
        pipeline("noise", 8, data, specs)


def test_a_flat_input_has_the_shape_of_the_data() -> None:
    flat = [TensorSpec((90,), FLOAT)], SPECS[1]
    with pipeline("rotate", 8, DATA, flat) as one, pipeline("rotate", 8) as other:
        for a, b in zip(epoch(one, 1, 8), epoch(other, 1, 8), strict=True):
            np.testing.assert_array_equal(a, b)


def test_labels_cannot_be_mixed() -> None:
    labels = [TensorSpec((), np.dtype(np.int32))]
    with pytest.raises(OptionError, match=r"mixup: inputs and targets must be floats.* one-hot"):
        pipeline("mixup", 8, DATA, (SPECS[0], labels))


def test_functions_are_augmentations() -> None:
    def half(x: Array, rng: np.random.Generator) -> Array:
        assert x.shape == (6, 5, 3)
        return x / 2

    def negative(x: Array, rng: np.random.Generator) -> None:
        x *= -1

    with pipeline([half, odt.augment.Shift(1e-6), negative], 8) as made:
        np.testing.assert_array_equal(epoch(made, 1, 8)[0][:40], -X[:40].reshape(40, 90) / 2)
