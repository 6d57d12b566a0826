"""Properties of TRANSPOSE_CONV beside its values: adjoint of CONV_2D, workspace, operations."""

import numpy as np
import pytest
from support.op_run import Case, row_of

from odt.kernels.geometry.im2col import TILE_BYTES
from odt.kernels.rows.opdef import Array, Kernel, TensorSpec

FLOAT32 = np.dtype(np.float32)


def forward(op: str, options: dict[str, int], statics: dict[str, Array], **inputs: Array) -> Array:
    row = row_of(op)
    return Case.make(row, row.attrs(options, statics), inputs).forward()["y"]


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (4, 3), (2, 3)])
def test_the_transposed_convolution_is_the_adjoint(kernel: int, stride: int, padding: int) -> None:
    """⟨CONV_2D(a), b⟩ = ⟨a, TRANSPOSE_CONV(b)⟩ for the same filters, stride and padding."""
    rng = np.random.default_rng(0)
    options = {"stride_h": stride, "stride_w": stride, "padding": padding}
    w = rng.normal(size=(5, kernel, kernel, 3))
    a = rng.normal(size=(2, 11, 8, 3))
    y = forward("CONV_2D", options, {}, x=a, w=w)
    b: Array = np.asarray(rng.normal(size=y.shape))
    back = forward(
        "TRANSPOSE_CONV",
        options,
        {"output_shape": np.array(a.shape)},
        x=b,
        w=np.ascontiguousarray(w.transpose(3, 1, 2, 0)),
    )
    assert np.sum(y * b) == pytest.approx(np.sum(a * back), rel=1e-12)


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (1, 2), (2, 3)])
def test_scratch_does_not_grow_with_the_batch(kernel: int, stride: int) -> None:
    row = row_of("TRANSPOSE_CONV")
    sizes: list[list[int]] = []
    for n in (4096, 65536):
        shape = np.array([n, 16 * stride, 16 * stride, 16])
        attrs = row.attrs({"stride_h": stride, "stride_w": stride}, {"output_shape": shape})
        filters = (16, kernel, kernel, 16)
        specs = {"x": TensorSpec((n, 16, 16, 16), FLOAT32), "w": TensorSpec(filters, FLOAT32)}
        specs |= row.infer(attrs, specs)
        specs |= {f"d{name}": spec for name, spec in specs.items()}
        sizes.append([])
        for run in (row.forward, row.grads["x"], row.grads["w"]):
            assert isinstance(run, Kernel)
            sizes[-1].append(sum(s.nbytes for s in run.workspace(attrs, specs).values()))
    assert sizes[0] == sizes[1]
    assert max(sizes[0]) <= 4 * TILE_BYTES


def test_each_value_of_x_is_multiplied_by_each_filter() -> None:
    row = row_of("TRANSPOSE_CONV")
    options = {"stride_h": 2, "stride_w": 2, "padding": 1}
    attrs = row.attrs(options, {"output_shape": np.array((2, 18, 18, 5))})
    specs = {"x": TensorSpec((2, 8, 8, 3), FLOAT32), "w": TensorSpec((5, 4, 4, 3), FLOAT32)}
    products = (2 * 8 * 8) * (4 * 4) * 5 * 3  # positions of x, taps, output and input channels
    assert row.flops(attrs, {**specs, **row.infer(attrs, specs)}) == 2 * products
