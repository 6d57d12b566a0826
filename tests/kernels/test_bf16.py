"""Products of bfloat16: exact up to the rounding of float32 sums, by both forms of the kernels."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from odt.kernels.geometry.window import SAME, VALID
from odt.kernels.native import library
from odt.kernels.native.bf16 import LEAST
from odt.kernels.ops import batch_matmul, conv_2d, fully_connected
from odt.kernels.rows.opdef import PACKED, PACKS, Array, Kernel, OpDef, TensorSpec

pytestmark = pytest.mark.skipif(bool(library.lacks_bf16()), reason="kernels without bfloat16")
FLOAT = np.dtype(np.float32)


@pytest.fixture(params=["dot products", "multiply-adds"], autouse=True)
def form(request: pytest.FixtureRequest) -> Iterator[None]:
    found: Any = library.load()
    found.use_bf16_pairs(request.param == "dot products")
    yield
    found.use_bf16_pairs(-1)


def rounded(a: Array) -> Array:
    """Rounds to bfloat16, halves to even, as float64."""
    bits = a.view(np.uint32).astype(np.uint64)
    nearest = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return nearest.astype(np.uint32).view(np.float32).astype(np.float64)


def specs_of(
    row: OpDef, attrs: Any, inputs: Mapping[str, tuple[int, ...]]
) -> dict[str, TensorSpec]:
    """Returns the specs of all arrays of an operator and of its gradients."""
    specs = {n: TensorSpec(shape, FLOAT) for n, shape in inputs.items()}
    specs |= row.infer(attrs, specs)
    return specs | {f"d{n}": s for n, s in specs.items()}


def drawn(specs: Mapping[str, TensorSpec]) -> dict[str, Array]:
    rng = np.random.default_rng(5)
    return {n: rng.standard_normal(s.shape, FLOAT) for n, s in specs.items()}


def run_bf16(
    kernel: Kernel, attrs: Any, specs: Mapping[str, TensorSpec], arrays: Mapping[str, Any],
    **extra: Any,
) -> None:  # fmt: skip
    """Runs the form for bfloat16, with scratch memory that holds NaN."""
    assert kernel.compiled is not None
    form = kernel.compiled.bf16
    assert form is not None
    scratch = {
        n: np.full(s.shape, np.nan, s.dtype) for n, s in form.workspace(attrs, specs).items()
    }
    form.bind(attrs, **{**arrays, **scratch, **form.prepare(attrs, specs), **extra})()


def in_float64(
    kernel: Kernel, attrs: Any, specs: Mapping[str, TensorSpec], wide: dict[str, Array]
) -> Array:
    """Computes the result in float64 from arrays in float64, which include that of the result."""
    scratch = {n: np.zeros(s.shape) for n, s in kernel.workspace(attrs, specs).items()}
    kernel.run(attrs, **wide, **scratch, **kernel.prepare(attrs, specs))
    (written,) = kernel.writes
    return wide[written]


def check(row: OpDef, kernel: Kernel, attrs: Any, inputs: Mapping[str, tuple[int, ...]]) -> None:
    specs = specs_of(row, attrs, inputs)
    values = drawn(specs)
    (written,) = kernel.writes
    names = [n.removesuffix("?") for n in (*kernel.reads, written)]
    arrays = {n: values[n] for n in names if n in values}
    exact = {n: a.astype(np.float64) for n, a in arrays.items()}
    factors = {n: rounded(a) for n, a in arrays.items() if a.ndim > 1}  # a bias is not rounded
    want = in_float64(kernel, attrs, specs, exact | factors)
    run_bf16(kernel, attrs, specs, arrays)
    size = np.abs(want).max()
    assert np.abs(arrays[written] - want).max() <= 3e-6 * size
    rounding = np.abs(want - in_float64(kernel, attrs, specs, exact)).max()
    assert rounding > 1e-4 * size, "rounding must be seen in the results"


def kernels_of(row: OpDef, *names: str) -> list[Kernel]:
    gradients = [row.grads[n] for n in names]
    assert all(isinstance(k, Kernel) for k in gradients)
    return [row.forward, *gradients]  # type: ignore[list-item]


@pytest.mark.parametrize("sizes", [(40, 33, 50), (300, 513, 17), (129, 16, 400), (32, 1030, 64)])
@pytest.mark.parametrize("k", range(3))
def test_dense_layers(sizes: tuple[int, int, int], k: int) -> None:
    rows, depth, units = sizes
    row = fully_connected.OP
    kernel = kernels_of(row, "x", "w")[k]
    check(row, kernel, row.attrs({}, {}), {"x": (rows, depth), "w": (units, depth), "b": (units,)})


@pytest.mark.parametrize("k", range(3))
@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        ((2, 9, 11, 16), (40, 3, 3, 16), {"padding": SAME}),
        ((1, 12, 7, 5), (33, 5, 3, 5), {"padding": SAME, "stride_w": 2, "stride_h": 2}),
        ((2, 8, 8, 32), (20, 1, 1, 32), {"padding": VALID, "stride_w": 2, "stride_h": 2}),
        ((1, 1, 40, 48), (64, 1, 3, 48), {"padding": VALID, "dilation_w_factor": 4}),
        ((3, 6, 6, 3), (17, 3, 3, 3), {"padding": VALID}),
        ((1, 20, 20, 24), (300, 3, 3, 24), {"padding": SAME}),
    ],
)
def test_convolutions(
    x: tuple[int, ...], w: tuple[int, ...], options: Mapping[str, int], k: int
) -> None:
    row = conv_2d.OP
    attrs = row.attrs({"stride_w": 1, "stride_h": 1, **options}, {})
    check(row, kernels_of(row, "x", "w")[k], attrs, {"x": x, "w": w, "b": w[:1]})


@pytest.mark.parametrize("k", range(3))
@pytest.mark.parametrize("adjoint", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("shapes", [((2, 3, 35, 40), (2, 3, 40, 50)), ((3, 64, 300), (300, 34))])
def test_matrix_products(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], adjoint: tuple[bool, bool], k: int
) -> None:
    row = batch_matmul.OP
    attrs = row.attrs({"adj_x": adjoint[0], "adj_y": adjoint[1]}, {})
    a, b = ((*s[:-2], s[-1], s[-2]) if t else s for s, t in zip(shapes, adjoint, strict=True))
    kernel = kernels_of(row, "a", "b")[k]
    assert kernel.compiled is not None
    specs = specs_of(row, attrs, {"a": a, "b": b})
    if not kernel.compiled.fits(attrs, specs):
        pytest.skip("a product that is broadcast")
    check(row, kernel, attrs, {"a": a, "b": b})


def test_epilogues_and_sums_are_those_of_separate_calls() -> None:
    row = conv_2d.OP
    attrs = row.attrs({"stride_w": 1, "stride_h": 1, "padding": SAME}, {})
    forward, back, filters = kernels_of(row, "x", "w")
    specs = specs_of(row, attrs, {"x": (2, 7, 9, 16), "w": (40, 3, 3, 16), "b": (40,)})
    v = drawn(specs)
    layer = {n: v[n] for n in ("x", "w", "b")}
    clamped = np.empty_like(v["y"])
    run_bf16(forward, attrs, specs, {**layer, "y": v["y"]})
    run_bf16(forward, attrs, specs, {**layer, "y": clamped}, clamp=(-0.5, 1.0))
    np.testing.assert_array_equal(clamped, np.clip(v["y"], -0.5, 1))

    masked, gradient = np.empty_like(v["x"]), {"dy": v["dy"], "w": v["w"]}
    run_bf16(back, attrs, specs, {**gradient, "dx": v["dx"]})
    run_bf16(back, attrs, specs, {**gradient, "dx": masked}, relu_mask=(v["x"], 0.0, np.inf))
    np.testing.assert_array_equal(masked, np.where(v["x"] > 0, v["dx"], 0))

    product, db = {"dy": v["dy"], "x": v["x"]}, np.empty(40, np.float32)
    run_bf16(filters, attrs, specs, {**product, "dw": v["dw"]}, db=db)
    np.testing.assert_allclose(db, v["dy"].sum((0, 1, 2), np.float64), rtol=1e-5, atol=1e-5)
    total, adds = v["dw"].copy(), np.ones(1, np.int64)
    run_bf16(filters, attrs, specs, {**product, "dw": total}, adds=adds)
    np.testing.assert_allclose(total, 2 * v["dw"], rtol=1e-5, atol=1e-4)
    block = np.empty_like(v["dw"][:20])
    run_bf16(filters, attrs, specs, {**product, "dw": block}, first=16)
    np.testing.assert_array_equal(block, v["dw"][16:36])


def test_weights_that_are_packed_before_give_the_same_bits() -> None:
    row = fully_connected.OP
    specs = specs_of(row, row.attrs({}, {}), {"x": (64, 100), "w": (48, 100), "b": (48,)})
    v = drawn(specs)
    arrays = {n: v[n] for n in ("x", "w", "b")}
    run_bf16(row.forward, None, specs, {**arrays, "y": v["y"]})
    assert row.forward.compiled is not None
    assert row.forward.compiled.bf16 is not None
    packed = row.forward.compiled.bf16.packed(None, specs)
    assert packed is not None
    panel, y = np.zeros(packed.shape, packed.dtype), np.empty_like(v["y"])
    for packing in (PACKS, PACKED):
        run_bf16(row.forward, None, specs, {**arrays, "y": y}, panel=panel, packing=packing)
    np.testing.assert_array_equal(y, v["y"])


def test_threads_do_not_change_bits() -> None:
    row = fully_connected.OP
    specs = specs_of(row, row.attrs({}, {}), {"x": (900, 600), "w": (500, 600), "b": (500,)})
    v = drawn(specs)
    results = []
    for cores in (1, 2, 4):
        library.set_threads(cores)
        for kernel, names in zip(kernels_of(row, "x", "w"), ("x w b y", "dy w dx", "dy x dw"),
                                 strict=True):  # fmt: skip
            arrays = {n: v[n].copy() for n in names.split()}
            run_bf16(kernel, None, specs, arrays)
            results.append(arrays[kernel.writes[0]])
    library.set_threads(1)
    for k in range(3):
        np.testing.assert_array_equal(results[k], results[k + 3])
        np.testing.assert_array_equal(results[k], results[k + 6])


def test_small_products_stay_in_float32() -> None:
    row = fully_connected.OP
    assert row.forward.compiled is not None
    form = row.forward.compiled.bf16
    assert form is not None
    attrs = row.attrs({}, {})
    large = specs_of(row, attrs, {"x": (512, 64), "w": (64, 64)})
    assert form.fits(attrs, large)
    for shapes in ({"x": (8, 64), "w": (64, 64)}, {"x": (512, 64), "w": (LEAST - 1, 64)}):
        assert not form.fits(attrs, specs_of(row, attrs, shapes))
