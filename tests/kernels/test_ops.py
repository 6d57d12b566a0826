"""Asks every question of every operator and loss. A new one needs a file in tests/op_db.

What to do when one of these fails stands in the assertion's message.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from op_db import FLOAT32, OP_DB, OpInfo, Refusal, Sample
from support.allocation import MAX_BYTES, peak_of
from support.op_run import (
    Arrays,
    Case,
    converted,
    draw,
    grown,
    kernels,
    make_case,
    normal,
    row_of,
    spec_of,
)
from support.paths import ROOT

from odt.errors import ShapeError
from odt.kernels.registry import LOSSES, operator_names
from odt.kernels.rows.opdef import Array, TensorSpec

STEP = 1e-6  # of one element
# Differences of the reference with 80 bits are exact to about 1e-11, so that a gradient that was
# rounded to float32 on its way shows; with 64 bits they are not.
NEAR = (1e-9, 1e-9) if np.finfo(np.longdouble).eps < 1e-18 else (1e-6, 1e-8)
NEARER = (NEAR[0] / 10, NEAR[1] / 10)  # of directions; in doubt, the elements tell
MANY = 64  # elements of a gradient
DIRECTIONS = 16  # one gradient in 65,536 that is wrong passes
STRIDE = 1e-4  # of a direction of length 1
LEAST_LARGE = 1 << 20

ROWS = pytest.mark.parametrize("info", [pytest.param(i, id=n) for n, i in OP_DB.items()])
SAMPLES = pytest.mark.parametrize(
    ("info", "sample"),
    [pytest.param(i, s, id=f"{n}-{s.label}") for n, i in OP_DB.items() for s in i.samples],
)
LARGE = pytest.mark.parametrize(
    ("info", "sample"),
    [
        pytest.param(i, s, id=f"{n}-{s.label}")
        for n, i in OP_DB.items()
        for s in (i.large, *i.also_large)
    ],
)
REFUSALS = pytest.mark.parametrize(
    ("info", "refusal"),
    [pytest.param(i, r, id=f"{n}-{r.words}") for n, i in OP_DB.items() for r in i.refusals],
)


def reference(info: OpInfo, sample: Sample, inputs: Arrays) -> Arrays:
    found = info.reference({**sample.options, **sample.statics}, inputs)
    return {n: np.asarray(a) for n, a in found.items()}


def smooth(info: OpInfo) -> OpInfo:
    """The operator with the function that the gradients differentiate as its reference."""
    return replace(info, reference=info.straight_through or info.reference)


def inner(a: Array, v: Array) -> Array:
    """Sums products; of complex numbers those of both parts."""
    return np.asarray(np.sum(a.real * v.real) + np.sum(a.imag * v.imag))


def close(got: Array, wanted: Array, rtol: float, atol: float, what: str) -> None:
    assert got.shape == wanted.shape, f"{what}: shape {got.shape}, but should be {wanted.shape}"
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=atol, err_msg=what)


def seeds_of(info: OpInfo, case: Case) -> Arrays:
    """dy of each float output; a loss has none, its gradient is that of the loss itself."""
    if info.name in LOSSES:
        return {n: np.ones(1) for n in case.outputs}
    return {n[1:]: dy for n, dy in case.seed_gradients().items()}


def test_every_operator_and_loss_has_a_file_here() -> None:
    def names(*folders: str) -> set[str]:
        return {p.stem for f in folders for p in (ROOT / f).glob("[a-z]*.py")}

    rows, infos = names("kernels/ops", "kernels/custom", "kernels/losses"), names("tests/op_db")
    assert rows <= infos, f"write tests/op_db/<name>.py for {sorted(rows - infos)}"
    assert infos <= rows, f"tests/op_db: name {sorted(infos - rows)} as the files of their rows"


def test_every_operator_and_loss_has_a_row_here() -> None:
    missing = {*operator_names(), *LOSSES} - set(OP_DB)
    assert not missing, f"write tests/op_db/<name>.py for {sorted(missing)}"


@ROWS
def test_every_input_has_a_gradient_or_a_reason(info: OpInfo) -> None:
    row = row_of(info.name)
    said = [n.rstrip("?") for n in (*row.grads, *row.stops, *row.static, *row.zero_state)]
    wanted = [n.rstrip("?") for n in row.inputs]
    assert sorted(said) == sorted(wanted), (
        "name each input once in grads, stops, static or zero_state"
    )
    assert row.name == info.name


@SAMPLES
def test_forward_is_the_definition(info: OpInfo, sample: Sample) -> None:
    case = make_case(info, sample)
    inputs = dict(case.arrays)
    got = case.forward()
    wanted = reference(info, sample, inputs)
    assert set(got) == set(wanted)
    for name, a in wanted.items():
        assert got[name].dtype == case.specs[name].dtype, f"infer's dtype of {name} is not run's"
        assert np.issubdtype(a.dtype, np.inexact) == spec_of(got[name]).has_gradient
        close(got[name], a, 1e-12, 1e-13, f"{name}: forward differs from the reference")


@SAMPLES
def test_each_gradient_is_that_of_the_reference(info: OpInfo, sample: Sample) -> None:
    """One element at a time; of many elements, along directions that move all of them.

    A wrong gradient is orthogonal to at most every second direction of random signs, whatever
    its errors are: 2^-DIRECTIONS of them pass. If one is found, the elements say where it is.
    """
    case = make_case(info, sample)
    inputs = {n: converted(a, np.longdouble) for n, a in case.arrays.items()}
    case.forward()
    seeds = seeds_of(info, case)

    def slope(name: str, way: Array) -> Any:
        """The central difference of the reference when an input moves by STEP · way."""
        sides = []
        for step in (STEP, -STEP):
            moved = inputs | {name: inputs[name] + step * way}
            sides.append(reference(smooth(info), sample, moved))
        return sum(inner(sides[0][n] - sides[1][n], v) for n, v in seeds.items()) / (2 * STEP)

    rng = np.random.default_rng(3)
    for name in case.gradients():
        got = case.gradient(name)
        shape, units = got.shape, (1, 1j) if got.dtype.kind == "c" else (1,)
        if got.size > MANY:
            signs = rng.choice((-1, 1), (DIRECTIONS, len(units), *shape))
            ways = np.tensordot(signs, units, axes=(1, 0))
            if all(np.isclose(inner(got, w), slope(name, w), *NEARER) for w in ways):
                continue
        for at in np.ndindex(shape):
            one = np.zeros(shape)
            one[at] = 1
            wanted = sum(u * slope(name, u * one) for u in units)
            what = f"d{name}{list(at)} is not the central difference of the reference"
            close(got[at], np.asarray(wanted), *NEAR, what)


@SAMPLES
def test_float32_agrees_with_float64(info: OpInfo, sample: Sample) -> None:
    results = []
    for dtype in (np.float32, np.float64):
        case = make_case(info, sample, dtype)
        made = case.forward()
        case.seed_gradients()
        results.append(made | {f"d{n}": case.gradient(n) for n in case.gradients()})
    for name, a in results[0].items():
        wanted = results[1][name]
        if not spec_of(a).has_gradient:
            np.testing.assert_array_equal(a, wanted)
            continue
        if "output_types" not in sample.options:
            assert a.dtype in (np.float32, np.complex64), f"{name} must keep the inputs' dtype"
        tolerance = 1e-5 * info.loose
        scale = float(np.abs(wanted).max(initial=1.0))
        close(a.astype(wanted.dtype), wanted, tolerance, tolerance * scale, name)


@SAMPLES
def test_results_do_not_depend_on_old_memory(info: OpInfo, sample: Sample) -> None:
    """Every element is written, none of the workspace is read before."""
    results: list[dict[str, bytes]] = []
    for kind in (0, 1):
        case = make_case(info, sample)
        case.forward(kind)
        case.seed_gradients()
        made = {n: case.arrays[n] for n in case.specs if n not in sample.inputs}
        made |= {f"d{n}": case.gradient(n, kind) for n in case.gradients()}
        results.append({n: a.tobytes() for n, a in made.items()})
    for name, a in results[0].items():
        assert a == results[1][name], f"{name} depends on what its memory or workspace held"


@SAMPLES
def test_aliased_kernels_give_equal_bits(info: OpInfo, sample: Sample) -> None:
    case = make_case(info, sample)
    case.forward()
    case.seed_gradients()
    for label, kernel, of in kernels(case):
        apart = case.run(kernel, of=of)
        for pair in kernel.may_alias:
            if not case.fits(pair, apart, case.arrays):
                continue
            for name, a in case.run(kernel, of=of, alias=pair).items():
                assert a.tobytes() == apart[name].tobytes(), (
                    f"{label}: {name} changes when {pair[0]} takes {pair[1]}'s memory; "
                    "take the pair out of may_alias, or read before writing"
                )


@ROWS
def test_every_permission_to_alias_is_tried(info: OpInfo) -> None:
    pairs = set()
    for sample in info.samples:
        case = make_case(info, sample)
        case.forward()
        case.seed_gradients()
        for label, kernel, of in kernels(case):
            apart = case.run(kernel, of=of)
            for written, read in kernel.may_alias:
                tried = case.fits((written, read), apart, case.arrays)
                pairs.add((label, written, read, tried))
    never = {u[:3] for u in pairs} - {u[:3] for u in pairs if u[3]}
    assert not never, f"add a sample in which these have one size: {sorted(never)}"


@SAMPLES
def test_a_view_moves_nothing(info: OpInfo, sample: Sample) -> None:
    case = make_case(info, sample)
    case.forward()
    case.seed_gradients()
    for label, kernel, of in kernels(case):
        specs = case.specs | {n: spec_of(a) for n, a in case.arrays.items()}
        if kernel.view(case.attrs, specs | {f"d{of}": specs[of]} if of else specs):
            ((written, a),) = case.run(kernel, of=of).items()
            read = case.arrays[kernel.reads[0]]
            assert a.tobytes() == read.tobytes(), f"{label}: {written} must hold the same bytes"


@SAMPLES
def test_a_batch_equals_its_samples_computed_one_by_one(info: OpInfo, sample: Sample) -> None:
    """A micro-batch gives its part of the outputs and input gradients, and a term of the others."""
    if not sample.rebatches:
        return
    row, times = row_of(info.name), 3
    attrs = row.attrs(sample.options, sample.statics)
    file = draw(info, sample, np.float64)
    specs = {n: TensorSpec(a.shape, a.dtype) for n, a in file.items()}
    attrs3 = attrs if row.scale_batch is None else row.scale_batch(attrs, specs, times)
    whole = Case.make(row, attrs3, grown(sample, file, times))
    known = {n: whole.specs[n] for n in file}
    grows = [n for n in file if n not in sample.constants]
    mixes = row.mixes_samples(attrs3, known, frozenset(grows))
    assert mixes == sample.mixes, "mixes does not say what the sample says"
    if sample.mixes:
        return
    for name in whole.outputs:
        one = row.infer(attrs, specs)[name].shape
        if info.name not in LOSSES:
            wanted = (one[0] * times, *one[1:])
            assert whole.specs[name].shape == wanted, f"{name} at batch ×{times}: rebatch or mixes"
    count = times if row.scale_batch is not None else whole.arrays[grows[0]].shape[0]
    made, dys = whole.forward(), whole.seed_gradients()
    made = made | {f"d{n}": whole.gradient(n) for n in whole.gradients()}
    given = {n: whole.arrays[n] for n in file}
    parts = []
    for k in range(count):
        inputs = {n: np.split(a, count)[k] if n in grows else a for n, a in given.items()}
        part = Case.make(row, attrs, inputs)
        results = part.forward()
        if info.name not in LOSSES:
            part.arrays |= {n: np.split(a, count)[k] for n, a in dys.items()}
        parts.append(results | {f"d{n}": part.gradient(n) for n in part.gradients()})
    for name, a in made.items():
        summed = name[1:] in sample.constants or name == "loss"
        pieces = [p[name] for p in parts]
        joined = np.asarray(sum(pieces)) if summed else np.concatenate(pieces)
        close(a, joined, 1e-10, 1e-12, f"{name}: if samples meet, mixes must say so")


@SAMPLES
def test_axes_may_be_permuted_if_the_row_says_so(info: OpInfo, sample: Sample) -> None:
    row, case = row_of(info.name), make_case(info, sample)
    rank = max((a.ndim for a in case.arrays.values()), default=0)
    if row.permute is None or any(len(case.specs[n].shape) != rank for n in case.outputs):
        return
    perm = (*range(1, rank), *range(min(rank, 1)))
    back = np.argsort(perm)
    wide = {n: a.reshape((1,) * (rank - a.ndim) + a.shape) for n, a in case.arrays.items()}
    try:
        attrs = row.permute(case.attrs, perm)
    except ShapeError:
        return
    moved = Case.make(row, attrs, {n: a.transpose(back).copy() for n, a in wide.items()})
    wanted, got = case.forward(), moved.forward()
    for name, a in wanted.items():
        close(got[name].transpose(perm), a, 1e-12, 1e-13, f"{name}: permute's attrs are wrong")


@LARGE
def test_a_large_sample_is_right_too(info: OpInfo, sample: Sample) -> None:
    """Forward, and each gradient along one random direction; kernels may work in tiles."""
    case = make_case(info, sample)
    inputs = dict(case.arrays)
    for name, a in reference(info, sample, inputs).items():
        close(case.forward()[name], a, 1e-9, 1e-11, f"{name}: forward differs from the reference")
    seeds = seeds_of(info, case)
    rng = np.random.default_rng(2)
    for name in case.gradients():
        way = normal(rng, spec_of(inputs[name])) / np.sqrt(inputs[name].size)
        sides = [
            reference(smooth(info), sample, inputs | {name: inputs[name] + step * way})
            for step in (STRIDE, -STRIDE)
        ]
        rises = (inner(sides[0][n] - sides[1][n], v) for n, v in seeds.items())
        wanted = sum(rises) / (2 * STRIDE)
        got = inner(case.gradient(name), way)
        what = f"d{name} along a direction is not the central difference of the reference"
        close(got, np.asarray(wanted), 1e-5, 1e-6, what)


@LARGE
def test_a_call_allocates_nothing_that_grows(info: OpInfo, sample: Sample) -> None:
    """Neither apart nor aliased: NumPy copies where memory overlaps and a call cannot bear it."""
    case = make_case(info, sample, np.float32)
    case.forward()
    case.seed_gradients()
    total = sum(a.nbytes for a in case.arrays.values())
    assert total >= LEAST_LARGE, f"large must be 1 MiB or more, but is {total} bytes"
    for label, kernel, of in kernels(case):
        for alias in (None, *kernel.may_alias):
            _, arrays, prepared = case.bind(kernel, of=of, alias=alias)
            with np.errstate(all="ignore"):  # the second run reads what the first overwrote
                peak = peak_of(kernel, case.attrs, {**arrays, **prepared})
            how = f" with {' in the memory of '.join(alias)}" if alias else ""
            assert peak < MAX_BYTES, f"{label}{how} allocates {peak} bytes: use out=, workspace"


@REFUSALS
def test_mismatched_arguments_are_refused(info: OpInfo, refusal: Refusal) -> None:
    row = row_of(info.name)
    specs = {
        n: s if isinstance(s, TensorSpec) else TensorSpec(s, FLOAT32)
        for n, s in refusal.inputs.items()
    }
    with pytest.raises(ShapeError) as e:
        row.infer(row.attrs(refusal.options, refusal.statics), specs)
    assert refusal.words in str(e.value)
    assert "but got" in str(e.value), "a message says the rule and what came instead"
    assert "\n" not in str(e.value)
