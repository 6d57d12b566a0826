"""Compiled copies, and sums of rows, that threads divide."""

from collections.abc import Iterator

import numpy as np
import pytest

from odt.kernels.native import library
from odt.kernels.native.copies import LINES, copy, copy_shape
from odt.kernels.native.elementwise import column_sums

pytestmark = pytest.mark.skipif(not library.is_available(), reason="nothing is compiled")
SETS = library.instruction_sets()


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    library.set_threads(3)
    yield
    library.set_threads(1)


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (7, 13), (300, 64), (513, 200)])
def test_rows_within_wider_rows_are_summed_in_their_order(
    instruction_set: str, rows: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODT_KERNELS", instruction_set)
    wide = np.random.default_rng(rows).normal(size=(rows, 3 * width)).astype(np.float32)
    total = np.full(width, np.nan, np.float32)
    column_sums(wide, total, 3 * width, first=width)()
    np.testing.assert_array_equal(total, np.add.accumulate(wide[:, width : 2 * width])[-1])


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("size", [1, 100, LINES**2, LINES * 999, LINES * 999 + 1])
def test_a_long_row_is_copied_or_filled(
    instruction_set: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODT_KERNELS", instruction_set)
    numbers = np.arange(2 * size, dtype=np.int32)
    target = np.zeros(size + 1, np.int32)
    for x in (numbers[:size], numbers[::2], np.broadcast_to(np.int32(7), size)):
        target[:] = -1
        copy(x, target[:size])()
        np.testing.assert_array_equal(target[:size], x)
        assert target[size] == -1


def test_threads_can_divide_a_long_row() -> None:
    a, b = np.zeros((2, LINES**2), np.int32)
    shape = copy_shape(a, b)
    assert shape is not None
    assert (shape.lines, shape.length) == (LINES, LINES)
    few = copy_shape(a[:-1], b[:-1])
    assert few is not None
    assert (few.lines, few.length) == (1, LINES**2 - 1)


@pytest.mark.parametrize("instruction_set", SETS)
def test_short_lines_are_copied_beside_others(
    instruction_set: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing before or after a line is written, as where images lie side by side as channels."""
    monkeypatch.setenv("ODT_KERNELS", instruction_set)
    for length in range(1, 40):
        x = np.arange(37 * length, dtype=np.int32).reshape(37, length)
        target = np.full((37, 3, length), -1, np.int32)
        copy(x, target[:, 1])()
        np.testing.assert_array_equal(target[:, 1], x)
        assert (target[:, ::2] == -1).all()
