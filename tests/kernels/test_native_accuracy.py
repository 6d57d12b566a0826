"""Compiled functions of one variable against float64, over all of float32's range."""

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

import numpy as np
import pytest
from support.op_run import Case, best_form, row_of

from odt.kernels.native import library
from odt.kernels.rows.opdef import Array, Kernel

SETS = library.instruction_sets()
Function = Callable[[Array], Array]


@pytest.fixture(params=SETS, autouse=True)
def instruction_set(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ODT_KERNELS", request.param)
    return str(request.param)


def case_of(name: str, x: Array, **options: object) -> Case:
    row = row_of(name)
    gamma = {"gamma": np.ones(x.shape[-1:], np.float32)} if "gamma" in row.inputs else {}
    return Case.make(row, row.attrs(options, {}), {"x": x} | gamma)


def run(case: Case, kernel: Kernel, of: str = "") -> Mapping[str, Array]:
    best = best_form(kernel, case.attrs, case.specs)
    assert best is not kernel, f"{case.row.name} has no compiled form"
    return case.run(best, of=of)


def compiled(name: str, x: Array, **options: object) -> Array:
    """y of an operator, by its compiled form."""
    case = case_of(name, x, **options)
    return run(case, case.row.forward)["y"]


def every_kind() -> Array:
    """A million float32 in the order of their bits: both signs, denormals, infinities and NaN."""
    bits = np.arange(0, 1 << 32, 4099, dtype=np.uint32)
    return np.concatenate(
        [bits.view(np.float32), np.linspace(-110, 110, 100_000, dtype=np.float32)]
    )


def units_off(y: Array, wanted: Array) -> Array:
    """How far each y is from what is wanted, in units of float32's last place.

    Where one is infinite or NaN, both must be, and alike.
    """
    with np.errstate(over="ignore"):
        rounded = wanted.astype(np.float32)
    finite = np.isfinite(rounded) & np.isfinite(y)
    np.testing.assert_array_equal(y[~finite], rounded[~finite])
    unit = np.spacing(np.abs(rounded), where=finite, out=np.ones_like(y))
    return np.abs(np.subtract(y, wanted, where=finite, out=np.zeros_like(wanted))) / unit


def elu(x: Array) -> Array:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


@pytest.mark.parametrize(
    ("name", "exact", "most"),
    [
        *(("TANH", np.tanh, 3), ("EXP", np.exp, 1.5), ("LOG", np.log, 1), ("ELU", elu, 4)),
        *(("SIN", np.sin, 0.51), ("COS", np.cos, 0.51), ("ROUND", np.rint, 1e-9)),
        *(("FLOOR", np.floor, 1e-9), ("CEIL", np.ceil, 1e-9), ("SIGN", np.sign, 1e-9)),
    ],
)
def test_every_kind_of_number(name: str, exact: Function, most: float) -> None:
    x = every_kind()
    with np.errstate(all="ignore"):
        wanted = exact(x.astype(np.float64))
    assert units_off(compiled(name, x), wanted).max() < most


def test_powers_of_every_kind_of_number() -> None:
    inf = float("inf")
    rng = np.random.default_rng(0)
    kinds = np.array([0, -0.0, 1, -1, 2, -2, 3, 0.5, -0.5, 1e-45, 2.0**24, inf, -inf, np.nan])
    a = np.concatenate([np.exp(rng.uniform(-95, 88, 200_000)), np.repeat(kinds, kinds.size)])
    b = np.concatenate([rng.normal(scale=3, size=200_000), np.tile(kinds, kinds.size)])
    a[:1000] *= -1
    b[:1000] = np.rint(b[:1000])
    a, b = a.astype(np.float32), b.astype(np.float32)
    row = row_of("POW")
    case = Case.make(row, row.attrs({}, {}), {"a": a, "b": b})
    with np.errstate(all="ignore"):
        wanted = np.power(a.astype(np.float64), b.astype(np.float64))
    y = run(case, row.forward)["y"]
    assert units_off(y, wanted).max() < 0.51
    signs = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(y[signs]), np.signbit(wanted[signs]))


@pytest.mark.parametrize("name", ["FLOOR_MOD", "FLOOR_DIV"])
def test_remainders_have_the_sign_of_the_divisor(name: str) -> None:
    rng, inf = np.random.default_rng(0), float("inf")
    kinds = np.array([0, -0.0, 1, -1, 2.5, -3, 1e-45, 2.0**30, inf, -inf, np.nan])
    a = np.concatenate([rng.normal(scale=9, size=10_000), np.repeat(kinds, kinds.size)])
    b = np.concatenate([rng.normal(size=10_000), np.tile(kinds, kinds.size)])
    a, b = a.astype(np.float32), b.astype(np.float32)
    row = row_of(name)
    case = Case.make(row, row.attrs({}, {}), {"a": a, "b": b})
    with np.errstate(all="ignore"):
        wanted = np.remainder(a, b) if name == "FLOOR_MOD" else np.floor(a / b)
    np.testing.assert_array_equal(run(case, row.forward)["y"], wanted)


def test_the_gradient_of_a_remainder_has_the_exact_quotient() -> None:
    """1 / float32(0.1) is 9.99999985 and rounds to 10, but the remainder is 1 − 9 b."""
    a, b = (np.array(v, np.float32) for v in ([1, -1, 3, 6, -7], [0.1, -0.1, 0.1, 0.2, 0.7]))
    row = row_of("FLOOR_MOD")
    case = Case.make(row, row.attrs({}, {}), {"a": a, "b": b})
    quotients = map(Fraction, a.tolist()), map(Fraction, b.tolist())
    exact = np.array([math.floor(x / y) for x, y in zip(*quotients, strict=True)])
    assert (exact != np.floor(a / b)).any()
    case.arrays["dy"] = np.ones_like(a)
    kernel = case.gradients()["b"]
    np.testing.assert_array_equal(case.run(kernel, of="b")["db"], -exact)
    np.testing.assert_array_equal(run(case, kernel, of="b")["db"], -exact)


def by_erf(x: float) -> float:
    return x * math.erfc(-x / math.sqrt(2)) / 2


def by_tanh(x: float) -> float:
    return x / (1 + math.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@pytest.mark.parametrize(("approximate", "exact"), [(False, by_erf), (True, by_tanh)])
def test_gelu_in_every_range(approximate: bool, exact: Callable[[float], float]) -> None:
    """The left tail too, where eˣ is as exact as its rounded exponent lets it be."""
    x = np.concatenate([np.linspace(-9, 9, 40_000), [1e-45, 1e-38, 1e6]]).astype(np.float32)
    y = compiled("GELU", x, approximate=approximate)
    wanted = np.array([exact(float(v)) for v in x])
    exponent = np.maximum(-np.log(wanted / x), 0)
    assert (units_off(y, wanted) < 8 + 3 * exponent).all()


def special() -> Iterator[tuple[str, float, float]]:
    inf = float("inf")
    yield from (("TANH", x, y) for x, y in ((0, 0), (-0.0, -0.0), (inf, 1), (-inf, -1)))
    yield from (("TANH", 30, 1), ("TANH", -30, -1), ("TANH", 1e-45, 1e-45))
    yield from (("EXP", x, y) for x, y in ((0, 1), (-0.0, 1), (inf, inf), (-inf, 0)))
    yield from (("EXP", 89, inf), ("EXP", -104, 0), ("EXP", -103, 1.4e-45))
    yield from (("ELU", x, y) for x, y in ((0, 0), (inf, inf), (-inf, -1), (-30, -1)))
    yield from (("LOG", x, y) for x, y in ((0, -inf), (-0.0, -inf), (1, 0), (inf, inf)))


@pytest.mark.parametrize(("name", "x", "y"), list(special()))
def test_special_values(name: str, x: float, y: float) -> None:
    """To the bit, the sign of zero too."""
    found = compiled(name, np.full(5, x, np.float32))
    wanted = np.full(5, y, np.float32)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.parametrize("name", ["SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION", "RMS_NORM"])
def test_no_number_spoils_its_row_and_no_other(name: str) -> None:
    x = np.random.default_rng(0).normal(size=(4, 37)).astype(np.float32)
    x[1, 5] = x[2, 36] = np.nan
    case = case_of(name, x)
    case.arrays |= run(case, case.row.forward)
    case.seed_gradients()
    for a in (case.arrays["y"], run(case, case.gradients()["x"], "x")["dx"]):
        np.testing.assert_array_equal(np.isnan(a).all(axis=1), [False, True, True, False])
        np.testing.assert_array_equal(np.isnan(a).any(axis=1), [False, True, True, False])


def test_a_row_of_next_to_nothing_is_divided_by_the_floor() -> None:
    x = np.full((3, 20), 1e-8, np.float32)
    x[1] = 1
    case = case_of("L2_NORMALIZATION", x)
    case.arrays |= run(case, case.row.forward)
    np.testing.assert_allclose(case.arrays["y"][:, 0], [0.01, 20**-0.5, 0.01], rtol=1e-6)
    dy = case.arrays["dy"] = np.ones_like(x)
    dx = run(case, case.gradients()["x"], "x")["dx"]
    np.testing.assert_allclose(dx[[0, 2]], dy[[0, 2]] / 1e-6, rtol=1e-6)
    np.testing.assert_allclose(dx[1], 0, atol=1e-6)


def test_an_instance_is_centered_before_it_is_squared() -> None:
    """Far from zero, the mean of squares less the square of the mean has no digit left."""
    x = (5000 + np.random.default_rng(0).normal(size=(2, 300, 3))).astype(np.float32)
    row = row_of("INSTANCE_NORM")
    ones = np.ones(3, np.float32)
    case = Case.make(row, row.attrs({}, {}), {"x": x, "gamma": ones, "beta": 0 * ones})
    y = run(case, row.forward)["y"]
    exact = x.astype(np.float64)
    exact -= exact.mean(axis=1, keepdims=True)
    exact /= np.sqrt((exact**2).mean(axis=1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, exact, atol=2e-3)


def test_no_part_of_a_product_works_outside_its_room() -> None:
    """However many cores there are: few have a panel of their own."""
    row, rng = row_of("BATCH_MATMUL"), np.random.default_rng(0)
    a = rng.normal(size=(32, 99, 90)).astype(np.float32)
    b = rng.normal(size=(32, 80, 90)).astype(np.float32)
    case = Case.make(row, row.attrs({"adj_y": True}, {}), {"a": a, "b": b})
    compiled = row.forward.compiled
    assert compiled is not None
    spec = compiled.workspace(case.attrs, case.specs)["panel"]
    room = np.full(20 * spec.size, np.nan, np.float32)
    y = np.empty((32, 99, 80), np.float32)
    panel = room[: spec.size].reshape(spec.shape)
    prepared = compiled.prepare(case.attrs, case.specs)
    run = compiled.bind(case.attrs, a=a, b=b, y=y, panel=panel, **prepared)
    try:
        library.set_threads(16)
        run()
    finally:
        library.set_threads(1)
    np.testing.assert_allclose(y, a @ b.swapaxes(1, 2), atol=1e-4)
    assert np.isnan(room[spec.size :]).all()


def test_every_bit_of_what_is_transposed_stays() -> None:
    """Also a NaN's, and an integer's that would be a denormal."""
    bits = np.arange(0, 1 << 32, 4099, dtype=np.uint32)[: 1021 * 1021]
    row = row_of("TRANSPOSE")
    attrs = row.attrs({}, {"perm": np.array([1, 0])})
    for x in (bits.view(np.float32), bits.view(np.int32)):
        case = Case.make(row, attrs, {"x": x.reshape(1021, 1021)})
        y = run(case, row.forward)["y"]
        np.testing.assert_array_equal(y.view(np.uint32), bits.reshape(1021, 1021).T)
