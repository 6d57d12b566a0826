"""Update rules: against the published formulas in Python's floats, and by hand."""

import tracemalloc
from collections.abc import Callable
from math import sqrt

import numpy as np
import pytest

from odt.errors import OptionError
from odt.kernels.native import library
from odt.kernels.native.updates import bind_update
from odt.kernels.registry import OPTIMIZERS
from odt.kernels.rows.opdef import TILE, Array, Attrs, TensorSpec
from odt.kernels.rows.updatedef import UpdateRule

RATE = 0.05
SIZE = 7
Step = Callable[[float, float, int, dict[str, float]], float]


@pytest.mark.skipif(not library.is_available(), reason="no compiled kernels")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("sgd", {}),
        ("sgd", {"weight_decay": 0.1}),
        ("sgd", {"momentum": 0.9, "weight_decay": 0.1}),
        ("sgd", {"momentum": 0.9, "nesterov": True}),
        ("adam", {"weight_decay": 0.1}),
        ("adamw", {"weight_decay": 0.1, "epsilon": 1e-3}),
        ("ort_adamw", {"weight_decay": 0.1, "epsilon": 1e-3}),
        ("rmsprop", {"weight_decay": 0.1, "epsilon": 1e-3}),
        ("rmsprop", {"momentum": 0.9, "weight_decay": 0.1}),
        ("adagrad", {"weight_decay": 0.1}),
        ("lion", {"weight_decay": 0.1}),
    ],
)
def test_compiled_updates_agree(name: str, options: dict[str, float]) -> None:
    rng = np.random.default_rng(3)
    start, *gradients = rng.normal(size=(5, 1000)).astype(np.float32)
    wanted, slots = train(name, np.array(gradients), start, **options)
    rule = OPTIMIZERS[name]
    assert rule.compiled is not None
    p, state = start.copy(), {n: np.zeros_like(start) for n in slots}
    g, attrs = np.empty_like(p), rule.attrs(**options)
    name, first = rule.compiled(attrs, RATE, 1)
    numbers = np.array(first, np.float32)
    update = bind_update(name, p, g, *state.values(), numbers=numbers)
    for k, given in enumerate(gradients):
        g[:], numbers[:] = given, rule.compiled(attrs, RATE, k + 1)[1]
        update()
    np.testing.assert_allclose(p, wanted, rtol=1e-5, atol=1e-6)
    for n, a in slots.items():
        np.testing.assert_allclose(state[n], a, rtol=1e-5, atol=1e-6)


def train(
    name: str, gradients: Array, start: Array, **options: float
) -> tuple[Array, dict[str, Array]]:
    """The parameter after these gradients, one a step; and the slots."""
    rule = OPTIMIZERS[name]
    attrs = rule.attrs(**options)
    p = start.copy()
    slots = zeros(rule, attrs, p)
    for k, g in enumerate(gradients):
        work = np.full((rule.work, TILE), np.nan, p.dtype)
        rule.run(attrs, RATE, k + 1, p=p, g=g.copy(), work=work, **slots)
    return p, slots


def zeros(rule: UpdateRule, attrs: Attrs, p: Array) -> dict[str, Array]:
    """The state of a parameter at first."""
    specs = rule.state(attrs, TensorSpec(p.shape, p.dtype))
    return {name: np.zeros(spec.shape, spec.dtype) for name, spec in specs.items()}


def sgd(momentum: float = 0, nesterov: bool = False, weight_decay: float = 0) -> Step:
    """The algorithm box of torch.optim.SGD."""

    def step(p: float, g: float, t: int, state: dict[str, float]) -> float:
        g = g + weight_decay * p
        if momentum:
            b = momentum * state["b"] + g if t > 1 else g
            state["b"] = b
            g = g + momentum * b if nesterov else b
        return p - RATE * g

    return step


def adam(weight_decay: float = 0) -> Step:
    """Keras' Adam: epsilon beside the root of what is not corrected for bias."""

    def step(p: float, g: float, t: int, state: dict[str, float]) -> float:
        g = g + weight_decay * p
        state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
        state["v"] = 0.999 * state.get("v", 0) + 0.001 * g * g
        alpha = RATE * sqrt(1 - 0.999**t) / (1 - 0.9**t)
        return p - alpha * state["m"] / (sqrt(state["v"]) + 1e-7)

    return step


def adamw(weight_decay: float = 0.01) -> Step:
    """The algorithm box of torch.optim.AdamW."""

    def step(p: float, g: float, t: int, state: dict[str, float]) -> float:
        p = p - RATE * weight_decay * p
        state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
        state["v"] = 0.999 * state.get("v", 0) + 0.001 * g * g
        m, v = state["m"] / (1 - 0.9**t), state["v"] / (1 - 0.999**t)
        return p - RATE * m / (sqrt(v) + 1e-8)

    return step


def ort_adamw(weight_decay: float = 0) -> Step:
    """Keras' Adam with another epsilon, and then the decay."""

    def step(p: float, g: float, t: int, state: dict[str, float]) -> float:
        state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
        state["v"] = 0.999 * state.get("v", 0) + 0.001 * g * g
        alpha = RATE * sqrt(1 - 0.999**t) / (1 - 0.9**t)
        p = p - alpha * state["m"] / (sqrt(state["v"]) + 1e-6)
        return p - RATE * weight_decay * p

    return step


def rmsprop(momentum: float = 0, weight_decay: float = 0) -> Step:
    """The algorithm box of torch.optim.RMSprop."""

    def step(p: float, g: float, t: int, state: dict[str, float]) -> float:
        g = g + weight_decay * p
        state["v"] = 0.9 * state.get("v", 0) + 0.1 * g * g
        state["b"] = momentum * state.get("b", 0) + g / (sqrt(state["v"]) + 1e-7)
        return p - RATE * state["b"]

    return step


def adagrad(weight_decay: float = 0) -> Step:
    """The algorithm box of torch.optim.Adagrad."""

    def step(p: float, g: float, t: int, state: dict[str, float]) -> float:
        g = g + weight_decay * p
        state["v"] = state.get("v", 0) + g * g
        return p - RATE * g / (sqrt(state["v"]) + 1e-10)

    return step


def lion(weight_decay: float = 0) -> Step:
    """Algorithm 2 of Chen et al. 2023."""

    def step(p: float, g: float, t: int, state: dict[str, float]) -> float:
        m = state.get("m", 0)
        state["m"] = 0.99 * m + 0.01 * g
        return p - RATE * (float(np.sign(0.9 * m + 0.1 * g)) + weight_decay * p)

    return step


CASES = {
    "sgd": ("sgd", {}, sgd()),
    "momentum": ("sgd", {"momentum": 0.9}, sgd(0.9)),
    "nesterov": ("sgd", {"momentum": 0.8, "nesterov": True}, sgd(0.8, nesterov=True)),
    "decay": ("sgd", {"weight_decay": 0.1}, sgd(weight_decay=0.1)),
    "momentum and decay": (
        "sgd",
        {"momentum": 0.9, "weight_decay": 0.1},
        sgd(0.9, weight_decay=0.1),
    ),
    "nesterov and decay": (
        "sgd",
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
        sgd(0.9, nesterov=True, weight_decay=0.1),
    ),
    "adam": ("adam", {}, adam()),
    "adam and decay": ("adam", {"weight_decay": 0.1}, adam(0.1)),
    "adamw": ("adamw", {}, adamw()),
    "adamw, other decay": ("adamw", {"weight_decay": 0.3}, adamw(0.3)),
    "ort_adamw": ("ort_adamw", {}, ort_adamw()),
    "ort_adamw and decay": ("ort_adamw", {"weight_decay": 0.3}, ort_adamw(0.3)),
    "rmsprop": ("rmsprop", {}, rmsprop()),
    "rmsprop, momentum and decay": (
        "rmsprop",
        {"momentum": 0.9, "weight_decay": 0.1},
        rmsprop(0.9, 0.1),
    ),
    "adagrad": ("adagrad", {}, adagrad()),
    "adagrad and decay": ("adagrad", {"weight_decay": 0.1}, adagrad(0.1)),
    "lion": ("lion", {}, lion()),
    "lion and decay": ("lion", {"weight_decay": 0.1}, lion(0.1)),
    "adam8bit, few values": ("adam8bit", {"weight_decay": 0.1}, adam(0.1)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-12), (np.float32, 2e-6)])
def test_ten_steps_follow_the_published_formula(case: str, dtype: type, rtol: float) -> None:
    name, options, step = CASES[case]
    rng = np.random.default_rng(0)
    start, gradients = rng.normal(size=SIZE), rng.normal(size=(10, SIZE))
    got, slots = train(name, gradients.astype(dtype), start.astype(dtype), **options)
    wanted = []
    for i in range(SIZE):
        p = float(start[i])
        state: dict[str, float] = {}
        for t in range(10):
            p = step(p, float(gradients[t, i]), t + 1, state)
        wanted.append(p)
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol)
    assert got.dtype == dtype
    assert all(s.dtype == dtype for s in slots.values())


def test_adams_first_step_shows_the_bias_correction() -> None:
    """m / √v is 0.1 g / √(0.001 g²) at first; corrected it is the gradient's sign."""
    p, slots = train("adam", np.array([[0.5, -2.0]]), np.zeros(2))
    np.testing.assert_allclose(p, [-RATE, RATE], rtol=1e-5)
    np.testing.assert_allclose(slots["m"], [0.05, -0.2])
    np.testing.assert_allclose(slots["v"], [0.00025, 0.004])


def test_adams_epsilon_is_added_after_the_root() -> None:
    """A gradient of 1e-7: √v = √0.001 · 1e-7, so ε = 1e-7 dominates; PyTorch's would not."""
    p, _ = train("adam", np.array([[1e-7]]), np.zeros(1))
    root = sqrt(0.001)
    assert p[0] == pytest.approx(-RATE * root / 0.1 * 0.1e-7 / (root * 1e-7 + 1e-7), rel=1e-9)


def test_weight_decay_of_adamw_is_decoupled() -> None:
    """Without a gradient only the decay moves the parameter."""
    p, _ = train("adamw", np.zeros((1, 1)), np.ones(1), weight_decay=0.1)
    assert p[0] == 1 - RATE * 0.1


def test_slots_exist_only_where_they_are_used() -> None:
    rule = OPTIMIZERS["sgd"]
    assert rule.slots(rule.attrs()) == ()
    assert rule.slots(rule.attrs(momentum=0.9)) == ("momentum",)
    for name in ("adam", "adamw"):
        rule = OPTIMIZERS[name]
        assert rule.slots(rule.attrs()) == ("m", "v")


def test_nesterov_needs_momentum() -> None:
    with pytest.raises(OptionError, match="momentum above 0"):
        OPTIMIZERS["sgd"].attrs(nesterov=True)


@pytest.mark.parametrize(
    "case", [case for case, row in CASES.items() if not OPTIMIZERS[row[0]].whole]
)
def test_pieces_make_no_difference_and_allocate_nothing(case: str) -> None:
    """More than two tiles give what the same elements give one by one."""
    name, options, _ = CASES[case]
    rng = np.random.default_rng(1)
    size = 2 * TILE + 5
    start = rng.normal(size=size).astype(np.float32)
    gradients = rng.normal(size=(2, size)).astype(np.float32)
    p, _ = train(name, gradients, start, **options)
    places = [0, TILE - 1, TILE, 2 * TILE - 1, 2 * TILE, size - 1]
    few, _ = train(name, gradients[:, places], start[places], **options)
    np.testing.assert_array_equal(p[places], few)

    rule = OPTIMIZERS[name]
    attrs = rule.attrs(**options)
    slots = zeros(rule, attrs, start)
    work = np.empty((rule.work, TILE), np.float32)
    arrays = {"p": start, "g": gradients[0], "work": work}
    rule.run(attrs, RATE, 1, **arrays, **slots)
    tracemalloc.start()
    try:
        rule.run(attrs, RATE, 2, **arrays, **slots)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8192


def test_every_rule_is_tested_here() -> None:
    frugal = {"adafactor", "adam8bit"}  # test_frugal_optimizers.py
    assert {name for name, _, _ in CASES.values()} | frugal == set(OPTIMIZERS)
