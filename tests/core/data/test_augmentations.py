"""Augmentations do what their names say, for any layout of an image, as their seed says."""

from typing import Any

import numpy as np
import pytest
from support.paths import ROOT

import odt
from odt.core.data.array_columns import array_columns
from odt.core.data.augmentations.augmentation import Facts, statistics
from odt.core.data.augmentations.images import resample, resample_axis
from odt.core.data.augmentations.random import SampleRandom
from odt.core.data.augmentations.registry import BY_WORD, parse_augmentations
from odt.core.data.box_geometry import axis_movement, move_boxes
from odt.core.data.dataset import DataSet
from odt.errors import OptionError
from odt.kernels.rows.opdef import Array, TensorSpec

FACTS = Facts(-1.0, 2.0, 0.25, 0.5)
FACTS_OF_BLACK = Facts(0.0, 1.0, 0.0, 0.3)
RANDOM = SampleRandom(7)
GRID = np.arange(12 * 10 * 3, dtype=np.float32).reshape(12, 10, 3)


def applied(change: odt.augment.Augmentation, x: Array, sample: int = 0) -> Array:
    found = x.copy()
    change.apply(found, RANDOM.at(1, sample), FACTS)
    return found


def variants(change: odt.augment.Augmentation, x: Array, samples: int = 60) -> list[Array]:
    return [applied(change, x, sample) for sample in range(samples)]


def named(kind: type[odt.augment.Augmentation]) -> set[str]:
    """Names of the project's subclasses that the command line can name."""
    kinds = kind.__subclasses__()
    own = {k.__name__ for k in kinds if "word" in vars(k) and k.__module__.startswith("odt.")}
    return own.union(*map(named, kinds)) - {"Custom"}


def test_every_augmentation_is_public_and_in_the_documentation() -> None:
    unlisted = named(odt.augment.Augmentation) - {kind.__name__ for kind in BY_WORD.values()}
    assert not unlisted, f"core/data/augmentations/registry.py: add {unlisted}"
    missing = {kind.__name__ for kind in BY_WORD.values()} - {*odt.augment.__all__}
    assert not missing, f"src/odt/augment.py: add {missing}"
    page = (ROOT / "docs/augmentation.md").read_text(encoding="utf-8")
    undescribed = [word for word in BY_WORD if f"\n| {word}:" not in page]
    assert not undescribed, f"docs/augmentation.md: add rows of {undescribed}"


def test_random_numbers_are_of_seed_epoch_sample_and_stream() -> None:
    seen = {
        tuple(SampleRandom(seed).at(epoch, sample, stream).random(3))
        for seed in (0, 1)
        for epoch in (1, 2)
        for sample in (0, 1)
        for stream in (0, 1)
    }
    assert len(seen) == 16
    again = SampleRandom(1)
    again.at(9, 9).standard_normal(7, np.float32)  # leaves half a number behind
    assert tuple(again.at(2, 1, 1).random(3)) in seen
    values = np.array([RANDOM.at(1, k).random(20) for k in range(500)])
    assert abs(values.mean() - 0.5) < 0.01
    assert np.abs(np.corrcoef(values[:-1].ravel(), values[1:].ravel())[0, 1]) < 0.03


def test_flip_mirrors_half_of_the_images() -> None:
    for axis, turned in (("horizontal", GRID[:, ::-1]), ("vertical", GRID[::-1])):
        found = variants(odt.augment.Flip(axis), GRID, 200)
        same = sum(np.array_equal(x, GRID) for x in found)
        assert 70 < same < 130
        assert same + sum(np.array_equal(x, turned) for x in found) == 200
    assert len({x.tobytes() for x in variants(odt.augment.Flip("both"), GRID)}) == 4


def test_shift_moves_by_whole_pixels_and_repeats_the_border() -> None:
    seen, rows, columns = set(), np.arange(12), np.arange(10)
    for x in variants(odt.augment.Shift(0.2), GRID, 300):
        fits = [
            (dy, dx)
            for dy in range(-3, 4)
            for dx in range(-3, 4)
            if np.array_equal(x, GRID[np.clip(rows - dy, 0, 11)][:, np.clip(columns - dx, 0, 9)])
        ]
        assert len(fits) == 1
        seen |= set(fits)
    assert {dy for dy, _ in seen} == {dx for _, dx in seen} == {-2, -1, 0, 1, 2}


def test_resampling_is_bilinear() -> None:
    ys, xs = np.meshgrid(np.linspace(-1, 12, 12), np.linspace(0.25, 9.5, 10), indexing="ij")
    wanted = np.empty_like(GRID)
    for i in range(12):
        for k in range(10):
            y, x = np.clip(ys[i, k], 0, 11), np.clip(xs[i, k], 0, 9)
            wanted[i, k] = 30 * y + 3 * x + np.arange(3)  # GRID is linear
    found = GRID.copy()
    resample(found, ys.astype(np.float32), xs.astype(np.float32))
    np.testing.assert_allclose(found, wanted, atol=1e-3)
    apart = resample_axis(resample_axis(GRID.copy(), ys[:, 0], 0), xs[0], 1)
    np.testing.assert_allclose(apart, wanted, atol=1e-3)
    one = np.ones((1, 1, 2), np.float32)
    resample(one, np.zeros((1, 1), np.float32), np.zeros((1, 1), np.float32))
    assert one.tolist() == [[[1, 1]]]


def test_rotate_turns_about_the_center() -> None:
    """A quarter turn of an odd square, whose center stays."""
    square = np.random.default_rng(0).normal(size=(7, 7, 1)).astype(np.float32)

    class Quarter(np.random.Generator):
        def random(self, *args: object, **kwargs: object) -> float:  # type: ignore[override]
            return 1.0

    turned = square.copy()
    odt.augment.Rotate(90).apply(turned, Quarter(np.random.PCG64(0)), FACTS)
    assert any(np.allclose(turned, np.rot90(square, k), atol=1e-5) for k in (1, 3))
    for x in variants(odt.augment.Rotate(40), square, 20):
        np.testing.assert_array_equal(x[3, 3], square[3, 3])


def test_crop_enlarges_a_part() -> None:
    steps = [np.diff(x[:, 5, 0]).max() / 30 for x in variants(odt.augment.Crop(0.5), GRID, 300)]
    assert 0.5 - 1e-3 < min(steps) < 0.52
    assert 0.98 < max(steps) < 1 + 1e-3


def test_scale_enlarges_and_reduces_about_the_center() -> None:
    steps = []
    for x in variants(odt.augment.Scale(0.5), GRID, 300):
        inside = (x != FACTS.mean).all(axis=2)
        rows, columns = inside.any(axis=1), inside.any(axis=0)
        assert np.array_equal(rows, rows[::-1])
        assert np.array_equal(columns, columns[::-1])
        np.testing.assert_allclose(x[5:7, 4:6].mean(axis=(0, 1)), GRID.mean(axis=(0, 1)), rtol=1e-4)
        steps.append(30 / (x[6, 5, 0] - x[5, 5, 0]))
        assert abs(rows.sum() - min(12, 12 * steps[-1])) <= 2
    assert 0.5 - 1e-3 < min(steps) < 0.53
    assert 1.47 < max(steps) < 1.5 + 1e-3


MOVING = ("flip:both", "shift:0.3", "crop:0.4", "scale:0.5", "rotate:10", "flip,crop:0.6")


@pytest.mark.parametrize("text", MOVING)
@pytest.mark.parametrize("first", [False, True])
def test_boxes_move_with_what_is_in_them(text: str, first: bool) -> None:
    """A disc in an image is where its box says; a box of which less is visible is dropped."""
    height, width, radius = 60, 90, 9.0
    random = np.random.default_rng(4)
    ys, xs = np.ogrid[:height, :width]
    changes = parse_augmentations(text)
    stays = 0
    for sample in range(80):
        y, x = random.uniform(radius, height - radius), random.uniform(radius, width - radius)
        disc = ((ys + 0.5 - y) ** 2 + (xs + 0.5 - x) ** 2 < radius**2).astype(np.float32)
        image = np.zeros((height, width, 3), np.float32) + disc[..., np.newaxis]
        image = np.ascontiguousarray(image.transpose(2, 0, 1)) if first else image
        corners = np.array([y - radius, x - radius, y + radius, x + radius])
        boxes = np.full((3, 5), [-1, 0, 0, 0, 0], np.float32)
        boxes[1, 0], boxes[1, 1:] = 4, corners / (height, width, height, width)
        plain = image.copy()
        generator = RANDOM.at(1, sample)
        for change in changes:
            change.apply_with_boxes(image, boxes, generator, FACTS_OF_BLACK)
        generator = RANDOM.at(1, sample)
        for change in changes:
            change.apply(plain, generator, FACTS_OF_BLACK)
        np.testing.assert_array_equal(image, plain)
        assert boxes[[0, 2]].tolist() == [[-1, 0, 0, 0, 0]] * 2
        if boxes[1, 0] < 0:
            assert boxes[1].tolist() == [-1, 0, 0, 0, 0]
            continue
        stays += 1
        assert boxes[1, 0] == 4
        y1, x1, y2, x2 = boxes[1, 1:] * (height, width, height, width)
        # Where the border is repeated, what touches it is repeated too.
        inside = (image[0] if first else image[..., 0])[
            max(0, int(y1) - 3) : int(y2) + 4, max(0, int(x1) - 3) : int(x2) + 4
        ]
        rows, columns = (np.flatnonzero(inside.max(axis=k) > 0.5) for k in (1, 0))
        seen = len(rows), len(columns)
        if min(y1, x1) > 3 and y2 < height - 3 and x2 < width - 3:
            slack = 3 if "rotate" in text else 1.5  # the corners of a box turn, too
            np.testing.assert_allclose(seen, (y2 - y1, x2 - x1), atol=slack)
    assert stays > 40


def test_a_box_stays_if_a_third_of_it_is_visible() -> None:
    boxes = np.array(
        [[0, 0, 0, 1, 0.5], [1, 0.5, 0.4, 0.75, 0.9], [2, 0, 0.2, 1, 0.72]], np.float32
    )
    move_boxes(boxes, axis_movement((1, 0), (1, -0.5)))
    expected = [[-1, 0, 0, 0, 0], [1, 0.5, 0, 0.75, 0.4], [2, 0, 0, 1, 0.22]]
    np.testing.assert_allclose(boxes, np.array(expected), atol=1e-6)
    move_boxes(boxes, axis_movement((1, 0), (1, -0.15)))  # 0.07 of 0.22 stays
    move_boxes(boxes, axis_movement((1, 0), (1, -0.05)))  # 0.02 of 0.07
    assert boxes[2].tolist() == [-1, 0, 0, 0, 0]
    assert boxes[1, 0] == 1


def test_a_box_that_rounding_makes_flat_is_dropped() -> None:
    """Its code would be the logarithm of 0."""
    boxes = np.array([[0, 1 - 2e-7, 0.4, 1, 0.6]], np.float32)
    move_boxes(boxes, axis_movement((0.1, 0.9), (1, 0)))
    assert boxes.tolist() == [[-1, 0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("change", "invariant"),
    [
        (odt.augment.Brightness(0.3), lambda x: (x[0] + 1) / (x[1] + 1)),
        (odt.augment.Contrast(0.3), lambda x: x.mean(axis=(1, 2, 3))),
        (odt.augment.Saturation(0.3), lambda x: x @ [0.299, 0.587, 0.114]),
    ],
)
def test_colors_keep_what_they_should(change: odt.augment.Augmentation, invariant: object) -> None:
    x = np.random.default_rng(2).uniform(0, 0.6, (5, 4, 3)).astype(np.float32)
    assert callable(invariant)
    before = invariant(np.stack([x, x[::-1]]))
    for sample in range(30):
        after = invariant(np.stack([applied(change, a, sample) for a in (x, x[::-1])]))
        np.testing.assert_allclose(after, before, atol=2e-3, rtol=2e-3)
    assert len({a.tobytes() for a in variants(change, x)}) == 60
    wide = np.stack(variants(change, 10 * x, 50))
    assert wide.max() <= FACTS.high
    assert wide.min() >= FACTS.low


def test_cutout_fills_a_square_with_the_mean() -> None:
    sizes = set()
    for x in variants(odt.augment.Cutout(0.4), GRID, 200):
        rows, columns, _ = np.nonzero(x != GRID)
        height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
        assert np.all(x[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1] == 0.25)
        sizes |= {(int(height), int(width))}
    assert max(sizes) == (4, 4)
    assert len(sizes) > 4  # parts of squares at the border


@pytest.mark.parametrize(
    "name", ["flip", "shift", "crop", "scale", "rotate", "brightness", "cutout"]
)
def test_images_may_have_any_layout(name: str) -> None:
    (change,) = parse_augmentations(name)
    wanted = applied(change, GRID)
    np.testing.assert_array_equal(
        applied(change, np.ascontiguousarray(GRID.transpose(2, 0, 1))), wanted.transpose(2, 0, 1)
    )
    gray = np.ascontiguousarray(GRID[..., 0])
    change.check(gray.shape)
    if name != "brightness":  # clipped
        np.testing.assert_allclose(applied(change, gray), wanted[..., 0], rtol=1e-6)


def test_sounds_are_shifted_amplified_and_masked() -> None:
    wave = np.random.default_rng(1).normal(size=100).astype(np.float32)
    shifts = set()
    for x in variants(odt.augment.TimeShift(0.05), wave, 200):
        by = next(k for k in range(-5, 6) if np.array_equal(x[10:-10], np.roll(wave, k)[10:-10]))
        shifts.add(by)
    assert shifts == set(range(-5, 6))
    gains = [x[0] / wave[0] for x in variants(odt.augment.Gain(6), wave, 300)]
    assert 10**-0.3 <= min(gains) < 0.52
    assert 1.96 < max(gains) <= 10**0.3
    spectrum = np.random.default_rng(1).normal(size=(20, 8)).astype(np.float32)
    for change, axis, most in (
        (odt.augment.TimeMask(0.2), 0, 4),
        (odt.augment.FrequencyMask(0.5), 1, 4),
    ):
        widths = set()
        for x in variants(change, spectrum, 300):
            masked = np.flatnonzero((x != spectrum).all(axis=1 - axis))
            widths.add(len(masked))
            if len(masked):
                assert np.ptp(masked) == len(masked) - 1
                np.testing.assert_allclose(x.take(masked, axis), spectrum.mean(), rtol=1e-5)
            others = np.setdiff1d(np.arange(spectrum.shape[axis]), masked)
            np.testing.assert_array_equal(x.take(others, axis), spectrum.take(others, axis))
        assert widths == set(range(most + 1))


def test_noise_of_a_table_has_the_scale_of_each_feature() -> None:
    facts = Facts(std=np.array([1.0, 100.0], np.float32))
    noise = np.zeros((4000, 2), np.float32)
    for k, row in enumerate(noise):
        odt.augment.Noise(0.1).apply(row, RANDOM.at(1, k), facts)
    np.testing.assert_allclose(noise.std(axis=0), [0.1, 10], rtol=0.05)
    np.testing.assert_allclose(noise.mean(axis=0) / noise.std(axis=0), 0, atol=0.05)


def test_statistics_are_those_of_the_training_samples() -> None:
    table = np.random.default_rng(0).normal([3, -2], [1, 50], (200, 2)).astype(np.float32)
    spec = TensorSpec((2,), np.dtype(np.float32))
    data = DataSet(array_columns([table], [spec], "x"))
    facts = statistics(data, range(100), [spec], 0, (2,))
    assert facts.low == table[:100].min()
    assert facts.high == table[:100].max()
    np.testing.assert_allclose(facts.std, table[:100].std(axis=0), rtol=1e-5)
    images = table.reshape(50, 2, 4)
    spec = TensorSpec((2, 4), np.dtype(np.float32))
    data = DataSet(array_columns([images], [spec], "x"))
    facts = statistics(data, np.arange(50), [spec], 0, (2, 4))  # type: ignore[arg-type]
    assert facts.mean == pytest.approx(images.mean(), rel=1e-5)
    assert facts.std == pytest.approx(images.std(), rel=1e-5)


def test_texts_are_read_as_they_are_written() -> None:
    for word in BY_WORD:
        (change,) = parse_augmentations(word)
        text = str(change)
        assert text.startswith(f"{word}:")
        assert parse_augmentations(text) == (change,)
    several = parse_augmentations(["flip, shift:0.2", odt.augment.Noise(0.5), "time_mask"])
    assert ",".join(map(str, several)) == "flip:horizontal,shift:0.2,noise:0.5,time-mask:0.1"
    assert parse_augmentations("none") == parse_augmentations(()) == ()
    assert str(odt.augment.Rotate(10)) == "rotate:10"  # an int


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        ("flop", (4, 4, 3), "must be one of flip, shift, .*, but got flop. Did you mean flip?"),
        ("shift:a", (4, 4, 3), "shift: its value must be a number, but got a"),
        ("shift:2", (4, 4, 3), "shift: its value must be above 0, up to 1, but got 2"),
        ("flip:up", (4, 4, 3), "flip: its value must be horizontal, vertical or both, but got up"),
        ("rotate", (9,), r"rotate: needs images .*, but got \(9,\)"),
        ("saturation", (4, 4), "saturation: needs images with three channels"),
        ("saturation", (3, 5, 2), "saturation: needs images with three channels"),
        ("gain", (20, 8), r"gain: needs waveforms \(time\); use brightness for spectrograms"),
        ("time-mask", (9,), "time-mask: needs spectrograms"),
        ("noise:0", (9,), "noise: its value must be above 0 and finite, but got 0"),
        ("mixup:inf", (9,), "mixup: its value must be above 0 and finite, but got inf"),
        ("custom", (9,), "functions must be given again to resume"),
        ("noise:", (9,), "noise: its value must be a number, but got none"),
        ({"noise": 3}, (9,), "must be names, augmentations or functions, but got {'noise': 3}"),
        (True, (9,), "must be names, augmentations or functions, but got True"),
        (odt.augment.Flip, (4, 4), "must be names, augmentations or functions, but got <class .*>"),
        ([["flip"]], (9,), r"must be names, augmentations or functions, but got \['flip'\]"),
    ],
)
def test_what_is_not_possible_is_refused(text: Any, shape: tuple[int, ...], message: str) -> None:
    def check() -> None:
        for change in parse_augmentations(text):
            change.check(shape)

    with pytest.raises(OptionError, match=f"^`augment=`: {message}"):
        check()
