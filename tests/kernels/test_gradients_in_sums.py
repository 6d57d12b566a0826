"""Filter gradients that compiled kernels add to a sum, in every form that computes them."""

from typing import Any

import numpy as np
import pytest

from odt.kernels.native.library import instruction_sets
from odt.kernels.ops import conv_2d, fully_connected
from odt.kernels.rows.opdef import Array, Kernel, OpDef, TensorSpec

FLOAT32 = np.dtype(np.float32)
OPTIONS = {"padding": 0, "stride_w": 1, "stride_h": 1}
SHAPES = {  # of x and w: one tap, taps apart, taps merged, few channels or filters, tiles, dense
    "one tap": ((2, 6, 7, 40), (37, 1, 1, 40)),
    "taps": ((2, 6, 7, 48), (24, 3, 3, 48)),
    "merged taps": ((2, 6, 7, 17), (5, 3, 3, 17)),
    "few channels": ((2, 6, 7, 3), (21, 3, 3, 3)),
    "few of both": ((2, 6, 7, 3), (4, 3, 3, 3)),
    "tiles": ((1, 12, 12, 32), (32, 3, 3, 32)),
    "dense": ((9, 50), (33, 50)),
    "one row": ((1, 50), (33, 50)),
}


def gradient(
    x: tuple[int, ...], w: tuple[int, ...], dw: Array, adds: list[int] | None = None
) -> Array:
    """Computes a filter gradient into dw."""
    op: OpDef = conv_2d.OP if len(x) == 4 else fully_connected.OP
    rng = np.random.default_rng(1)
    dy = rng.normal(size=(*x[:-1], w[0])).astype(np.float32)
    arrays: dict[str, Any] = {"dy": dy, "x": rng.normal(size=x).astype(np.float32), "dw": dw}
    attrs = op.attrs(OPTIONS, {})
    specs = {n: TensorSpec(a.shape, FLOAT32) for n, a in arrays.items()}
    specs |= {"w": specs["dw"], "y": specs["dy"]}
    kernel = op.grads["w"]
    assert isinstance(kernel, Kernel)
    compiled = kernel.compiled
    assert compiled is not None
    assert compiled.in_sums
    for name, spec in compiled.workspace(attrs, specs).items():
        arrays[name] = np.full(spec.shape, np.nan, spec.dtype)
    if adds is not None:
        arrays["adds"] = np.array(adds, np.int64)
    compiled.bind(attrs, **arrays, **compiled.prepare(attrs, specs))()
    return dw


@pytest.mark.parametrize("kernels", instruction_sets())
@pytest.mark.parametrize("name", SHAPES)
def test_it_is_added_or_begins_a_sum(
    name: str, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODT_KERNELS", kernels)
    x, w = SHAPES[name]
    empty = np.full(w, np.nan, FLOAT32)
    whole = gradient(x, w, empty.copy())
    assert gradient(x, w, empty.copy(), adds=[0]).tobytes() == whole.tobytes()
    before = np.random.default_rng(2).normal(size=w).astype(np.float32)
    found = gradient(x, w, before.copy(), adds=[1])
    np.testing.assert_allclose(found, before + whole, rtol=1e-4, atol=1e-4)
