"""What the operator table cannot ask of windows: ties, zeros, and how much scratch they want."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_builder import ModelBuilder
from support.bounded import answers
from support.op_run import Case, best_form, row_of

import odt
from odt.kernels.geometry.im2col import TILE_BYTES
from odt.kernels.native import library
from odt.kernels.rows.opdef import Array, Kernel, TensorSpec

FLOAT32 = np.dtype(np.float32)
POOL = {"filter_height": 2, "filter_width": 2, "padding": 1}


def pool(op: str, x: Array, **options: int) -> Case:
    row = row_of(op)
    return Case.make(row, row.attrs({**POOL, **options}, {}), {"x": x})


def column(*values: float) -> Array:
    return np.array(values, np.float64).reshape(1, 2, -1, 1)


def test_the_first_of_equal_maxima_gets_the_gradient() -> None:
    case = pool("MAX_POOL_2D", column(1, 5, 5, 5, 5, 2))
    case.forward()
    case.arrays["dy"] = np.array([10.0, 20.0]).reshape(1, 1, 2, 1)
    np.testing.assert_array_equal(case.gradient("x"), column(0, 30, 0, 0, 0, 0))


def first_maxima(x: Array, dy: Array, size: int, stride: int) -> Array:
    """Adds each value of dy at the first maximum of its window; windows end at the border."""
    dx = np.zeros_like(x)
    for n, p, q, c in np.ndindex(dy.shape):
        part = x[n, p * stride :, q * stride :, c][:size, :size]
        found = np.argwhere(part == part.max())
        if len(found):
            dx[n, p * stride + found[0][0], q * stride + found[0][1], c] += dy[n, p, q, c]
    return dx


@pytest.mark.parametrize("kernels", ["numpy", *library.instruction_sets()])
@pytest.mark.parametrize(("size", "stride"), [(3, 2), (2, 1), (3, 4), (7, 7)])
def test_ties_and_nan_on_every_instruction_set(
    kernels: str, size: int, stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Channels that fill vectors of every set, or parts of them; gradients with exact sums."""
    monkeypatch.setenv("ODT_KERNELS", kernels)
    row, rng = row_of("MAX_POOL_2D"), np.random.default_rng(0)
    options = {"filter_height": size, "filter_width": size, "padding": 1}
    attrs = row.attrs({**options, "stride_h": stride, "stride_w": stride}, {})
    for channels in (1, 3, 22, 24, 70):
        x = rng.integers(-2, 2, (2, 7, 7, channels)).astype(np.float32)
        x[1, 1, 3, -1] = np.nan
        case = Case.make(row, attrs, {"x": x})
        forward = best_form(row.forward, attrs, case.specs)
        y = case.arrays["y"] = case.run(forward)["y"]
        view = np.lib.stride_tricks.sliding_window_view(x, (size, size), (1, 2))
        np.testing.assert_array_equal(y, view[:, ::stride, ::stride].max((4, 5)))
        case.arrays["dy"] = np.asarray(rng.integers(1, 9, y.shape), np.float32)
        grad = row.grads["x"]
        assert isinstance(grad, Kernel)
        dx = case.run(best_form(grad, attrs, case.specs), of="x")["dx"]
        np.testing.assert_array_equal(dx, first_maxima(x, case.arrays["dy"], size, stride))


@pytest.mark.parametrize("kernels", ["numpy", *library.instruction_sets()])
@pytest.mark.parametrize("op", ["REDUCE_MAX", "REDUCE_MIN"])
def test_equals_share_the_gradient_on_every_instruction_set(
    kernels: str, op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of columns and rows that fill vectors, or parts of them; also over x itself."""
    monkeypatch.setenv("ODT_KERNELS", kernels)
    row, rng = row_of(op), np.random.default_rng(0)
    for shape, axes in (((2, 9, 3), [1]), ((2, 9, 1061), [1]), ((5, 35), [1]), ((3, 2), [1])):
        attrs = row.attrs({}, {"axes": np.array(axes)})
        x = rng.integers(-2, 2, shape).astype(np.float32)
        x[1, 0] = rng.normal(size=x[1, 0].shape)
        case = Case.make(row, attrs, {"x": x})
        y = case.arrays["y"] = case.run(best_form(row.forward, attrs, case.specs))["y"]
        np.testing.assert_array_equal(y, x.max(1) if op == "REDUCE_MAX" else x.min(1))
        dy = case.arrays["dy"] = np.asarray(rng.integers(1, 9, y.shape), np.float32)
        equal = x == np.expand_dims(y, 1)
        wanted = equal * np.expand_dims(dy / equal.sum(1, dtype=np.float32), 1)
        grad = row.grads["x"]
        assert isinstance(grad, Kernel)
        for alias in (None, ("dx", "x")):
            dx = case.run(best_form(grad, attrs, case.specs), of="x", alias=alias)["dx"]
            np.testing.assert_array_equal(dx, wanted)


def test_padding_takes_no_gradient_from_negative_maxima() -> None:
    case = pool("MAX_POOL_2D", column(-3, -1, -4, -2), padding=0)
    np.testing.assert_array_equal(case.forward()["y"], column(-1, -1, -2, -2))
    case.arrays["dy"] = column(1, 2, 3, 4)
    np.testing.assert_array_equal(case.gradient("x"), column(0, 3, 0, 7))


def test_a_window_of_zeros_gives_no_gradient() -> None:
    case = pool("L2_POOL_2D", column(0, 0, 3, 0, 0, 4))
    np.testing.assert_allclose(case.forward()["y"].ravel(), [0, 2.5])
    case.arrays["dy"] = np.array([7.0, 10.0]).reshape(1, 1, 2, 1)
    np.testing.assert_allclose(case.gradient("x"), column(0, 0, 3, 0, 0, 4))


@pytest.mark.parametrize("op", ["CONV_2D", "DEPTHWISE_CONV_2D"])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (1, 2), (2, 3)])
def test_scratch_does_not_grow_with_the_batch(op: str, kernel: int, stride: int) -> None:
    """Also where the stride is above the kernel, and some inputs are in no window."""
    row = row_of(op)
    attrs = row.attrs({"stride_h": stride, "stride_w": stride}, {})
    w = (16 if op == "CONV_2D" else 1, kernel, kernel, 16)
    sizes: list[list[int]] = []
    for n in (4096, 65536):
        specs = {"x": TensorSpec((n, 16, 16, 16), FLOAT32), "w": TensorSpec(w, FLOAT32)}
        specs |= row.infer(attrs, specs)
        specs |= {f"d{name}": spec for name, spec in specs.items()}
        sizes.append([])
        for run in (row.forward, row.grads["x"], row.grads["w"]):
            assert isinstance(run, Kernel)
            sizes[-1].append(sum(s.nbytes for s in run.workspace(attrs, specs).values()))
    assert sizes[0] == sizes[1]
    assert max(sizes[0]) <= 4 * TILE_BYTES


MOST = 2**31 - 1


@pytest.mark.parametrize("op", ["MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D"])
@pytest.mark.parametrize("stride", [1, MOST])
def test_the_largest_window_is_the_whole_image(op: str, stride: int, tmp_path: Path) -> None:
    """In the time and memory of the image, in NumPy and compiled."""
    sizes = {"filter_height": MOST, "filter_width": MOST, "padding": 0}
    x = np.random.default_rng(0).normal(size=(2, 5, 7, 3))
    case = pool(op, x, **sizes, stride_h=stride, stride_w=stride)
    whole = {
        "MAX_POOL_2D": x.max((1, 2)),
        "AVERAGE_POOL_2D": x.mean((1, 2)),
        "L2_POOL_2D": np.sqrt((x * x).mean((1, 2))),
    }[op]
    y = case.forward()["y"]
    np.testing.assert_allclose(y, np.broadcast_to(whole[:, None, None], y.shape), rtol=1e-6)
    builder = ModelBuilder("tflite", 0)
    i = builder.add_input((1, 5, 7, 3))
    i = builder.add_operator("MUL", (i, builder.add_constant(np.ones(3, "f4"))), (1, 5, 7, 3))
    out = (1, *y.shape[1:])
    options: dict[str, Any] = {**sizes, "stride_h": stride, "stride_w": stride}
    builder.write(tmp_path / "m.tflite", builder.add_operator(op, (i,), out, **options))

    def train() -> None:
        with odt.Trainer(tmp_path / "m.tflite", loss="mse", batch_size=2) as trainer:
            f = x.astype(np.float32)
            np.testing.assert_allclose(trainer.predict(f), y, rtol=1e-5, atol=1e-6)
            trainer.train_on_batch(f, np.zeros(y.shape, np.float32))

    assert answers(train)


@pytest.mark.parametrize("op", ["CONV_2D", "DEPTHWISE_CONV_2D"])
def test_a_border_beyond_any_memory_is_one_line(op: str, tmp_path: Path) -> None:
    builder = ModelBuilder("tflite", 0)
    x = builder.add_input((1, 8, 8, 3))
    w = builder.add_constant(np.ones((3 if op == "CONV_2D" else 1, 3, 3, 3), np.float32))
    b = builder.add_constant(np.zeros(3, np.float32))
    options: dict[str, Any] = {"padding": 0, "stride_h": 1, "stride_w": 1}
    options |= {"dilation_h_factor": MOST, "dilation_w_factor": MOST}
    builder.write(
        tmp_path / "m.tflite", builder.add_operator(op, (x, w, b), (1, 8, 8, 3), **options)
    )
    words = ["check", str(tmp_path / "m.tflite"), "--loss", "mse"]
    for kernels in ({"ODT_KERNELS": "numpy"}, {}):
        command = [sys.executable, "-m", "odt", *words]
        environment = {**os.environ, **kernels}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode in (0, 1)
        assert done.returncode == 0 or done.stderr.startswith("Error: memory: must be enough")
        assert done.stderr.count("\n") <= 1
