"""Compiled DEPTHWISE_CONV_2D with a depth multiplier takes the ReLU mask of the operator before."""

import numpy as np
import pytest

from odt.kernels.geometry.conv_geometry import back_geometry, conv_attrs
from odt.kernels.native import depthwise, library
from odt.kernels.rows.opdef import TensorSpec


@pytest.mark.skipif(not library.is_available(), reason="no compiled kernels")
@pytest.mark.parametrize("channels", [3, 20])
def test_the_relu_mask_of_an_input_gradient_applies_to_the_sum(channels: int) -> None:
    rng, float32 = np.random.default_rng(0), np.dtype(np.float32)
    x, w = (2, 6, 5, channels), (1, 3, 3, 2 * channels)
    attrs = conv_attrs({"padding": 0, "stride_h": 1, "stride_w": 2}, {})
    dy, taps = (rng.normal(size=s).astype(np.float32) for s in ((2, 6, 3, w[3]), w))
    specs = {"dx": TensorSpec(x, float32), "w": TensorSpec(w, float32)}
    geometry = back_geometry(attrs, {**specs, "dy": TensorSpec(dy.shape, float32)})
    (scratch,) = depthwise.back_workspace(attrs, specs).values()
    given = {"dy": dy, "w": taps, "repeated": np.empty(scratch.shape, np.float32), **geometry}
    plain, masked, opened = np.empty(x, np.float32), np.empty(x, np.float32), rng.normal(size=x)
    opened = opened.astype(np.float32)
    depthwise.grad_x(attrs, dx=plain, **given)()
    depthwise.grad_x(attrs, dx=masked, relu_mask=(opened, 0.0, 1.0), **given)()
    assert plain.any()
    np.testing.assert_array_equal(masked, np.where((opened > 0) & (opened < 1), plain, 0))
