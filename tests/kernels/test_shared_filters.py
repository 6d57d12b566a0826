"""Convolutions large enough that several threads share each product and filter gradient."""

import numpy as np
import pytest
from support.op_run import Case, as_kernel, row_of

from odt.kernels.native import library
from odt.kernels.opdef import Kernel

# x and w: few units, channels of several vectors, units that no register tile divides, many taps
SHAPES = [
    ((1, 40, 40, 16), (3, 9, 9, 16)),
    ((2, 20, 20, 64), (20, 3, 3, 64)),
    ((1, 16, 16, 112), (16, 3, 3, 112)),
    ((1, 4, 4, 200), (200, 2, 3, 200)),
    ((1, 1, 1, 900), (400, 1, 1, 900)),
]


def compiled(kernel: Kernel) -> Kernel:
    assert kernel.compiled is not None
    return as_kernel(kernel, kernel.compiled)


@pytest.mark.parametrize("kernels", library.instruction_sets())
@pytest.mark.parametrize(("x", "w"), SHAPES)
def test_threads_give_the_bits_of_one(
    x: tuple[int, ...], w: tuple[int, ...], kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODT_KERNELS", kernels)
    rng = np.random.default_rng(0)
    row = row_of("CONV_2D")
    arrays = {n: rng.normal(size=s).astype(np.float32) for n, s in (("x", x), ("w", w))}
    case = Case.make(row, row.attrs({"padding": 0, "stride_w": 1, "stride_h": 1}, {}), arrays)
    case.forward()
    case.seed_gradients()
    each = {n: compiled(k) for n, k in (("y", row.forward), *case.gradients().items())}
    alone = {name: case.run(kernel, of=name) for name, kernel in each.items()}
    exact = np.tensordot(case.arrays["dy"], case.arrays["x"], ((0, 1, 2), (0, 1, 2)))
    centre = alone["w"]["dw"][:, (w[1] - 1) // 2, (w[2] - 1) // 2]
    np.testing.assert_allclose(centre, exact, rtol=1e-4, atol=1e-3)
    try:
        for threads in (2, 3, 16):
            library.set_threads(threads)
            for name, kernel in each.items():
                for array, a in case.run(kernel, of=name).items():
                    assert a.tobytes() == alone[name][array].tobytes(), f"{array}, {threads}"
    finally:
        library.set_threads(1)
