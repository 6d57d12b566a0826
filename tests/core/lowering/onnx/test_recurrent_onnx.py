"""Recurrent layers, Erf, Resize and products with vectors in ONNX files, by their definitions."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.onnx_files import OnnxFile, value

import odt
from odt.core.formats.reader import read_model
from odt.core.recipe.lowered_model import lower_model

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(11)
N, T, WIDTH, H = 3, 4, 2, 3


def real(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def sigmoid(x: Array) -> Array:
    y: Array = 1 / (1 + np.exp(-x))
    return y


def lstm(x: Array, w: Array, r: Array, b: Array) -> Array:
    """States (N, T, H) for gates i o f c."""
    h, c, states = np.zeros((len(x), H)), np.zeros((len(x), H)), []
    for t in range(x.shape[1]):
        i, o, f, g = np.split(x[:, t] @ w.T + h @ r.T + b[: 4 * H] + b[4 * H :], 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return np.stack(states, 1)


def gru(x: Array, w: Array, r: Array, b: Array, after: bool) -> Array:
    """States (N, T, H) for gates z r h."""
    h, states = np.zeros((len(x), H)), []
    (wz, wr, wh), (rz, rr, rh) = np.split(w, 3), np.split(r, 3)
    bz, br, bh, cz, cr, ch = np.split(b, 6)
    for t in range(x.shape[1]):
        z = sigmoid(x[:, t] @ wz.T + h @ rz.T + bz + cz)
        reset = sigmoid(x[:, t] @ wr.T + h @ rr.T + br + cr)
        inner = reset * (h @ rh.T + ch) if after else (reset * h) @ rh.T + ch
        h = (1 - z) * np.tanh(x[:, t] @ wh.T + bh + inner) + z * h
        states.append(h)
    return np.stack(states, 1)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "GRU of the state"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_recurrent_layers(tmp_path: Path, kind: str, direction: str) -> None:
    """Y, of which the network sums the last and all steps; zeros as first states, as in PyTorch."""
    ways = 2 if direction == "bidirectional" else 1
    gates, after = (4, False) if kind == "LSTM" else (3, kind == "GRU")
    w, r, b = real(ways, gates * H, WIDTH), real(ways, gates * H, H), real(ways, 2 * gates * H)
    x = real(N, T, WIDTH)
    file = OnnxFile()
    file.inputs.append(value("x", ("N", T, WIDTH)))
    file.outputs.append(value("y", ("N", ways * H)))
    file.constants({"w": w, "r": r, "b": b, "zeros": np.zeros((ways, 1, H), np.float32)})
    file.add("Transpose", "x", outputs=["xt"], perm=(1, 0, 2))
    states = ("zeros", "zeros") if kind == "LSTM" else ("zeros",)
    options = {"linear_before_reset": int(after)} if kind != "LSTM" else {}
    file.add(
        kind.split(maxsplit=1)[0],
        *("xt", "w", "r", "b", "", *states),
        outputs=["all", "last"],
        hidden_size=H,
        direction=direction,
        **options,
    )
    file.add("Transpose", "all", outputs=["moved"], perm=(2, 0, 1, 3))
    file.add("ReduceSum", "moved", outputs=["sum4"], keepdims=1, axes=(1,))
    file.opset = 11
    file.constants({"shape": np.array([-1, ways * H])})
    file.add("Reshape", "sum4", "shape", outputs=["sum"])
    file.add("Transpose", "last", outputs=["last_n"], perm=(1, 0, 2))
    file.add("Reshape", "last_n", "shape", outputs=["end"])
    file.add("Add", "sum", "end")
    path = file.write(tmp_path / "m.onnx")
    parts = []
    for k in range(ways):
        backwards = direction == "reverse" or k == 1
        given = x[:, ::-1] if backwards else x
        y = lstm(given, w[k], r[k], b[k]) if kind == "LSTM" else gru(given, w[k], r[k], b[k], after)
        parts.append(y.sum(1) + y[:, -1])
    with odt.Trainer(path, loss="mean_squared_error", batch_size=N) as trainer:
        y = trainer.predict(x)
        before = trainer.train_on_batch(x, np.zeros((N, ways * H), np.float32))["loss"]
        for _ in range(5):
            after_it = trainer.train_on_batch(x, np.zeros((N, ways * H), np.float32))["loss"]
    np.testing.assert_allclose(y, np.concatenate(parts, 1), atol=1e-5)
    assert after_it < before
    assert {*odt.load_model(path).parameters} == {"w", "r", "b"}


def last_states(
    kind: str, x: Array, h: Array, c: Array, w: Array, r: Array, b: Array, p: Array
) -> tuple[Array, Array]:
    """State and cell after the last step; only an LSTM has a cell."""
    state, cell = h + np.zeros((N, H)), c + np.zeros((N, H))
    for t in range(T):
        z = x[:, t] @ w.T
        if kind == "LSTM":
            i, o, f, g = np.split(z + state @ r.T + b[: 4 * H] + b[4 * H :], 4, axis=1)
            pi, po, pf = np.split(p, 3)
            cell = sigmoid(f + pf * cell) * cell + sigmoid(i + pi * cell) * np.tanh(g)
            state = sigmoid(o + po * cell) * np.tanh(cell)
        elif kind == "GRU":
            (ru, rg, rn), (zu, zg, zn) = np.split(r, 3), np.split(z, 3, axis=1)
            bu, bg, bn, cu, cg, cn = np.split(b, 6)
            u, reset = (
                sigmoid(zi + bi + state @ ri.T + ci)
                for zi, bi, ri, ci in ((zu, bu, ru, cu), (zg, bg, rg, cg))
            )
            state = (1 - u) * np.tanh(zn + bn + reset * (state @ rn.T + cn)) + u * state
        else:
            z = z + state @ r.T + b[:H] + b[H:]
            state = np.maximum(z, 0) if kind == "RNN with Relu" else np.tanh(z)
    return state, cell


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN", "RNN with Relu"])
@pytest.mark.parametrize("shared", [False, True])
def test_first_and_last_states(tmp_path: Path, kind: str, shared: bool) -> None:
    """States come as input, or from a constant for all samples; the last ones are results."""
    name, gates = kind.split(maxsplit=1)[0], {"LSTM": 4, "GRU": 3}.get(kind, 1)
    w, r, b = real(1, gates * H, WIDTH), real(1, gates * H, H), real(1, 2 * gates * H)
    x, h, c, p = real(N, T, WIDTH), real(N, H), real(N, H), real(1, 3 * H)
    file = OnnxFile(13)
    file.inputs.append(value("x", ("N", T, WIDTH)))
    file.outputs.append(value("y", ("N", H)))
    file.constants({"w": w, "r": r, "b": b, "first": np.array([0])})
    if shared:
        h, c = h[:1], c[:1]
        file.constants({"h": h[None], "c": c[None]})
    else:
        file.inputs += [value("h_n", ("N", H)), value("c_n", ("N", H))]
        file.add("Unsqueeze", "h_n", "first", outputs=["h"])
        file.add("Unsqueeze", "c_n", "first", outputs=["c"])
    file.add("Transpose", "x", outputs=["xt"], perm=(1, 0, 2))
    inputs = ["xt", "w", "r", "b", "", "h"]
    options: dict[str, Any] = {"linear_before_reset": 1} if name == "GRU" else {}
    if name == "LSTM":
        file.constants({"p": p})
        inputs += ["c", "p"]
    if kind.endswith("Relu"):
        options = {"activations": ("Relu",)}
    results = ["all", "last_h", *(["last_c"] if name == "LSTM" else [])]
    file.add(name, *inputs, outputs=results, hidden_size=H, **options)
    if name == "LSTM":
        file.add("Add", "last_h", "last_c", outputs=["sum"])
    elif not shared:  # what is not read would be an input without effect
        file.add("Add", "last_h", "c", outputs=["sum"])
    else:
        file.add("Identity", "last_h", outputs=["sum"])
    file.add("Squeeze", "sum", "first")
    state, cell = last_states(kind, x, h, c, w[0], r[0], b[0], p[0])
    wanted = state + cell if name == "LSTM" or not shared else state
    with odt.Trainer(file.write(tmp_path / "m.onnx"), loss="mean_squared_error") as trainer:
        y = trainer.predict(x if shared else [x, h, c])
    np.testing.assert_allclose(y, wanted, atol=1e-5)


def network(x: Array, kind: str, *inputs: str, **attributes: Any) -> OnnxFile:
    """A Conv of 1×1 filters that are an identity, and one node."""
    file = OnnxFile()
    channels = x.shape[1]
    file.inputs.append(value("x", ("N", *x.shape[1:])))
    file.outputs.append(value("y", ()))
    file.constants({"w": np.eye(channels, dtype=np.float32).reshape(channels, channels, 1, 1)})
    file.add("Conv", "x", "w", outputs=["c"])
    file.add(kind, "c", *inputs, **attributes)
    return file


def predictions(file: OnnxFile, folder: Path, x: Array) -> Array:
    with odt.Trainer(file.write(folder / "m.onnx"), loss="mean_squared_error") as trainer:
        return np.asarray(trainer.predict(x))


def test_erf(tmp_path: Path) -> None:
    x = real(2, 3, 4, 4)
    y = predictions(network(x, "Erf"), tmp_path, x)
    np.testing.assert_allclose(y, np.vectorize(math.erf)(x), atol=1e-6)


@pytest.mark.parametrize(
    ("mode", "form", "rounding"),
    [
        ("nearest", "asymmetric", "floor"),
        ("nearest", "half_pixel", "round_prefer_floor"),
        ("linear", "half_pixel", "floor"),
        ("linear", "align_corners", "floor"),
        ("linear", "asymmetric", "floor"),
    ],
)
def test_resizing(tmp_path: Path, mode: str, form: str, rounding: str) -> None:
    x = real(2, 3, 4, 5)
    file = network(
        x,
        *("Resize", "", "scales"),
        mode=mode,
        coordinate_transformation_mode=form,
        nearest_mode=rounding,
    )
    file.constants({"scales": np.array([1, 1, 2, 3], np.float32)})
    wanted = x.astype(np.float64)
    for axis, scale in ((2, 2), (3, 3)):
        size = x.shape[axis]
        out = np.arange(size * scale)
        at = {
            "asymmetric": out / scale,
            "half_pixel": (out + 0.5) / scale - 0.5,
            "align_corners": out * (size - 1) / (size * scale - 1),
        }[form]
        weights = np.zeros((size * scale, size))
        for k, p in enumerate(at):
            if mode == "nearest":
                place = np.floor(p) if rounding == "floor" else np.ceil(p - 0.5)
                weights[k, int(np.clip(place, 0, size - 1))] = 1
                continue
            inside = np.clip(p, 0, size - 1)
            lower = int(inside)
            weights[k, lower] += 1 - (inside - lower)
            weights[k, min(lower + 1, size - 1)] += inside - lower
        wanted = np.moveaxis(np.tensordot(weights, wanted, (1, axis)), 0, axis)
    np.testing.assert_allclose(predictions(file, tmp_path, x), wanted, atol=1e-5)


@pytest.mark.parametrize("exclude", [0, 1])
def test_cubic_resizing(tmp_path: Path, exclude: int) -> None:
    """Keys' cubic convolution of four neighbors, beyond the image those at its edge or none."""
    x, a = real(2, 3, 4, 5), -0.5
    file = network(
        x, *("Resize", "", "", "sizes"), mode="cubic", cubic_coeff_a=a, exclude_outside=exclude
    )
    file.constants({"sizes": np.array([1, 3, 7, 3])})
    wanted = x.astype(np.float64)
    for axis, size in ((2, 7), (3, 3)):
        length = x.shape[axis]
        weights = np.zeros((size, length))
        for k in range(size):
            p = (k + 0.5) * length / size - 0.5
            for j in range(int(np.floor(p)) - 1, int(np.floor(p)) + 3):
                d = abs(j - p)
                near = (a + 2) * d**3 - (a + 3) * d**2 + 1
                w = near if d <= 1 else a * (d**3 - 5 * d**2 + 8 * d - 4)
                if 0 <= j < length or not exclude:
                    weights[k, min(max(j, 0), length - 1)] += w
        weights /= weights.sum(1, keepdims=True)
        wanted = np.moveaxis(np.tensordot(weights, wanted, (1, axis)), 0, axis)
    np.testing.assert_allclose(predictions(file, tmp_path, x), wanted, atol=1e-5)


def test_an_open_axis_of_time_is_refused(tmp_path: Path) -> None:
    """Samples would be steps of time; with a fixed length, a sample is a whole sequence."""
    for length in ("T", T):
        file = OnnxFile()
        file.inputs.append(value("x", (length, 1, WIDTH)))
        file.outputs.append(value("y", ()))
        file.constants({"w": real(1, 3 * H, WIDTH), "r": real(1, 3 * H, H)})
        file.add("GRU", "x", "w", "r", hidden_size=H)
        lowered = lower_model(read_model(file.write(tmp_path / "m.onnx")), outputs="file")
        reasons = [node.reason for node in lowered.graphs.unsupported]
        assert len(reasons) == (length == "T")
        assert all(reason.startswith("axis 0 of X is time") for reason in reasons)


def test_products_with_a_vector(tmp_path: Path) -> None:
    x, v = real(N, 4, WIDTH), real(WIDTH)
    file = OnnxFile()
    file.inputs.append(value("x", ("N", 4, WIDTH)))
    file.outputs.append(value("y", ("N", 4)))
    file.constants({"v": v})
    file.add("MatMul", "x", "v")
    np.testing.assert_allclose(predictions(file, tmp_path, x), x @ v, atol=1e-6)
