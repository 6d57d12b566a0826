"""A network with batch normalization, in an ONNX file and in NumPy with gradients written out.

Running statistics move as the definition in ONNX says, with the population's variance.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from odt.core.formats.reader import read_model
from support.onnx_files import OnnxFile, value

Array = np.ndarray[Any, Any]
EPSILON, MOMENTUM, RATE = 1e-3, 0.8, 0.2
STATISTICS = ("mean", "variance")


def weights() -> dict[str, Array]:
    draw = np.random.default_rng(7).standard_normal
    shapes = {"w1": (5, 6), "gamma": (5,), "beta": (5,), "mean": (5,), "w2": (3, 5), "b2": (3,)}
    named = {name: draw(shape).astype(np.float32) for name, shape in shapes.items()}
    return named | {"variance": draw(5).astype(np.float32) ** 2 + 0.5}


def network(path: Path, training_mode: int = 0) -> Path:
    """Gemm, BatchNormalization, Relu, Gemm."""
    file = OnnxFile()
    file.inputs.append(value("x", ("N", 6)))
    file.outputs.append(value("y", ("N", 3)))
    file.constants(weights())
    file.add("Gemm", "x", "w1", outputs=["h"], transB=1)
    vectors = ("gamma", "beta", "mean", "variance")
    numbers = {"epsilon": EPSILON, "momentum": MOMENTUM}
    if training_mode:
        numbers["training_mode"] = training_mode
    outputs = ["n", "new mean", "new variance"][: 1 + 2 * training_mode]
    file.add("BatchNormalization", "h", *vectors, outputs=outputs, **numbers)
    file.add("Relu", "n", outputs=["r"])
    file.add("Gemm", "r", "w2", "b2", transB=1)
    return file.write(path)


def batches(*sizes: int) -> Iterator[tuple[Array, Array]]:
    rng = np.random.default_rng(5)
    for n in sizes:
        x = rng.normal(1, 2, (n, 6)).astype(np.float32)
        yield x, rng.integers(0, 3, n)


class Reference:
    """The network in float64; `step` trains it by gradient descent."""

    def __init__(self) -> None:
        self.w = {name: a.astype(np.float64) for name, a in weights().items()}

    def step(self, x: Array, t: Array, trained: tuple[str, ...] = ()) -> float:
        w, n = self.w, len(x)
        h = x @ w["w1"].T
        mean, variance = h.mean(0), ((h - h.mean(0)) ** 2).mean(0)
        inv = 1 / np.sqrt(variance + EPSILON)
        normal = (h - mean) * inv
        z = normal * w["gamma"] + w["beta"]
        r = np.maximum(z, 0)
        y = r @ w["w2"].T + w["b2"]
        e = np.exp(y - y.max(1, keepdims=True))
        p = e / e.sum(1, keepdims=True)
        loss = -np.log(p[np.arange(n), t]).mean()
        dy = (p - np.eye(3)[t]) / n
        dz = dy @ w["w2"] * (z > 0)
        dn = dz * w["gamma"]
        dh = inv * (dn - dn.mean(0) - normal * (dn * normal).mean(0))
        gradients = {"w1": dh.T @ x, "gamma": (dz * normal).sum(0), "beta": dz.sum(0)}
        gradients |= {"w2": dy.T @ r, "b2": dy.sum(0)}
        for name in trained or gradients:
            w[name] -= RATE * gradients[name]
        for name, new in zip(STATISTICS, (mean, variance), strict=True):
            w[name] = MOMENTUM * w[name] + (1 - MOMENTUM) * new
        return float(loss)


def constants(path: Path) -> dict[str, Array]:
    tensors = read_model(path).graph.tensors
    return {t.name: np.array(t.data) for t in tensors if t.data is not None}
