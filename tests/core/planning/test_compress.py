"""Digests in place of forward values: the same numbers in less memory."""

from collections.abc import Mapping

import numpy as np
import pytest
from support.op_run import best_form
from support.rewriting import GRAPHS, plan_of, trained

from odt.core.planning.memory import plan_memory
from odt.core.planning.plan import Plan
from odt.core.planning.rewrites.choose_dropped import choose_dropped
from odt.core.planning.rewrites.compress import choose_digests, use_digests
from odt.core.planning.rewrites.recompute import recompute
from odt.core.planning.verify import faults
from odt.kernels.geometry.pool_geometry import PoolAttrs
from odt.kernels.native import library
from odt.kernels.native.library import is_available
from odt.kernels.registry import find_operator
from odt.kernels.rows.opdef import Array, Attrs, Kernel, OpDef, TensorSpec

SAME, VALID = 0, 1


def rewritten(plan: Plan) -> Plan:
    return use_digests(plan, choose_digests(plan))


def both(plan: Plan) -> Plan:
    plan = rewritten(plan)
    return recompute(plan, next(choose_dropped(plan, [0])))


@pytest.mark.parametrize("rewrite", [rewritten, both])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("name", ["mnist", "resnet8", "mobilenet"])
def test_ten_steps_give_the_same_bits(
    name: str, whole: bool, rewrite: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(rewrite)
    graph = GRAPHS[name]()
    assert choose_digests(plan_of(graph, 2))
    with monkeypatch.context() as patch:
        usual = trained(graph, patch, lambda plan: plan, whole)
    assert np.isfinite(usual).all()
    assert usual.tobytes() == trained(graph, monkeypatch, rewrite, whole).tobytes()


def test_the_arena_shrinks_and_nothing_is_overwritten() -> None:
    """Convolution, RELU, pool: bits and bytes instead of floats."""
    plan = plan_of(GRAPHS["mnist"](), 8)
    less = rewritten(plan)
    share = 0.7 if is_available() else 0.8  # NumPy's columns of convolutions stay
    assert plan_memory(less).nbytes < share * plan_memory(plan).nbytes
    assert not faults(less, plan_memory(less))


def test_nothing_is_kept_that_frees_nothing() -> None:
    """RELU6 outputs that a convolution's weights read stay anyway."""
    plan = plan_of(GRAPHS["mobilenet"](), 2)
    count = sum("RELU" in line and " d.x(" in line for line in str(plan).splitlines())
    assert len(choose_digests(plan)) < 0.2 * count


def run(kernel: Kernel, attrs: Attrs, arrays: dict[str, Array], like: Mapping[str, Array]) -> Array:
    """What a kernel writes, its inputs read-only and its workspace poisoned."""
    specs = {n: TensorSpec(a.shape, a.dtype) for n, a in {**like, **arrays}.items()}
    (name,) = kernel.writes
    out = np.full_like(like[name], 77)
    bound = {n: arrays[n] for n in kernel.reads}
    for a in bound.values():
        a.flags.writeable = False
    scratch = {n: np.empty(s.shape, s.dtype) for n, s in kernel.workspace(attrs, specs).items()}
    for a in scratch.values():
        a.view(np.uint8).fill(0xFF if a.dtype.kind == "f" else 1)
    kernel.run(attrs, **bound, **{name: out}, **scratch, **kernel.prepare(attrs, specs))
    return out


def check(row: OpDef, attrs: Attrs, x: Array) -> None:
    """The second form gives dx as the first does, to the bit."""
    usual = row.grads["x"]
    assert isinstance(usual, Kernel)
    form = usual.digest
    assert form is not None
    y_spec = row.infer(attrs, {"x": TensorSpec(x.shape, x.dtype)})["y"]
    y = run(row.forward, attrs, {"x": x}, {"y": np.empty(y_spec.shape, x.dtype)})
    dy = np.empty_like(y)
    np.copyto(dy, np.random.default_rng(1).normal(size=y.shape), casting="same_kind")
    specs = {n: TensorSpec(a.shape, a.dtype) for n, a in {"x": x, "y": y}.items()}
    assert form.fits(attrs, specs)
    kept = form.spec(attrs, specs)
    assert kept.nbytes <= y.nbytes / 4
    arrays = {"x": x, "y": y, "dy": dy}
    expected = run(best_form(usual, attrs, specs), attrs, arrays, {"dx": x, "x": x, "y": y})
    assert np.abs(expected).max() > 0
    keep, back = (best_form(kernel, attrs, specs) for kernel in (form.make, form.gradient))
    digest = run(keep, attrs, arrays, {"digest": np.empty(kept.shape, kept.dtype)})
    got = run(back, attrs, {"dy": dy, "digest": digest}, {"dx": x, "x": x, "y": y})
    assert got.tobytes() == expected.tobytes()


@pytest.fixture(params=["numpy", *library.instruction_sets()])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODT_KERNELS", request.param)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1"])
@pytest.mark.parametrize("size", [40, 16384, 40003])
def test_a_clamp_needs_one_bit(name: str, size: int, dtype: type) -> None:
    row = find_operator(name)
    assert row is not None
    x: Array = np.random.default_rng(0).normal(1, 3, (1, size)).astype(dtype)
    x[0, :4] = 0, 1, 6, -1
    check(row, None, x)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize(("window", "stride"), [((2, 2), (2, 2)), ((3, 2), (3, 3))])
def test_a_pool_needs_a_byte(
    padding: int, window: tuple[int, int], stride: tuple[int, int]
) -> None:
    row = find_operator("MAX_POOL_2D")
    assert row is not None
    for images, width in ((3, 8), (40, 100)):  # the second in several tiles
        drawn = np.random.default_rng(0).integers(-2, 3, (images, 7, width, 16))  # with ties
        check(row, PoolAttrs(padding, stride, window), drawn.astype(np.float32))


def test_windows_that_overlap_keep_their_first_form() -> None:
    row = find_operator("MAX_POOL_2D")
    assert row is not None
    kernel = row.grads["x"]
    assert isinstance(kernel, Kernel)
    assert kernel.digest is not None
    x = TensorSpec((1, 8, 8, 1), np.dtype(np.float32))
    assert not kernel.digest.fits(PoolAttrs(SAME, (2, 2), (3, 3)), {"x": x})
