"""Blocks of memory placed in the order of time."""

import random
import sys

import pytest
from support.networks import Net
from support.rewriting import plan_of

from odt.core.planning.lifetimes import lifetimes_without_overlays, live_bytes
from odt.core.planning.memory import MAX_IN_A_LIST, Interval, plan_memory, sweep
from odt.core.planning.verify import faults


def drawn(seed: int, count: int) -> list[Interval]:
    draw = random.Random(seed)
    starts = sorted(draw.randrange(count) for _ in range(count))
    sizes = (0, 64, 64, 128, 320, 4096)
    return [Interval(k, k + draw.choice((0, 1, 3, 40)), draw.choice(sizes)) for k in starts]


@pytest.mark.parametrize("seed", range(20))
def test_bytes_in_use_belong_to_one_interval(seed: int) -> None:
    intervals = drawn(seed, 200)
    offsets, end = sweep(intervals, sys.maxsize)
    used = list(zip(intervals, offsets, strict=True))
    assert end == max(offset + i.nbytes for i, offset in used)
    for k, (one, at) in enumerate(used):
        for other, there in used[:k]:
            meet = one.first <= other.last and other.first <= one.last
            assert not meet or at + one.nbytes <= there or there + other.nbytes <= at


def test_holes_that_touch_become_one() -> None:
    intervals = [
        Interval(0, 1, 64),
        Interval(0, 2, 64),
        Interval(0, 9, 64),
        Interval(3, 9, 128),  # where the first two were
        Interval(4, 4, 64),
        Interval(5, 9, 128),  # in the place of the one before, and beyond it
    ]
    assert sweep(intervals, sys.maxsize) == ([0, 64, 128, 0, 192, 192], 320)


def test_the_smallest_hole_that_fits_is_taken() -> None:
    intervals = [
        Interval(0, 0, 256),
        Interval(0, 9, 64),
        Interval(0, 0, 128),
        Interval(0, 9, 64),
        Interval(1, 9, 128),
        Interval(1, 9, 192),
    ]
    assert sweep(intervals, sys.maxsize) == ([0, 256, 320, 448, 320, 0], 512)


def test_a_sweep_stops_at_its_limit() -> None:
    intervals = [Interval(0, 9, 64), Interval(1, 9, 128), Interval(2, 9, 64)]
    offsets, end = sweep(intervals, 192)
    assert (offsets, end) == ([0], 192)


def test_the_arena_of_many_layers_is_little_larger_than_the_bytes_alive() -> None:
    net = Net()
    x = net.input(1, 16)
    for width in (24, 16, 40, 16) * 150:
        x = net.dense(x, width, fused_activation_function=1)
    plan = plan_of(net.graph(net.dense(x, 4)), 4)
    alive = lifetimes_without_overlays(plan)
    assert len(alive) > MAX_IN_A_LIST
    memory = plan_memory(plan)
    assert not faults(plan, memory)
    assert memory.nbytes <= 1.1 * max(live_bytes(plan, alive))
