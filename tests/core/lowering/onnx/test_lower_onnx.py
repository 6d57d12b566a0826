"""ONNX nodes compute what NumPy does by the operators' definitions; others are named."""

import itertools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.onnx_files import OnnxFile, mlp, one_node, value
from support.onnx_outputs import compute
from support.paths import ROOT

import odt
from odt.core.formats.reader import read_model
from odt.core.lowering.onnx.lower import LOWERINGS
from odt.core.lowering.onnx.signatures import SIGNATURES
from odt.core.recipe.lowered_model import lower_model

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(3)


def real(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def outputs(file: OnnxFile, folder: Path, x: Array) -> Array:
    results = compute(file, folder, x)
    y: Array = np.array(results[0] if len(results) == 1 else results)
    return y


def conv(
    x: Array, w: Array, b: Array, pads: Any, strides: Any, dilations: Any, groups: int
) -> Array:
    """Cross-correlation by its definition, one output at a time."""
    spatial = len(w.shape) - 2
    pads = [(pads[k], pads[k + spatial]) for k in range(spatial)]
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *pads])
    extent = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    sizes = [(n - e) // s + 1 for n, e, s in zip(x.shape[2:], extent, strides, strict=True)]
    y = np.zeros((len(x), len(w), *sizes))
    each = len(w) // groups
    for o, at in itertools.product(range(len(w)), np.ndindex(*sizes)):
        channels = slice(o // each * w.shape[1], (o // each + 1) * w.shape[1])
        window = tuple(
            slice(p * s, p * s + e, d)
            for p, s, e, d in zip(at, strides, extent, dilations, strict=True)
        )
        part = x[(slice(None), channels, *window)]
        y[(slice(None), o, *at)] = (part * w[o]).reshape(len(x), -1).sum(1) + b[o]
    return y


@pytest.mark.parametrize(
    ("shape", "filters", "groups", "pads", "strides", "dilations"),
    [
        ((2, 3, 7, 6), (4, 3, 3, 2), 1, (1, 0, 1, 1), (2, 1), (1, 1)),
        ((2, 4, 6, 6), (8, 1, 3, 3), 4, (1, 1, 1, 1), (1, 1), (1, 1)),
        ((2, 4, 6, 6), (4, 2, 3, 3), 2, (0, 2, 1, 0), (1, 2), (1, 1)),
        ((2, 3, 9, 9), (2, 3, 3, 3), 1, (2, 2, 2, 2), (1, 1), (2, 3)),
        ((2, 3, 11), (5, 3, 4), 1, (1, 2), (2,), (1,)),
        ((2, 3, 11), (3, 1, 3), 3, (1, 1), (1,), (2,)),
        ((1, 2, 4, 5, 4), (3, 2, 2, 3, 2), 1, (0, 1, 0, 0, 1, 0), (1, 2, 1), (1, 1, 1)),
        ((2, 4, 3, 4, 4), (6, 2, 2, 1, 2), 2, (0, 1, 0, 0, 0, 1), (1, 2, 1), (1, 1, 2)),
    ],
)
def test_convolutions(
    tmp_path: Path, shape: Any, filters: Any, groups: int, pads: Any, strides: Any, dilations: Any
) -> None:
    x, w, b = real(*shape), real(*filters), real(filters[0])
    attributes = {"group": groups, "pads": pads, "strides": strides, "dilations": dilations}
    y = outputs(one_node("Conv", x, {"w": w, "b": b}, **attributes), tmp_path, x)
    np.testing.assert_allclose(y, conv(x, w, b, pads, strides, dilations, groups), atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("MaxPool", {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1)}),
        ("MaxPool", {"kernel_shape": (2, 2), "strides": (2, 2), "ceil_mode": 1}),
        ("AveragePool", {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}),
        (
            "AveragePool",
            {
                "kernel_shape": (3, 3),
                "strides": (2, 2),
                "pads": (1, 1, 0, 1),
                "count_include_pad": 1,
            },
        ),
        ("AveragePool", {"kernel_shape": (2, 2), "strides": (2, 2), "ceil_mode": 1}),
    ],
)
def test_pools(tmp_path: Path, kind: str, attributes: dict[str, Any]) -> None:
    """Windows hold the values of the image, and zeros of padding where they count."""
    x = real(2, 3, 7, 7) - 5  # padding with 0 would win
    y = outputs(one_node(kind, x, {}, **attributes), tmp_path, x)
    (kh, kw), (sh, sw) = attributes["kernel_shape"], attributes["strides"]
    top, left, bottom, right = attributes.get("pads", (0, 0, 0, 0))
    for i, j in np.ndindex(*y.shape[2:]):
        r, c = i * sh - top, j * sw - left
        part = x[:, :, max(r, 0) : r + kh, max(c, 0) : c + kw]
        if kind == "MaxPool":
            wanted = part.max((2, 3))
        else:
            rows = min(r + kh, 7 + bottom) - r
            columns = min(c + kw, 7 + right) - c
            counted = rows * columns if attributes.get("count_include_pad") else part[0, 0].size
            wanted = part.sum((2, 3)) / counted
        np.testing.assert_allclose(y[:, :, i, j], wanted, atol=1e-5)
    rounded = np.ceil if attributes.get("ceil_mode") else np.floor
    assert y.shape[2] == rounded((7 + top + bottom - kh) / sh) + 1


X = real(2, 3, 4, 5)
BN = {"s": real(3), "b": real(3), "m": real(3), "v": real(3) ** 2 + 0.1}
W: Array = real(6, 3, 5)
V = (slice(None), None, None)  # a vector over channels
Case = tuple[str, Mapping[str, Any], int, Mapping[str, Any], Callable[[Array], Array]]


def softmax(x: Array, axes: Any) -> Array:
    e = np.exp(x - x.max(axes, keepdims=True))
    y: Array = e / e.sum(axes, keepdims=True)
    return y


CASES: dict[str, Case] = {
    "clip as inputs": (
        "Clip",
        {"lo": np.float32(-0.3), "hi": np.float32(0.4)},
        11,
        {},
        lambda x: np.clip(x, -0.3, 0.4),
    ),
    "clip as attributes": ("Clip", {}, 6, {"min": 0.0, "max": 6.0}, lambda x: np.clip(x, 0, 6)),
    "batch norm": (
        "BatchNormalization",
        BN,
        9,
        {"epsilon": 0.01},
        lambda x: (x - BN["m"][V]) / np.sqrt(BN["v"][V] + 0.01) * BN["s"][V] + BN["b"][V],
    ),
    "softmax of flattened axes": (
        "Softmax",
        {},
        9,
        {},
        lambda x: softmax(x.reshape(2, -1), 1).reshape(x.shape),
    ),
    "softmax of one axis": ("Softmax", {}, 13, {"axis": 1}, lambda x: softmax(x, 1)),
    "mean": ("ReduceMean", {}, 13, {"axes": (-1, 2), "keepdims": 0}, lambda x: x.mean((2, 3))),
    "sum": ("ReduceSum", {"a": np.array([1])}, 13, {}, lambda x: x.sum(1, keepdims=True)),
    "l2": ("ReduceL2", {}, 11, {"axes": (1,)}, lambda x: np.sqrt((x**2).sum(1, keepdims=True))),
    "reshape": (
        "Reshape",
        {"s": np.array([0, -1, 2, 3])},
        14,
        {},
        lambda x: x.reshape(2, 10, 2, 3),
    ),
    "flatten": ("Flatten", {}, 13, {"axis": -3}, lambda x: x.reshape(2, 60)),
    "unsqueeze": ("Unsqueeze", {"a": np.array([-1])}, 13, {}, lambda x: x[..., None]),
    "transpose": ("Transpose", {}, 13, {"perm": (0, 3, 1, 2)}, lambda x: x.transpose(0, 3, 1, 2)),
    "slice": (
        "Slice",
        {
            "starts": np.array([-1, 1]),
            "ends": np.array([-(2**63), 2**63 - 1]),
            "axes": np.array([3, 2]),
            "steps": np.array([-2, 1]),
        },
        13,
        {},
        lambda x: x[:, :, 1:, ::-2],
    ),
    "gather": ("Gather", {"i": np.array([2, -3])}, 13, {"axis": 1}, lambda x: x[:, [2, 0]]),
    "gather by a scalar": ("Gather", {"i": np.array(-1)}, 13, {"axis": 2}, lambda x: x[:, :, -1]),
    "pad": (
        "Pad",
        {"p": np.array([0, 0, 1, 0, 0, 0, 2, 1]), "v": np.float32(1.5)},
        13,
        {},
        lambda x: np.pad(x, [(0, 0), (0, 0), (1, 2), (0, 1)], constant_values=1.5),
    ),
    "reflect": (
        "Pad",
        {},
        9,
        {"pads": (0, 0, 1, 2, 0, 0, 1, 0), "mode": "reflect"},
        lambda x: np.pad(x, [(0, 0), (0, 0), (1, 1), (2, 0)], mode="reflect"),
    ),
    "edge": (
        "Pad",
        {},
        9,
        {"pads": (0, 0, 1, 2, 0, 0, 3, 0), "mode": "edge"},
        lambda x: np.pad(x, [(0, 0), (0, 0), (1, 3), (2, 0)], mode="edge"),
    ),
    "einsum": (
        "Einsum",
        {"w": W},
        13,
        {"equation": "nchw,kcw->nkh"},
        lambda x: np.einsum("nchw,kcw->nkh", x, W),
    ),
    "einsum with a batch": (
        "Einsum",
        {"w": W},
        13,
        {"equation": "nchw, kcw -> nwhk"},
        lambda x: np.einsum("nchw,kcw->nwhk", x, W),
    ),
    "einsum of one tensor": (
        "Einsum",
        {},
        13,
        {"equation": "nchw->nwc"},
        lambda x: np.einsum("nchw->nwc", x),
    ),
    "einsum of three tensors": (
        "Einsum",
        {"w": W, "v": BN["s"]},
        13,
        {"equation": "nchw,kcw,c->nkh"},
        lambda x: np.einsum("nchw,kcw,c->nkh", x, W, BN["s"]),
    ),
    "einsum of leading axes": (
        "Einsum",
        {"w": W[0].T},
        13,
        {"equation": "...w,wk"},
        lambda x: np.einsum("...w,wk", x, W[0].T),
    ),
    "shrink": (
        "Shrink",
        {},
        9,
        {"lambd": 0.4, "bias": 0.2},
        lambda x: np.where(x > 0.4, x - 0.2, np.where(x < -0.4, x + 0.2, 0)),
    ),
    "tangent": ("Tan", {}, 13, {}, np.tan),
    "hyperbolic sine": ("Sinh", {}, 13, {}, np.sinh),
    "hyperbolic cosine": ("Cosh", {}, 13, {}, np.cosh),
    "arc tangent": ("Atan", {}, 13, {}, np.arctan),
    "area sine": ("Asinh", {}, 13, {}, np.arcsinh),
    "float modulo": (
        "Mod",
        {"b": BN["s"][:, None, None] + 2},
        13,
        {"fmod": 1},
        lambda x: np.fmod(x, BN["s"][V] + 2),
    ),
    "float modulo with the sign of the divisor": (
        "Mod",
        {"b": BN["s"][:, None, None] - 2},
        28,
        {},
        lambda x: np.mod(x, BN["s"][V] - 2),
    ),
    "upper triangle": ("Trilu", {"k": np.array(1)}, 14, {}, lambda x: np.triu(x, 1)),
    "lower triangle": ("Trilu", {}, 14, {"upper": 0}, np.tril),
    "wrapped": (
        "Pad",
        {"p": np.array([0, 0, 1, 7, 0, 0, 3, 0])},
        19,
        {"mode": "wrap"},
        lambda x: np.pad(x, [(0, 0), (0, 0), (1, 3), (7, 0)], mode="wrap"),
    ),
    "crop and pad": (
        "CenterCropPad",
        {"s": np.array([2, 8])},
        18,
        {"axes": (2, 3)},
        lambda x: np.pad(x[:, :, 1:3], [(0, 0), (0, 0), (0, 0), (1, 2)]),
    ),
    "log of summed powers": (
        "ReduceLogSumExp",
        {"a": np.array([1, 3])},
        18,
        {"keepdims": 0},
        lambda x: np.log(np.exp(x).sum((1, 3))),
    ),
    "hard maximum": (
        "Hardmax",
        {},
        13,
        {"axis": 1},
        lambda x: np.arange(3)[V] == x.argmax(1)[:, None],
    ),
    "hard maximum of flattened axes": (
        "Hardmax",
        {},
        9,
        {"axis": 2},
        lambda x: (np.arange(20) == x.reshape(6, 20).argmax(1)[:, None]).reshape(x.shape),
    ),
    "unit length": (
        "LpNormalization",
        {},
        13,
        {"axis": 1},
        lambda x: x / np.sqrt((x**2).sum(1, keepdims=True)),
    ),
    "unit sum": (
        "LpNormalization",
        {},
        13,
        {"p": 1},
        lambda x: x / np.abs(x).sum(3, keepdims=True),
    ),
    "mean and variance": (
        "MeanVarianceNormalization",
        {},
        13,
        {"axes": (2, 3)},
        lambda x: (x - x.mean((2, 3), keepdims=True)) / x.std((2, 3), keepdims=True),
    ),
    "columns of scikit-learn": (
        "Scaler",
        {},
        13,
        {"domain": "ai.onnx.ml", "offset": (1.5,), "scale": (2.0, 1.0, 0.5, 3.0, 4.0)},
        lambda x: (x - 1.5) * [2, 1, 0.5, 3, 4],
    ),
    "selu": (
        "Selu",
        {},
        13,
        {"alpha": 2.0, "gamma": 3.0},
        lambda x: 3 * np.where(x > 0, x, 2 * (np.exp(np.minimum(x, 0)) - 1)),
    ),
    "softplus": ("Softplus", {}, 13, {}, lambda x: np.log1p(np.exp(x))),
    "prelu of channels": (
        "PRelu",
        {"a": BN["s"]},
        6,
        {},
        lambda x: np.where(x > 0, x, x * BN["s"][V]),
    ),
    "layer norm": (
        "LayerNormalization",
        {"s": BN["s"][:, None, None] + np.zeros((3, 4, 5), np.float32)},
        17,
        {"axis": 1},
        lambda x: (
            (x - x.mean((1, 2, 3), keepdims=True))
            / np.sqrt(x.var((1, 2, 3), keepdims=True) + 1e-5)
            * BN["s"][V]
        ),
    ),
    "instance norm": (
        "InstanceNormalization",
        {"s": BN["s"], "b": BN["b"]},
        13,
        {},
        lambda x: (
            (x - x.mean((2, 3), keepdims=True))
            / np.sqrt(x.var((2, 3), keepdims=True) + 1e-5)
            * BN["s"][V]
            + BN["b"][V]
        ),
    ),
    "addition before opset 7": (
        "Add",
        {"b": BN["b"]},
        6,
        {"broadcast": 1, "axis": 1},
        lambda x: x + BN["b"][V],
    ),
    # Output i is the input at i / 2, beyond the last one the last.
    "linear resizing before opset 11": (
        "Resize",
        {"scales": np.array([1, 1, 2, 1], np.float32)},
        10,
        {"mode": "linear"},
        lambda x: np.stack((x, (x + x[:, :, [1, 2, 3, 3]]) / 2), 3).reshape(2, 3, 8, 5),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operators(tmp_path: Path, name: str) -> None:
    kind, constants, opset, attributes, formula = CASES[name]
    y = outputs(one_node(kind, X, constants, opset, **attributes), tmp_path, X)
    wanted = formula(X.astype(np.float64))
    assert y.shape == wanted.shape
    np.testing.assert_allclose(y, wanted, atol=1e-5)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_pools_of_volumes(tmp_path: Path, kind: str) -> None:
    x = real(2, 3, 5, 4, 6) - 5
    attributes: dict[str, Any] = {
        "kernel_shape": (2, 3, 2),
        "strides": (1, 2, 2),
        "pads": (1, 1, 0, 0, 0, 0),
    }
    y = outputs(one_node(kind, x, {}, **attributes), tmp_path, x)
    assert y.shape == (2, 3, 5, 2, 3)
    for i, j, k in np.ndindex(5, 2, 3):
        part = x[:, :, max(i - 1, 0) : i + 1, max(2 * j - 1, 0) : 2 * j + 2, 2 * k : 2 * k + 2]
        wanted = part.max((2, 3, 4)) if kind == "MaxPool" else part.mean((2, 3, 4))
        np.testing.assert_allclose(y[:, :, i, j, k], wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("sizes", "kernel", "groups", "attributes"),
    [
        ((4, 3), (3, 2), 1, {"strides": (2, 2), "pads": (1, 0, 1, 1)}),
        ((4, 3), (3, 2), 1, {"strides": (2, 3), "output_padding": (1, 2)}),
        ((4, 3), (3, 2), 1, {"strides": (2, 2), "auto_pad": "SAME_UPPER"}),
        ((4, 3), (3, 2), 1, {"strides": (3, 2), "output_shape": (13, 6)}),
        ((4, 3), (3, 2), 2, {"strides": (2, 1), "pads": (1, 0, 2, 1)}),
        ((4, 3), (3, 2), 4, {"strides": (1, 2), "output_padding": (0, 1)}),
        ((4, 3), (3, 2), 1, {"dilations": (2, 1), "pads": (3, 0, 4, 1)}),
        ((5,), (3,), 2, {"strides": (2,), "dilations": (2,), "pads": (1, 1)}),
        ((3, 2, 2), (2, 3, 1), 1, {"strides": (2, 1, 3), "pads": (1, 0, 0, 0, 1, 0)}),
        ((3, 2, 2), (2, 3, 1), 2, {"strides": (1, 2, 1), "output_padding": (0, 1, 0)}),
    ],
)
def test_transposed_convolutions(
    tmp_path: Path, sizes: Any, kernel: Any, groups: int, attributes: dict[str, Any]
) -> None:
    """Each value of x adds its multiple of the filters to y."""
    axes, channels, units = len(sizes), 4, 2
    x, w = real(2, channels, *sizes), real(channels, units, *kernel)
    b = real(groups * units)
    file = one_node("ConvTranspose", x, {"w": w, "b": b}, group=groups, **attributes)
    y = outputs(file, tmp_path, x)
    strides, gaps = (attributes.get(n, (1,) * axes) for n in ("strides", "dilations"))
    full = np.zeros((2, groups * units, *[40] * axes))
    each = channels // groups
    for c, at, tap in itertools.product(range(channels), np.ndindex(*sizes), np.ndindex(*kernel)):
        place = tuple(a * s + t * d for a, s, t, d in zip(at, strides, tap, gaps, strict=True))
        units_of = slice(c // each * units, (c // each + 1) * units)
        full[(slice(None), units_of, *place)] += np.outer(
            x[(slice(None), c, *at)], w[(c, slice(None), *tap)]
        )
    pads = attributes.get("pads", (0,) * 2 * axes)
    more = attributes.get("output_padding", (0,) * axes)
    rows = zip(sizes, strides, kernel, gaps, pads[:axes], pads[axes:], more, strict=True)
    size = [(n - 1) * s + (k - 1) * d + 1 - lo - hi + m for n, s, k, d, lo, hi, m in rows]
    if "auto_pad" in attributes:
        size = [8, 6]
    size = [*attributes.get("output_shape", size)]
    inside = tuple(slice(lo, lo + n) for lo, n in zip(pads[:axes], size, strict=True))
    wanted = full[(slice(None), slice(None), *inside)] + b.reshape(-1, *[1] * axes)
    assert y.shape == wanted.shape
    np.testing.assert_allclose(y, wanted, atol=1e-5)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize(
    ("dilations", "strides"), [((1, 1), (1, 2)), ((2, 3), (1, 2)), ((2, 1), (2, 2))]
)
def test_windows_with_gaps(
    tmp_path: Path, kind: str, dilations: tuple[int, int], strides: tuple[int, int]
) -> None:
    x = real(2, 3, 8, 9)
    extra = {"p": 3} if kind == "LpPool" else {}
    file = one_node(
        kind,
        x,
        {},
        19,
        kernel_shape=(3, 2),
        strides=strides,
        dilations=dilations,
        pads=(1, 0, 0, 1),
        **extra,
    )
    y = outputs(file, tmp_path, x)
    for i, j in np.ndindex(*y.shape[2:]):
        rows = i * strides[0] - 1 + np.arange(3) * dilations[0]
        columns = strides[1] * j + np.arange(2) * dilations[1]
        part = x[:, :, rows[(rows >= 0) & (rows < 8)]][..., columns[columns < 9]]
        wanted = {
            "MaxPool": lambda part: part.max((2, 3)),
            "AveragePool": lambda part: part.mean((2, 3)),
            "LpPool": lambda part: (np.abs(part) ** 3).sum((2, 3)) ** (1 / 3),
        }[kind](part)
        np.testing.assert_allclose(y[:, :, i, j], wanted, atol=1e-5)


def test_weights_in_two_layouts_are_one_weight(tmp_path: Path) -> None:
    """The second layer reads the transposed weight of the first one: (x wᵀ) w."""
    w, x = real(4, 6), real(3, 6)
    file = OnnxFile()
    file.inputs.append(value("x", ("N", 6)))
    file.outputs.append(value("y", ("N", 6)))
    file.constants({"w": w})
    file.add("Gemm", "x", "w", outputs=["h"], transB=1)
    file.add("MatMul", "h", "w")
    np.testing.assert_allclose(outputs(file, tmp_path, x), x @ w.T @ w, atol=1e-4)
    assert [*odt.load_model(tmp_path / "m.onnx").parameters] == ["w"]


def test_shape_arithmetic_follows_the_batch(tmp_path: Path) -> None:
    """What PyTorch writes for x.view(x.size(0), -1)."""
    x = real(5, 3, 2)
    file = OnnxFile()
    file.inputs.append(value("x", ("N", 3, 2)))
    file.outputs.append(value("y", ("N", 6)))
    file.constants({"zero": np.array(0), "axis": np.array([0]), "rest": np.array([-1])})
    file.add("Shape", "x", outputs=["s"])
    file.add("Gather", "s", "zero", outputs=["n"])
    file.add("Unsqueeze", "n", "axis", outputs=["n1"])
    file.add("Concat", "n1", "rest", outputs=["target"], axis=0)
    file.add("Reshape", "x", "target")
    np.testing.assert_array_equal(outputs(file, tmp_path, x), x.reshape(5, 6))


def test_identity_and_dropout_may_be_outputs(tmp_path: Path) -> None:
    x = real(2, 3)
    file = one_node("Dropout", x, {})
    file.add("Identity", "x", outputs=["z"])
    file.outputs.append(value("z", ()))
    y = outputs(file, tmp_path, x)
    np.testing.assert_array_equal(y, [x, x])


@pytest.mark.parametrize(
    ("kind", "attributes", "words"),
    [
        ("Softmax", {"axis": "last"}, "axis must be like -1, but got 'last'"),
        ("Softmax", {"axis": 9}, "axis must be one of 4, but got 9"),
        ("Flatten", {"axis": 5}, "axis must be -4 to 4, but got 5"),
        ("Transpose", {"perm": (0, 1)}, "perm must be an order of 4 axes"),
        ("MaxPool", {"kernel_shape": (9, 9)}, "windows must fit into (4, 5), but got (9, 9)"),
        ("MaxPool", {"kernel_shape": (2, 2), "strides": (0, 1)}, "must be above 0"),
        ("Einsum", {"equation": "aa,b->b"}, "no letter may be twice"),
        ("Pad", {"pads": (0, 0, 2**40, 0, 0, 0, 0, 0)}, "pads must be at most"),
        ("Split", {"split": (1, 2)}, "sizes must add up to 1, but got (1, 2)"),
        ("ConvTranspose", {"strides": (2,)}, "output_padding must have 2 axes each"),
        ("ConvTranspose", {"strides": (0, 1)}, "must be above 0, but got (0, 1), (1, 1)"),
        ("ConvTranspose", {"kernel_shape": (2, 2)}, "the filters, (2, 3), but got (2, 2)"),
        (
            "ConvTranspose",
            {"auto_pad": "VALID", "pads": (0, 1, 0, 0)},
            "pads must be left out with auto_pad VALID, but got (0, 1, 0, 0)",
        ),
        ("Conv", {"auto_pad": "SAME_UPPER", "pads": (1, 1, 1, 1)}, "pads must be left out with"),
        ("ConvTranspose", {"auto_pad": "SAME"}, "auto_pad must be one of the standard"),
    ],
)
def test_attributes_that_do_not_fit_are_named(
    tmp_path: Path, kind: str, attributes: dict[str, Any], words: str
) -> None:
    weights = {"Einsum": W, "Conv": real(2, 3, 2, 3), "ConvTranspose": real(3, 2, 2, 3)}
    constants = {"w": weights[kind]} if kind in weights else {}
    opset = {"Pad": 9, "Split": 11}.get(kind, 17)
    file = one_node(kind, X, constants, opset, **attributes)
    path = file.write(tmp_path / "m.onnx")
    (refused,) = lower_model(read_model(path), outputs="file").graphs.unsupported
    assert words in str(refused)


# Constants and attributes of nodes that the standard does not allow.
INVALID: dict[str, tuple[str, Array, Mapping[str, Any], Mapping[str, Any], str]] = {
    "matrices of vectors": ("Trilu", X[0, 0, 0], {}, {}, "x must hold matrices, but got (1,)"),
    "two diagonals": ("Trilu", X, {"k": [1, 2]}, {}, "k must be one number, but got 2"),
    "a diagonal of 0.5": ("Trilu", X, {"k": np.float32(0.5)}, {}, "k must be whole numbers"),
    "two axes": ("CumSum", X, {"axis": [0, 1]}, {}, "axis must be one number, but got 2"),
    "two values of padding": (
        "Pad",
        X,
        {"pads": [0, 0, 1, 0, 0, 0, 0, 0], "v": real(2)},
        {},
        "the value of padding must be one number, but got shape (2,)",
    ),
    "no number of best values": ("TopK", X, {"k": np.zeros(0, np.int64)}, {}, "k must be one"),
    "text as an axis": ("Compress", X, {"c": [True]}, {"axis": "x"}, "axis must be like 0"),
    "a scale of other values": (
        "RMSNormalization",
        X,
        {"s": real(2)},
        {},
        "weights must have 5 values, but got (2,)",
    ),
    "a scale of other axes": (
        "GroupNormalization",
        X,
        {"s": real(3, 1), "b": real(3)},
        {"num_groups": 3},
        "weights must have 1 axes, but got (3, 1)",
    ),
    "no channels": (
        "InstanceNormalization",
        X[0, 0, 0],
        {"s": real(3), "b": real(3)},
        {},
        "x must be (N, C, …), but got (1,)",
    ),
    "no steps": (
        "RotaryEmbedding",
        X[:, :, :, :4],
        {"c": real(4, 2), "s": real(4, 2)},
        {},
        "angles must be those of steps of samples, but got (4, 2)",
    ),
    "text as scales": (
        "ai.onnx.ml.Scaler",
        X,
        {},
        {"offset": ("a",), "scale": (1.0,)},
        "offset and scale must be numbers",
    ),
    "a mask of whole numbers": (
        "Attention",
        X,
        {"k": X[:1], "v": X[:1], "m": np.ones((4, 4), np.int64)},
        {},
        "attn_mask must be truth values or floats, but got int64",
    ),
    "a length beyond all numbers": (
        "Resize",
        X,
        {"r": real(0), "s": np.array([1, 1, 3e38, 3e38], np.float32)},
        {},
        "scales must be 4 numbers above 0, up to 16777216",
    ),
    "the batch as second axis": (
        "Resize",
        X,
        {"r": real(0), "s": np.full(2, 2, np.float32)},
        {"axes": (2, 0)},
        "axis 0, the batch, must keep its length, but got 2",
    ),
    "a root of integers": (
        "Pow",
        X.astype(np.int64),
        {"e": np.float32(0.5)},
        {},
        "exponents of integers must be whole, but got 0.5",
    ),
    "two parts, one output": (
        "Split",
        X,
        {},
        {"num_outputs": 2, "axis": 2},
        "num_outputs must be that of the outputs, above 0, but got 1",
    ),
    "a type of two numbers": ("EyeLike", X[0, 0], {}, {"dtype": (1, 2)}, "dtype must be like 0"),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_nodes_are_named(tmp_path: Path, name: str) -> None:
    kind, x, constants, attributes, words = INVALID[name]
    *domain, kind = kind.rsplit(".", 1)
    file = one_node(
        kind,
        x,
        {k: np.asarray(v) for k, v in constants.items()},
        20,
        **({"domain": domain[0]} if domain else {}),
        **attributes,
    )
    path = file.write(tmp_path / "m.onnx")
    (refused,) = lower_model(read_model(path), outputs="file").graphs.unsupported
    assert words in str(refused)


@pytest.mark.parametrize(
    ("kind", "inputs", "words"),
    [
        (
            "Range",
            {"a": [0, 1], "b": 3, "c": 1},
            "the range must be one number, but got shape (2,)",
        ),
        ("HannWindow", {"a": [4, 5]}, "size must be one number, but got 2"),
        ("NonZero", {"a": 1}, "x must have axes, but got one number"),
        ("ConstantOfShape", {"a": [2, -1]}, "no axis below 0, but got (2, -1)"),
        ("ConstantOfShape", {"a": [1] * 32}, "at most 31 axes, but got 32"),
        ("Concat", {"a": np.zeros((0, 3)), "b": np.zeros((1, 0))}, "differ along axis 1 only"),
    ],
)
def test_invalid_constants_are_named(
    tmp_path: Path, kind: str, inputs: Mapping[str, Any], words: str
) -> None:
    file = OnnxFile(17)
    file.constants({name: np.asarray(v) for name, v in inputs.items()})
    if kind == "Concat":
        file.add(kind, *inputs, axis=1)
    else:
        file.add(kind, *inputs)
    file.outputs.append(value("y", ()))
    lowered = lower_model(read_model(file.write(tmp_path / "m.onnx")), outputs="file")
    (refused,) = lowered.graphs.unsupported
    assert words in str(refused)


@pytest.mark.parametrize(
    ("shapes", "axis"), [(((0, 3), (0, 4)), 1), (((0, 3), (0, 3)), 0), (((2, 0), (2, 4)), 1)]
)
def test_tensors_without_values_are_joined(tmp_path: Path, shapes: Any, axis: int) -> None:
    file = OnnxFile(17)
    parts = [real(*shape) for shape in shapes]
    file.inputs.append(value("x", ("N", 2)))
    file.constants({"a": parts[0], "b": parts[1]})
    file.add("Concat", "a", "b", outputs=["c"], axis=axis)
    file.add("Shape", "c", outputs=["s"])
    file.add("Cast", "s", outputs=["f"], to=1)
    file.add("Add", "x", "f")
    file.outputs.append(value("y", ()))
    y = outputs(file, tmp_path, np.zeros((1, 2), np.float32))
    np.testing.assert_array_equal(y, [np.concatenate(parts, axis).shape])


def test_a_tuple_of_indices_selects_one_entry(tmp_path: Path) -> None:
    w, x = real(2, 3, 4), real(2, 4)
    file = OnnxFile(17)
    file.inputs.append(value("x", ("N", 4)))
    file.constants({"w": w, "i": np.array([1, 2])})
    file.add("GatherND", "w", "i", outputs=["row"])
    file.add("Add", "x", "row")
    file.outputs.append(value("y", ()))
    np.testing.assert_array_equal(outputs(file, tmp_path, x), x + w[1, 2])


def test_all_operators_that_cannot_be_trained_are_named(tmp_path: Path) -> None:
    file = mlp()
    file.add("Mystery", "y", outputs=["a"], name="one", domain="x.y")
    file.add("Relu", "a", outputs=["b"])
    file.add("NonMaxSuppression", "r", outputs=["c"], name="two")
    file.add("MaxPool", "r", outputs=["d"], name="three", kernel_shape=(2,))
    file.add("DequantizeLinear", "r", outputs=["e"], name="four")
    for name in "bcde":
        file.outputs.append(value(name, ()))
    lowered = lower_model(read_model(file.write(tmp_path / "m.onnx")), outputs="file")
    with pytest.raises(odt.UnsupportedError) as e:
        lowered.graphs.check()
    text = e.value.details or str(e.value)
    for words in (
        'node 4 "one" (x.y.Mystery): ',
        "is not supported (x.y, opset 1)",
        'node 6 "two" (NonMaxSuppression): ',
        "is not supported (ai.onnx, opset 17)",
        'node 7 "three" (MaxPool): ',
        "x must have one to three spatial axes",
        'node 8 "four" (DequantizeLinear): is of a quantized file; train the float file that it',
    ):
        assert words in text
    assert "Relu" not in text, "it waits for another node"


@pytest.mark.parametrize("kind", ["Asin", "Acos", "Atanh"])
def test_inverse_functions(tmp_path: Path, kind: str) -> None:
    x = np.linspace(-0.95, 0.95, 24, dtype=np.float32).reshape(2, 12)
    formula = {"Asin": np.arcsin, "Acos": np.arccos, "Atanh": np.arctanh}[kind]
    y = outputs(one_node(kind, x, {}), tmp_path, x)
    np.testing.assert_allclose(y, formula(x.astype(np.float64)), atol=1e-5)


@pytest.mark.parametrize("kind", ["Div", "Mod"])
def test_division_of_integers(tmp_path: Path, kind: str) -> None:
    """Quotients are rounded towards 0; a rest with fmod has the sign of the dividend."""
    x = np.array([[7, -7, 9, -1], [0, 5, -8, 3]])
    b = np.array([2, 2, -4, 3])
    attributes = {"fmod": 1} if kind == "Mod" else {}
    y = outputs(one_node(kind, x, {"b": b}, 14, **attributes), tmp_path, x)
    np.testing.assert_array_equal(y, np.trunc(x / b) if kind == "Div" else np.fmod(x, b))


def test_layer_norm_with_statistics(tmp_path: Path) -> None:
    file = OnnxFile(17)
    file.inputs.append(value("x", ("N", 3, 4, 5)))
    file.outputs += [value(n, ()) for n in ("y", "m", "s")]
    file.constants({"w": np.ones((4, 5), np.float32)})
    file.add("LayerNormalization", "x", "w", outputs=["y", "m", "s"], axis=2)
    y, m, s = compute(file, tmp_path, X)
    mean = X.mean((2, 3), keepdims=True)
    spread = 1 / np.sqrt(X.var((2, 3), keepdims=True) + 1e-5)
    for got, wanted in ((m, mean), (s, spread), (y, (X - mean) * spread)):
        np.testing.assert_allclose(got, wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "attributes", "words"),
    [
        ("Relu", {"slope": 2}, "attributes must be some of consumed_inputs, but got slope"),
        ("Dropout", {}, "training_mode must be 0"),
        ("SpaceToDepth", {"blocksize": 2}, "must have the axes|multiple|block"),
    ],
)
def test_what_would_mean_something_else_is_refused(
    tmp_path: Path, kind: str, attributes: dict[str, Any], words: str
) -> None:
    constants = {"r": np.float32(0.5), "t": np.array(True)} if kind == "Dropout" else {}
    file = one_node(kind, X, constants, 13, **attributes)
    lowered = lower_model(read_model(file.write(tmp_path / "m.onnx")), outputs="file")
    (node,) = lowered.graphs.unsupported
    assert re.search(words, node.reason)


def test_each_kind_has_a_signature_and_is_documented() -> None:
    assert SIGNATURES.keys() == LOWERINGS.keys()
    page = (ROOT / "docs" / "onnx.md").read_text(encoding="utf-8")
    table = page.partition("| kinds of nodes |")[2].partition("\n\n")[0]
    listed = set(re.findall(r"[A-Za-z][A-Za-z0-9.]*", table))
    assert LOWERINGS.keys() <= listed


def test_dropout_has_no_effect(tmp_path: Path) -> None:
    """Exports in training mode contain it; nothing is random in a prediction."""
    file = OnnxFile(13)
    file.inputs.append(value("x", ("N", 3, 4, 5)))
    file.outputs.append(value("y", ()))
    file.constants({"r": np.float32(0.5), "t": np.array(True)})
    file.add("Relu", "x", outputs=["z"])
    file.add("Dropout", "z", "r", "t", outputs=["d"])
    file.add("Neg", "d")
    np.testing.assert_array_equal(outputs(file, tmp_path, X), -np.maximum(X, 0))


def test_tensors_may_have_31_axes(tmp_path: Path) -> None:
    x, w = real(2, 3), real(3)
    ones = [1] * 29
    file = one_node("Reshape", x, {"wide": [-1, *ones, 3]}, outputs=["a"])
    file.constants({"w": w.reshape(*ones, 3), "b": [1, *ones, 3], "narrow": [-1, 3]})
    file.add("Expand", "w", "b", outputs=["e"])
    file.add("Tile", "e", "b", outputs=["t"])
    file.add("Slice", "t", "zero", "end", "last", outputs=["f"])
    file.constants({"zero": [0], "end": [3], "last": [30]})
    file.add("Greater", "a", "f", outputs=["c"])
    file.add("Where", "c", "a", "f", outputs=["z"])
    file.add("Reshape", "z", "narrow")
    np.testing.assert_array_equal(outputs(file, tmp_path, x), np.maximum(x, w))
