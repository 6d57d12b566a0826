"""The bias gradient, which compiled kernels of filter gradients compute at the same time."""

import numpy as np
import pytest

from odt.kernels.native.library import instruction_sets
from odt.kernels.ops import conv_2d, depthwise_conv_2d
from odt.kernels.rows.opdef import Kernel, OpDef, TensorSpec

FLOAT32 = np.dtype(np.float32)


@pytest.mark.parametrize("kernels", instruction_sets())
@pytest.mark.parametrize("channels", [3, 16, 64, 80, 131])
@pytest.mark.parametrize("op", [conv_2d.OP, depthwise_conv_2d.OP], ids=lambda op: op.name)
def test_it_is_the_sum_over_images_and_positions(
    op: OpDef, channels: int, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODT_KERNELS", kernels)
    options = {"padding": 0, "stride_w": 1, "stride_h": 1, "depth_multiplier": 1}
    depthwise = op.name.startswith("DEPTHWISE")
    width = channels if depthwise else 5
    attrs = op.attrs(options, {})
    rng = np.random.default_rng(0)
    arrays = {
        "dy": rng.normal(size=(2, 6, 7, channels)).astype(np.float32),
        "x": rng.normal(size=(2, 6, 7, width)).astype(np.float32),
    }
    w = (1, 3, 3, channels) if depthwise else (channels, 3, 3, width)
    specs = {n: TensorSpec(a.shape, FLOAT32) for n, a in arrays.items()}
    specs |= {"w": TensorSpec(w, FLOAT32), "dw": TensorSpec(w, FLOAT32), "y": specs["dy"]}
    gradient = op.grads["w"]
    assert isinstance(gradient, Kernel)
    compiled = gradient.compiled
    assert compiled is not None
    for name, spec in compiled.workspace(attrs, specs).items():
        arrays[name] = np.full(spec.shape, np.nan, spec.dtype)
    arrays["dw"], arrays["db"] = np.full(w, np.nan, FLOAT32), np.full(channels, np.nan, FLOAT32)
    compiled.bind(attrs, **arrays, **compiled.prepare(attrs, specs))()
    np.testing.assert_allclose(arrays["db"], arrays["dy"].sum((0, 1, 2)), rtol=1e-4, atol=1e-4)
