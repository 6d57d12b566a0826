"""Attention and rotary embeddings compute what their definitions say."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.onnx_files import OnnxFile, value
from support.onnx_outputs import compute

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(7)
N, HEADS, GROUPS, QUERIES, KEYS, D = 2, 4, 2, 3, 5, 6


def real(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def formula(q: Array, k: Array, v: Array, bias: Array, softcap: float = 0) -> Array:
    """Attention of (N, heads, S, D), where each group of keys serves several heads."""
    each = q.shape[1] // k.shape[1]
    k, v = (np.repeat(a, each, axis=1) for a in (k, v))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3])
    scores = softcap * np.tanh(scores / softcap) if softcap else scores
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores + bias - np.max(scores + bias, -1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
    y: Array = np.nan_to_num(weights) @ v
    return y


def flat(x: Array) -> Array:
    n, heads, steps, width = x.shape
    return x.transpose(0, 2, 1, 3).reshape(n, steps, heads * width)


@pytest.mark.parametrize("is_flat", [False, True])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("mask", ["none", "float", "lowest", "truth", "known", "-inf"])
def test_attention(tmp_path: Path, is_flat: bool, causal: int, mask: str) -> None:
    """A query that may attend to nothing gets zeros."""
    q, k, v = real(N, HEADS, QUERIES, D), real(N, GROUPS, KEYS, D), real(N, GROUPS, KEYS, D)
    order = np.arange(KEYS) <= np.arange(QUERIES)[:, None]
    bias = np.where(order, 0, -np.inf) if causal else np.zeros((QUERIES, KEYS))
    arrays = [flat(a) if is_flat else a for a in (q, k, v)]
    file = OnnxFile(23)
    inputs = ["q", "k", "v"]
    for name, a in zip(inputs, arrays, strict=True):
        file.inputs.append(value(name, ("N", *a.shape[1:])))
    file.outputs.append(value("y", ()))
    if mask != "none":
        inputs.append("m")
        allowed = RNG.random((N, 1, QUERIES, KEYS)) < 0.6
        if mask == "float":
            given = real(N, 1, QUERIES, KEYS)
            bias = bias + given
        else:
            allowed[:, :, 1] = False
            allowed[:, :, 0, :2] = False, True  # of what is allowed, the causal order hides all
            given = allowed[:1] if mask in ("known", "-inf") else allowed
            bias = bias + np.where(given, 0, -np.inf)
            if mask in ("lowest", "-inf"):
                least = np.float32(-np.inf) if mask == "-inf" else np.finfo(np.float32).min
                given = np.where(given, real(*given.shape), least)
                bias = bias + np.where(given > least, given, 0)
        if mask in ("known", "-inf"):
            file.constants({"m": given})
        else:
            file.inputs.append(value("m", ("N", 1, QUERIES, KEYS), given.dtype.name))
            arrays.append(given)
    heads: dict[str, Any] = {"q_num_heads": HEADS, "kv_num_heads": GROUPS} if is_flat else {}
    file.add("Attention", *inputs, is_causal=causal, softcap=2.0, **heads)
    wanted = formula(q, k, v, bias, softcap=2.0)
    (y,) = compute(file, tmp_path, *arrays)
    np.testing.assert_allclose(y, flat(wanted) if is_flat else wanted, atol=2e-6)


def test_past_keys_and_values(tmp_path: Path) -> None:
    """Queries come after the past; the results hold all keys and values."""
    q, k, v = (real(N, HEADS, QUERIES, D) for _ in range(3))
    past = [real(N, HEADS, 2, D) for _ in range(2)]
    file = OnnxFile(23)
    for name, a in zip("qkvab", (q, k, v, *past), strict=True):
        file.inputs.append(value(name, ("N", *a.shape[1:])))
    for name in ("y", "keys", "values"):
        file.outputs.append(value(name, ()))
    inputs = ("q", "k", "v", "", "a", "b")
    file.add("Attention", *inputs, outputs=["y", "keys", "values"], is_causal=1)
    keys, values = (np.concatenate(pair, 2) for pair in zip(past, (k, v), strict=True))
    order = np.arange(2 + QUERIES) <= np.arange(QUERIES)[:, None] + 2
    y, *rest = compute(file, tmp_path, q, k, v, *past)
    np.testing.assert_allclose(y, formula(q, keys, values, np.where(order, 0, -np.inf)), atol=2e-6)
    for got, wanted in zip(rest, (keys, values), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("turned", [D, 4])
@pytest.mark.parametrize("is_flat", [False, True])
def test_rotary_embeddings(tmp_path: Path, interleaved: int, turned: int, is_flat: bool) -> None:
    x, angles = real(N, HEADS, QUERIES, D), real(10, turned // 2)
    places = RNG.integers(0, 10, (N, QUERIES))
    file = OnnxFile(23)
    given = flat(x) if is_flat else x
    file.inputs += [
        value("x", ("N", *given.shape[1:])),
        value("p", ("N", QUERIES), "int64"),
    ]
    file.outputs.append(value("y", ()))
    file.constants({"cos": np.cos(angles), "sin": np.sin(angles)})
    file.add(
        "RotaryEmbedding",
        *("x", "cos", "sin", "p"),
        interleaved=interleaved,
        num_heads=HEADS if is_flat else 0,
        rotary_embedding_dim=turned if turned != D else 0,
    )
    wanted = x.astype(np.float64)
    for n, t, pair in np.ndindex(N, QUERIES, turned // 2):
        a, b = (2 * pair, 2 * pair + 1) if interleaved else (pair, pair + turned // 2)
        angle = angles[places[n, t], pair]
        z = (x[n, :, t, a] + 1j * x[n, :, t, b]) * np.exp(1j * angle)
        wanted[n, :, t, a], wanted[n, :, t, b] = z.real, z.imag
    (y,) = compute(file, tmp_path, given, places)
    np.testing.assert_allclose(y, flat(wanted) if is_flat else wanted, atol=1e-6)
