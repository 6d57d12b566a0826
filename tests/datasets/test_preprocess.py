"""Steps of preprocessing; expectations by hand, by Pillow or by their published formulas."""

import re
from typing import Any

import numpy as np
import pytest
from PIL import Image

from odt.datasets.pictures import Augmentation, Resize, to_gray, to_rgb
from odt.datasets.preprocess import Preprocessing, Targets
from odt.errors import DataError, OptionError
from odt.kernels.rows.opdef import Array

RANDOM = np.random.default_rng(0)
PICTURE = RANDOM.integers(0, 256, (12, 20, 3), np.uint8)
NAN = float("nan")


def test_scales_are_divisions_in_float32() -> None:
    x = np.arange(256, dtype=np.uint8)
    unit = [np.float32(v) / np.float32(255) for v in range(256)]
    both = [np.float32(v) / np.float32(127.5) - np.float32(1) for v in range(256)]
    assert Preprocessing(scale="0..1").apply(x).tolist() == unit
    assert Preprocessing(scale="-1..1").apply(x).tolist() == both


def test_mean_and_std_are_by_channel_after_the_scale() -> None:
    p = Preprocessing(scale="0..1", mean=(0.5, 0.25, 0.0), std=(0.5, 1.0, 2.0))
    expected = (PICTURE / 255 - [0.5, 0.25, 0.0]) / [0.5, 1.0, 2.0]
    assert np.allclose(p.apply(PICTURE), expected, atol=1e-6)
    with pytest.raises(DataError, match="1 or 3 values, but got 2"):
        Preprocessing(mean=(1, 2)).apply(PICTURE)


def test_standardize_learns_from_what_it_is_given() -> None:
    rows = RANDOM.normal([3, -100, 7], [2, 50, 0], (40, 3))
    p = Preprocessing(scale="standardize").fitted(lambda: rows)
    y = np.stack([p.apply(r) for r in rows])
    assert np.allclose(y.mean(axis=0), 0, atol=1e-5)
    assert np.allclose(y.std(axis=0), [1, 1, 0], atol=1e-5)


def test_missing_values_follow_the_policy() -> None:
    rows = [np.array([1.0, NAN]), np.array([3.0, 10.0]), np.array([NAN, 20.0])]
    assert Preprocessing(missing="zero").apply(rows[0]).tolist() == [1, 0]
    p = Preprocessing(missing="mean").fitted(lambda: rows)
    assert [p.apply(r).tolist() for r in rows] == [[1, 15], [3, 10], [2, 20]]
    with pytest.raises(DataError, match="missing"):
        Preprocessing().apply(rows[0])


@pytest.mark.parametrize(
    ("missing", "mean", "std"),
    [
        ("mean", [3, 17], [1.41421356, 4.30116263]),
        ("median", [3, 17.75], [1.41421356, 4.49305019]),
        ("zero", [2.25, 12.75], [1.92028644, 8.52569645]),
    ],
)
def test_statistics_count_replaced_values(
    missing: str, mean: list[float], std: list[float]
) -> None:
    """As a pipeline of SimpleImputer and StandardScaler in scikit-learn 1.9.1."""
    rows = np.array([[1, NAN], [3, 10], [NAN, 20], [5, 21]])
    p = Preprocessing(missing=missing, scale="standardize").fitted(lambda: rows)
    np.testing.assert_allclose((p.mean, p.std), (mean, std), rtol=1e-8)
    filled = {"mean": [3, 17], "median": [3, 20], "zero": [0, 0]}[missing]
    expected = (np.where(np.isnan(rows), filled, rows) - mean) / std
    np.testing.assert_allclose([p.apply(row) for row in rows], expected, rtol=1e-6, atol=1e-7)


def test_gray_is_pillows_gray_bit_for_bit() -> None:
    assert np.array_equal(
        to_gray(PICTURE)[..., 0], np.asarray(Image.fromarray(PICTURE).convert("L"))
    )
    assert np.array_equal(to_rgb(PICTURE[..., :1]), PICTURE[..., [0, 0, 0]])


@pytest.mark.parametrize(
    ("method", "resample"),
    [
        ("bilinear", Image.Resampling.BILINEAR),
        ("nearest", Image.Resampling.NEAREST),
        ("area", Image.Resampling.BOX),
    ],
)
def test_resizing_is_pillows(method: str, resample: Image.Resampling) -> None:
    expected = np.asarray(Image.fromarray(PICTURE).resize((7, 5), resample))
    assert np.array_equal(Resize(5, 7, method).apply(PICTURE), expected)
    early = Resize(5, 7, method).apply_to_image(Image.fromarray(PICTURE))
    assert np.array_equal(np.asarray(early), expected)
    floats = Resize(5, 7, method).apply(PICTURE.astype(np.float32))
    assert np.abs(floats - expected).max() <= 1  # Pillow rounds bytes between its two passes


def test_fits_keep_the_aspect_and_the_middle() -> None:
    square = PICTURE[:, 4:16]
    assert np.array_equal(Resize(12, 12, fit="crop").apply(PICTURE), square)
    padded = Resize(20, 20, fit="pad").apply(PICTURE)
    assert np.array_equal(padded[4:16], PICTURE)
    assert not padded[:4].any()
    assert not padded[16:].any()
    both = Resize(16, 10, fit="crop-or-pad").apply(PICTURE)
    assert np.array_equal(both[2:14], PICTURE[:, 5:15])
    assert not both[:2].any()


def test_augmentation_repeats_and_keeps_shape() -> None:
    a = Augmentation(flip=True, shift=3, crop=0.3, noise=0.1)
    p = Preprocessing(scale="0..1", augmentation=a)
    results = [p.apply(PICTURE, np.random.default_rng(k)) for k in (0, 0, 1)]
    assert np.array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])
    assert results[2].shape == PICTURE.shape
    assert np.array_equal(p.apply(PICTURE), Preprocessing(scale="0..1").apply(PICTURE))


def test_flip_and_shift_do_what_they_say() -> None:
    flips = [Augmentation(flip=True).move(PICTURE, np.random.default_rng(k)) for k in range(20)]
    flipped = [np.array_equal(f, PICTURE[:, ::-1]) for f in flips]
    assert 0 < sum(flipped) < 20
    assert all(f or np.array_equal(x, PICTURE) for f, x in zip(flipped, flips, strict=True))
    one = np.zeros((9, 9, 1), np.uint8)
    one[4, 4] = 1
    places = {
        tuple(np.argwhere(Augmentation(shift=2).move(one, np.random.default_rng(k)))[0][:2])
        for k in range(300)
    }
    assert places == {(r, c) for r in range(2, 7) for c in range(2, 7)}
    gray = Augmentation(shift=2, crop=0.3)  # the same of an image without an axis of channels
    for k in range(5):
        moved, alike = (gray.move(x, np.random.default_rng(k)) for x in (one, one[..., 0]))
        assert np.array_equal(moved[..., 0], alike)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_channels_are_resized_alone(channels: int) -> None:
    x = np.random.default_rng(0).integers(0, 256, (12, 10, channels), np.uint8)
    resized = Resize(6, 5).apply(x)
    assert resized.dtype == np.uint8
    assert np.abs(resized - Resize(6, 5).apply(x.astype(np.float32))).max() <= 1


def test_whole_dtypes_take_no_fractions() -> None:
    assert Preprocessing(dtype=np.dtype(np.uint8)).apply(PICTURE).dtype == np.uint8
    changes: list[tuple[dict[str, Any], str]] = [
        ({"scale": "standardize"}, '`scale="standardize"`'),
        ({"mean": (1.0,), "std": (2.0,)}, "`mean=` and `std=`"),
        ({"missing": "mean"}, '`missing="mean"`'),
        ({"missing": "median"}, '`missing="median"`'),
        ({"augmentation": Augmentation(noise=1.0)}, "the noise of `augment=`"),
    ]
    for options, named in changes:
        with pytest.raises(OptionError) as raised:
            Preprocessing(dtype=np.dtype(np.uint8), **options)
        assert str(raised.value) == (
            "`dtype=`: must be a float type if values become fractions, but got uint8. "
            f'Give `dtype="float32"`, or leave out {named}.'
        )


def test_whole_dtypes_leave_the_scale_to_whoever_reads() -> None:
    steps = Preprocessing(dtype=np.dtype(np.uint8), scale="0..1")
    assert np.array_equal(steps.apply(PICTURE), PICTURE)
    assert steps.scale_left == "0..1"
    assert Preprocessing(scale="0..1").scale_left == ""


@pytest.mark.parametrize("value", [0.5, 256.0, -1.0, np.nan])
def test_whole_dtypes_refuse_what_they_cannot_hold(value: float) -> None:
    steps = Preprocessing(dtype=np.dtype(np.uint8), missing="zero")
    assert steps.apply(np.array([255.0, 0.0])).tolist() == [255, 0]
    steps = Preprocessing(dtype=np.dtype(np.uint8))
    with pytest.raises(DataError, match=r"whole numbers from 0 to 255|missing"):
        steps.apply(np.array([255.0, value]))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("dtype", "value"), [("float32", np.inf), ("float32", -1e300), ("float16", 70_000.0)]
)
def test_values_stay_finite_in_the_dtype_of_the_file(dtype: str, value: float) -> None:
    steps = Preprocessing(dtype=np.dtype(dtype))
    with pytest.raises(DataError, match=re.escape(f"finite in {dtype}, but got {value:g}")):
        steps.apply(np.array([1.0, value]))


@pytest.mark.filterwarnings("error")
def test_targets_are_finite_in_float32() -> None:
    for value in (np.inf, 1e300):
        with pytest.raises(DataError, match="must be finite in float32"):
            Targets().apply(np.array(value))
    with pytest.raises(DataError, match="the target is missing"):
        Targets().apply(np.array([1.0, np.nan]))


def test_flatten_comes_last() -> None:
    assert Preprocessing(flatten=True, resize=Resize(2, 2)).apply(PICTURE).shape == (12,)
    with pytest.raises(DataError, match=r"must become \(7,\)"):
        Preprocessing(shape=(7,)).apply(PICTURE)


@pytest.mark.parametrize(
    ("targets", "target", "expected"),
    [
        (Targets(("a", "b")), np.array(1), [0.0, 1.0]),
        (Targets(("a", "b"), one_hot=False), np.array(1), 1),
        (Targets(), np.array(2.5), [2.5]),
        (Targets(), np.array([2.5, 3]), [2.5, 3.0]),
    ],
)
def test_targets_are_encoded_as_requested(
    targets: Targets, target: Array, expected: object
) -> None:
    assert targets.apply(target).tolist() == expected


def test_a_label_beyond_the_classes_is_refused() -> None:
    with pytest.raises(DataError, match="0 … 1, but got 2"):
        Targets(("a", "b")).apply(np.array(2))
