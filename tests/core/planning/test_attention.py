"""Joined attention: the results of separate calls, without the scores that a mask hides."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import odt
from odt.core.export.model_builder import ModelBuilder
from odt.core.planning.attention import ATTENTION, ATTENTION_BACK
from odt.core.planning.plan import Call
from odt.core.training.trainer import TRAINING, VALIDATION
from odt.kernels.native import attention
from odt.kernels.native.library import instruction_sets, is_available
from odt.kernels.rows.opdef import Array, TensorSpec

T, D = 20, 16
RNG = np.random.default_rng(3)
X = RNG.normal(size=(5, T, D)).astype(np.float32)
Y = RNG.normal(size=(5, T, 3)).astype(np.float32)
CAUSAL = np.where(np.tril(np.ones((T, T))), 0, -1e30).astype(np.float32)
pytestmark = pytest.mark.skipif(not is_available(), reason="the kernels are compiled")


def network(path: Path, mask: Array, *, shows: bool = False) -> Path:
    """Two groups of queries share keys and values; the probabilities may be an output, too."""
    built = ModelBuilder("circle", seed=1)
    x = built.add_input((1, T, D), name="x")

    def dense(x: int, units: int, name: str, depth: int = D) -> int:
        w = built.add_weight((units, depth), depth, name)
        return built.add_operator("FULLY_CONNECTED", [x, w], (1, T, units), keep_num_dims=True)

    def reshape(x: int, *shape: int) -> int:
        return built.add_operator(
            "RESHAPE", [x, built.add_constant(np.array(shape, np.int32))], shape
        )

    q, k, v = (dense(x, units, name) for name, units in (("q", 2 * D), ("k", D), ("v", D)))
    rows = 1, 2 * T, D
    z = built.add_operator("BATCH_MATMUL", [reshape(q, *rows), k], (1, 2 * T, T), adj_y=True)
    z = reshape(z, 1, 2, T, T)
    z = built.add_operator("ADD", [z, built.add_constant(mask[None, None])], (1, 2, T, T))
    p = built.add_operator("SOFTMAX", [z], (1, 2, T, T), beta=0.25)
    y = built.add_operator("BATCH_MATMUL", [reshape(p, 1, 2 * T, T), v], rows)
    y = dense(reshape(y, 1, T, 2 * D), 3, "head", 2 * D)
    built.write(path, *((y, p) if shows else (y,)))
    return path


def joined(trainer: odt.Trainer) -> list[Call]:
    """The joined calls of the plans of training and validation."""
    plans = [trainer.session.build().runtime.engine_of(k).plan for k in (TRAINING, VALIDATION)]
    entries = [entry for plan in plans for entry in plan.entries if isinstance(entry, Call)]
    return [call for call in entries if call.kernel in (ATTENTION, ATTENTION_BACK)]


def trained(path: Path, **options: Any) -> tuple[list[Call], dict[str, Array], Array]:
    """The joined calls, and weights and outputs after three steps."""
    with odt.Trainer(path, loss="mean_squared_error", batch_size=5, **options) as trainer:
        calls = joined(trainer)
        for _ in range(3):
            trainer.train_on_batch(X, Y)
        return calls, dict(trainer.weights), trainer.predict(X)


@pytest.mark.parametrize("kernels", instruction_sets())
def test_joined_attention_trains_like_separate_calls(
    kernels: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = network(tmp_path / "causal.circle", CAUSAL)
    monkeypatch.setenv("ODT_KERNELS", "numpy")
    none, expected, outputs = trained(path)
    monkeypatch.setenv("ODT_KERNELS", kernels)
    for options in ({"workers": 1}, {"micro_batch": 2, "workers": 2}):
        calls, weights, predicted = trained(path, **options)
        assert [call.kernel for call in calls] == [ATTENTION, ATTENTION_BACK, ATTENTION]
        assert not none
        np.testing.assert_allclose(predicted, outputs, rtol=1e-4, atol=1e-5)
        for name, values in expected.items():
            np.testing.assert_allclose(weights[name], values, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("kind", ["few hidden", "small", "shown"])
def test_attention_stays_separate(kind: str, tmp_path: Path) -> None:
    """A mask that saves little, one that hides no key wholly, and probabilities with a loss."""
    masks = {
        "few hidden": np.where(np.arange(T) < T - 2, CAUSAL * 0, -1e30),
        "small": CAUSAL / 1e28,
    }
    mask = masks.get(kind, CAUSAL).astype(np.float32)
    path = network(tmp_path / "separate.circle", mask, shows=kind == "shown")
    losses = {0: "mean_squared_error", 1: "mean_squared_error"} if kind == "shown" else None
    with odt.Trainer(path, loss=losses or "mean_squared_error", batch_size=5) as trainer:
        assert not joined(trainer)


def reference(
    q: Array, k: Array, v: Array, mask: Array, dy: Array, beta: float
) -> dict[str, Array]:
    """The formula in float64."""
    q, k, v, mask, dy = (a.astype(np.float64) for a in (q, k, v, mask, dy))
    s = beta * (q @ k.swapaxes(-1, -2) + np.tile(mask, (q.shape[-2] // len(mask), 1)))
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    dp = dy @ v.swapaxes(-1, -2)
    ds = beta * p * (dp - (dp * p).sum(axis=-1, keepdims=True))
    dk, dv = ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ dy
    return {"y": p @ v, "dq": ds @ k, "dk": dk, "dv": dv}


@pytest.mark.parametrize("kernels", instruction_sets())
def test_kernels_agree_with_float64(kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes of no round number, several blocks and splits, rows that see nothing or little."""
    monkeypatch.setenv("ODT_KERNELS", kernels)
    some = np.zeros((50, 90), np.float32)
    some[:, 60:] = some[3] = some[7, :80] = -1e30
    some[7, 82] = 0.5
    later = np.where(np.arange(300) <= 260 + np.arange(40)[:, None], 0, -1e30).astype(np.float32)
    sizes = [((2,), 2, some, 64, 33), ((9,), 1, later, 17, 70), ((1, 2), 3, CAUSAL, 16, 16)]
    for lead, groups, mask, depth, width in sizes:
        queries, keys = mask.shape
        rows = groups * queries
        shapes = {"q": (rows, depth), "k": (keys, depth), "v": (keys, width), "dy": (rows, width)}
        arrays = {n: RNG.normal(size=(*lead, *s)).astype(np.float32) for n, s in shapes.items()}
        arrays["mask"] = mask
        expected = reference(**arrays, beta=0.3)
        dy, attrs = arrays.pop("dy"), attention.AttentionAttrs(0.3, queries)
        specs = {n: TensorSpec(a.shape, a.dtype) for n, a in arrays.items()}
        assert attention.fits(attrs, specs)
        nan = {n: np.full_like(a, np.nan, np.float32) for n, a in expected.items()}
        stats = np.full(attention.statistics(specs).shape, np.nan, np.float32)
        scratch = [
            {n: np.full(s.shape, np.nan, np.float32) for n, s in c.workspace(attrs, specs).items()}
            for c in (attention.FORWARD, attention.BACKWARD)
        ]
        y = nan.pop("y")
        attention.FORWARD.bind(attrs, **arrays, y=y, stats=stats, **scratch[0])()
        attention.BACKWARD.bind(attrs, **arrays, stats=stats, dy=dy, **nan, **scratch[1])()
        for name, got in {"y": y, **nan}.items():
            scale = np.abs(expected[name]).max()
            np.testing.assert_allclose(got / scale, expected[name] / scale, atol=3e-6, err_msg=name)
