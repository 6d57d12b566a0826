"""Relocatable tables: the same calls on other memory."""

import numpy as np
import pytest

from odt.kernels.native.binding import bind
from odt.kernels.native.library import is_available
from odt.kernels.native.regions import Regions, address
from odt.kernels.native.table import Table
from odt.kernels.native.updates import NEVER, bind_accumulate
from odt.kernels.rows.opdef import Array

pytestmark = pytest.mark.skipif(not is_available(), reason="no compiled kernels")


def memory(seed: int) -> Array:
    return np.random.default_rng(seed).normal(size=64).astype(np.float32)


def test_a_table_runs_on_other_memory_and_on_that_which_all_share() -> None:
    shared, first, second = memory(1), memory(2), memory(3)
    scale = [bind_accumulate(first[8:16], shared[:8], np.ones(1, np.int64))]
    copy = [bind_accumulate(first[32:40], first[8:16], NEVER)]
    table = Table([*scale, *copy], Regions([first]))
    before, expected = first.copy(), second.copy()
    expected[8:16] += shared[:8]
    expected[32:40] = expected[8:16]
    table.resolve(Regions([second]))()
    np.testing.assert_array_equal(second, expected)
    np.testing.assert_array_equal(first, before)


def test_an_operand_is_a_place_in_the_region_in_which_it_begins() -> None:
    low, high, other = np.zeros((3, 32), np.float32)
    calls = bind_accumulate(high[4:12], low[8:16], other[:2].view(np.int64))
    ((name, operands),) = Table([calls], Regions([high, low]))
    assert name == "accumulate"
    total, gradient, size, adds = operands
    assert total == (0, 16)
    assert gradient == (1, 32)
    assert size == 8
    assert adds.ctypes.data == other.ctypes.data


def test_a_kernel_refuses_an_array_for_a_number() -> None:
    with pytest.raises(TypeError):
        bind("accumulate", memory(1), memory(2), memory(3), NEVER)


def test_the_address_is_that_of_the_first_value_in_any_memory() -> None:
    whole = memory(1).reshape(8, 8)
    fixed = whole.copy()
    fixed.flags.writeable = False
    for a in (whole, whole[2:], whole[:, 3:], whole[::-1], whole[:0], fixed[1:], np.zeros(())):
        assert address(a) == a.__array_interface__["data"][0]
