"""What the operator table cannot ask of windows: ties, zeros, and how much scratch they want."""

import numpy as np
import pytest
from support.op_run import Case, row_of

from odt.kernels.geometry.im2col import TILE_BYTES
from odt.kernels.opdef import Array, Kernel, TensorSpec

FLOAT32 = np.dtype(np.float32)
POOL = {"filter_height": 2, "filter_width": 2, "padding": 1}


def pool(op: str, x: Array, **options: int) -> Case:
    row = row_of(op)
    return Case.make(row, row.attrs({**POOL, **options}, {}), {"x": x})


def column(*values: float) -> Array:
    return np.array(values, np.float64).reshape(1, 2, -1, 1)


def test_the_first_of_equal_maxima_gets_the_gradient() -> None:
    case = pool("MAX_POOL_2D", column(1, 5, 5, 5, 5, 2))
    case.forward()
    case.arrays["dy"] = np.array([10.0, 20.0]).reshape(1, 1, 2, 1)
    np.testing.assert_array_equal(case.gradient("x"), column(0, 30, 0, 0, 0, 0))


def test_padding_takes_no_gradient_from_negative_maxima() -> None:
    case = pool("MAX_POOL_2D", column(-3, -1, -4, -2), padding=0)
    np.testing.assert_array_equal(case.forward()["y"], column(-1, -1, -2, -2))
    case.arrays["dy"] = column(1, 2, 3, 4)
    np.testing.assert_array_equal(case.gradient("x"), column(0, 3, 0, 7))


def test_a_window_of_zeros_gives_no_gradient() -> None:
    case = pool("L2_POOL_2D", column(0, 0, 3, 0, 0, 4))
    np.testing.assert_allclose(case.forward()["y"].ravel(), [0, 2.5])
    case.arrays["dy"] = np.array([7.0, 10.0]).reshape(1, 1, 2, 1)
    np.testing.assert_allclose(case.gradient("x"), column(0, 0, 3, 0, 0, 4))


@pytest.mark.parametrize("op", ["CONV_2D", "DEPTHWISE_CONV_2D"])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (1, 2), (2, 3)])
def test_scratch_does_not_grow_with_the_batch(op: str, kernel: int, stride: int) -> None:
    """Also where the stride is above the kernel, and some inputs are in no window."""
    row = row_of(op)
    attrs = row.attrs({"stride_h": stride, "stride_w": stride}, {})
    w = (16 if op == "CONV_2D" else 1, kernel, kernel, 16)
    sizes: list[list[int]] = []
    for n in (4096, 65536):
        specs = {"x": TensorSpec((n, 16, 16, 16), FLOAT32), "w": TensorSpec(w, FLOAT32)}
        specs |= row.infer(attrs, specs)
        specs |= {f"d{name}": spec for name, spec in specs.items()}
        sizes.append([])
        for run in (row.forward, row.grads["x"], row.grads["w"]):
            assert isinstance(run, Kernel)
            sizes[-1].append(sum(s.nbytes for s in run.workspace(attrs, specs).values()))
    assert sizes[0] == sizes[1]
    assert max(sizes[0]) <= 4 * TILE_BYTES
