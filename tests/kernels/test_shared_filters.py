"""Calls long enough that several threads share them: products, filter gradients, sums."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from support.op_run import Case, as_kernel, row_of

from odt.kernels.native import library
from odt.kernels.rows.opdef import Kernel

# x and w: few units, channels of several vectors, units that no register tile divides, many taps
SHAPES = [
    ((1, 40, 40, 16), (3, 9, 9, 16)),
    ((2, 20, 20, 64), (20, 3, 3, 64)),
    ((1, 16, 16, 112), (16, 3, 3, 112)),
    ((1, 4, 4, 200), (200, 2, 3, 200)),
    ((1, 1, 1, 900), (400, 1, 1, 900)),
]
# channels of one vector and a half, and of several: the last one overlaps the one before
DEPTHWISE = [((1, 20, 20, n), (1, 5, 5, n)) for n in (20, 24, 40, 72)]


def compiled(kernel: Kernel) -> Kernel:
    assert kernel.compiled is not None
    return as_kernel(kernel, kernel.compiled)


def assert_bits_of_one_thread(case: Case, kernels: Mapping[str, Kernel]) -> Mapping[str, Any]:
    """Returns the arrays that each kernel writes."""
    case.forward()
    case.seed_gradients()
    each = {name: compiled(kernel) for name, kernel in kernels.items()}
    alone = {name: case.run(kernel, of=name) for name, kernel in each.items()}
    try:
        for threads in (2, 3, 16):
            library.set_threads(threads)
            for name, kernel in each.items():
                for array, a in case.run(kernel, of=name).items():
                    assert a.tobytes() == alone[name][array].tobytes(), f"{array}, {threads}"
    finally:
        library.set_threads(1)
    return alone


@pytest.mark.parametrize("kernels", library.instruction_sets())
@pytest.mark.parametrize(
    ("operator", "x", "w"),
    [("CONV_2D", *s) for s in SHAPES] + [("DEPTHWISE_CONV_2D", *s) for s in DEPTHWISE],
)
def test_threads_give_the_bits_of_one(
    operator: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    kernels: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ODT_KERNELS", kernels)
    rng = np.random.default_rng(0)
    row = row_of(operator)
    arrays = {n: rng.normal(size=s).astype(np.float32) for n, s in (("x", x), ("w", w))}
    case = Case.make(row, row.attrs({"padding": 0, "stride_w": 1, "stride_h": 1}, {}), arrays)
    alone = assert_bits_of_one_thread(case, {"y": row.forward, **case.gradients()})
    sums = "abco,abci->oi" if operator == "CONV_2D" else "abco,abco->o"
    exact = np.einsum(sums, case.arrays["dy"], case.arrays["x"], dtype=np.float64)
    center = alone["w"]["dw"][:, (w[1] - 1) // 2, (w[2] - 1) // 2]
    np.testing.assert_allclose(center.reshape(exact.shape), exact, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kernels", library.instruction_sets())
def test_threads_share_sums_of_columns(kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODT_KERNELS", kernels)
    rng = np.random.default_rng(0)
    row = row_of("MUL")
    shapes = {"a": (1, 70, 30, 75), "b": (1, 1, 1, 75)}
    arrays = {n: rng.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    case = Case.make(row, row.attrs({}, {}), arrays)
    alone = assert_bits_of_one_thread(case, case.gradients())
    exact = np.sum(case.arrays["dy"] * case.arrays["a"].astype(np.float64), (0, 1, 2))
    np.testing.assert_allclose(alone["b"]["db"].ravel(), exact, rtol=1e-4, atol=1e-3)
