"""Files that end in decoded boxes: training moves the weights, and no constant of the decoder.

The networks decode as detectors in the field do: with anchors (sigmoids of parts), without anchors
(exponentials and strides of positions), and by distributions of distances.
"""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import odt
from odt.cli.main import main
from odt.core.export.model_builder import ModelBuilder
from odt.core.formats.reader import read_model
from odt.kernels.rows.opdef import Array

SIDE, CELLS, SIZE = 4, 16, 32.0  # cells of a side and in all, pixels of a side
CENTERS = np.stack(np.meshgrid(np.arange(4.0), np.arange(4.0)), -1).reshape(1, CELLS, 2)


class Detector(ModelBuilder):
    """A convolution and a decoder, whose constants may be stored as float16."""

    def __init__(self, *, half: bool) -> None:
        super().__init__("tflite", seed=2)
        self.half = half

    def constant(self, values: Any, name: str = "") -> int:
        a = np.asarray(values, np.float16 if self.half else np.float32)
        stored = self.add_constant(a, name)
        return self.add_operator("DEQUANTIZE", [stored], a.shape) if self.half else stored

    def head(self, channels: int) -> int:
        x = self.add_input((1, SIDE, SIDE, 3))
        w = self.constant(self.rng.normal(0, 0.5, (channels, 1, 1, 3)), "w")
        b = self.constant(self.rng.normal(0, 0.5, channels), "b")
        return self.conv(x, w, b, (1, SIDE, SIDE, channels))

    def conv(self, x: int, w: int, b: int, shape: tuple[int, ...]) -> int:
        stride: dict[str, Any] = {"stride_w": 1, "stride_h": 1}
        return self.add_operator("CONV_2D", [x, w, b], shape, **stride)

    def reshape(self, x: int, *shape: int) -> int:
        sizes = self.add_constant(np.array(shape, np.int32))
        return self.add_operator("RESHAPE", [x, sizes], shape, new_shape=list(shape))

    def parts(self, x: int, axis: int, *shapes: tuple[int, ...]) -> list[int]:
        sizes = np.array([shape[axis] for shape in shapes], np.int32)
        inputs = [self.add_constant(a) for a in (sizes, np.array(axis, np.int32))]
        first = self.add_operator("SPLIT_V", [x, *inputs], *shapes, num_splits=len(shapes))
        return list(range(first, first + len(shapes)))

    def all(self, op: str, x: int, *values: Any, shape: tuple[int, ...]) -> int:
        """Applies an operator with each constant in turn."""
        for value in values:
            name = "size" if np.ndim(value) and np.ravel(value)[0] == np.float32(1 / SIZE) else ""
            x = self.add_operator(op, [x, self.constant(value, name)], shape)
        return x


def with_anchors(net: Detector, *, first: bool) -> int:
    """2 σ − ½ + grid, and 4 σ² anchors, divided by the size; sigmoids before or behind the cut."""
    y = net.reshape(net.head(21), 1, CELLS, 3, 7)
    if first:
        y = net.add_operator("LOGISTIC", [y], (1, CELLS, 3, 7))
    two, rest = (1, CELLS, 3, 2), (1, CELLS, 3, 3)
    parts = net.parts(y, 3, two, two, rest)
    if not first:
        shapes = two, two, rest
        parts = [net.add_operator("LOGISTIC", [i], s) for i, s in zip(parts, shapes, strict=True)]
    xy = net.all("MUL", parts[0], 2.0, shape=two)
    xy = net.all("ADD", xy, CENTERS.reshape(1, CELLS, 1, 2) - 0.5, shape=two)
    xy = net.all("MUL", xy, SIZE / SIDE, np.full((1, 2), 1 / SIZE), shape=two)
    wh = net.add_operator("MUL", [parts[1], parts[1]], two)
    anchors = np.array([10.0, 13, 16, 30, 33, 23]).reshape(1, 1, 3, 2)
    wh = net.all("MUL", wh, 4 * anchors, np.full((1, 2), 1 / SIZE), shape=two)
    y = net.add_operator("CONCATENATION", [xy, wh, parts[2]], (1, CELLS, 3, 7), axis=3)
    return net.reshape(y, 1, 3 * CELLS, 7)


def with_strides(net: Detector) -> int:
    """Centers plus raw offsets, and exponentials, times the stride of each position."""
    two = (1, CELLS, 2)
    y = net.reshape(net.head(6), 1, CELLS, 6)
    xy, wh, score = net.parts(y, 2, two, two, two)
    strides = np.repeat([8.0, 16.0], 8).reshape(1, CELLS, 1)
    xy = net.all("MUL", net.all("ADD", xy, CENTERS, shape=two), strides, shape=two)
    wh = net.all("MUL", net.add_operator("EXP", [wh], two), strides, shape=two)
    boxes = net.add_operator("CONCATENATION", [xy, wh], (1, CELLS, 4), axis=2)
    boxes = net.all("MUL", boxes, np.full(4, 1 / SIZE), shape=(1, CELLS, 4))
    score = net.add_operator("LOGISTIC", [score], two)
    return net.add_operator("CONCATENATION", [boxes, score], (1, CELLS, 6), axis=2)


def with_distances(net: Detector, *, product: bool) -> int:
    """Distances to the sides are means of 16 bins; then come points, strides and 1 / size."""
    bins, four, two = (1, 4, CELLS, 16), (1, 4, CELLS), (1, 2, CELLS)
    y = net.reshape(net.head(66), 1, CELLS, 66)
    y, score = net.parts(y, 2, (1, CELLS, 64), (1, CELLS, 2))
    order = net.add_constant(np.array([0, 2, 1, 3], np.int32))
    y = net.add_operator("TRANSPOSE", [net.reshape(y, 1, CELLS, 4, 16), order], bins)
    y = net.add_operator("SOFTMAX", [y], bins, beta=1.0)
    if product:
        y = net.all("MUL", y, np.arange(16.0), shape=bins)
        y = net.add_operator("SUM", [y, net.add_constant(np.array([3], np.int32))], four)
    else:
        filters = net.constant(np.arange(16.0).reshape(1, 1, 1, 16))
        y = net.conv(y, filters, net.constant(np.zeros(1)), (*four, 1))
        y = net.reshape(y, *four)
    low, high = net.parts(y, 1, two, two)
    points = net.constant(CENTERS.transpose(0, 2, 1) + 0.5)
    low = net.add_operator("SUB", [points, low], two)
    high = net.add_operator("ADD", [high, points], two)
    center = net.all("MUL", net.add_operator("ADD", [low, high], two), [[[0.5]]], shape=two)
    extent = net.add_operator("SUB", [high, low], two)
    boxes = net.add_operator("CONCATENATION", [center, extent], four, axis=1)
    strides = np.repeat([8.0, 16.0], 8).reshape(1, 1, CELLS)
    boxes = net.all("MUL", boxes, strides, np.full((1, 4, 1), 1 / SIZE), shape=four)
    score = net.add_operator("LOGISTIC", [score], (1, CELLS, 2))
    swap = net.add_constant(np.array([0, 2, 1], np.int32))
    score = net.add_operator("TRANSPOSE", [score, swap], two)
    return net.add_operator("CONCATENATION", [boxes, score], (1, 6, CELLS), axis=1)


DETECTORS: dict[str, Callable[[Detector], int]] = {
    "anchors": lambda net: with_anchors(net, first=False),
    "anchors, sigmoid first": lambda net: with_anchors(net, first=True),
    "strides": with_strides,
    "distances": lambda net: with_distances(net, product=False),
    "distances, product": lambda net: with_distances(net, product=True),
}
RNG = np.random.default_rng(4)
X = RNG.normal(size=(8, SIDE, SIDE, 3)).astype(np.float32)


def written(folder: Path, name: str, form: str) -> Path:
    path = folder / "m.tflite"
    net = Detector(half=form == "float16")
    net.write(path, DETECTORS[name](net))
    if form == "int8":
        odt.quantize(path, X).model.save(folder / "q.tflite")
        return folder / "q.tflite"
    return path


def constants(path: Path) -> dict[str, Array]:
    """The stored constants of a file by number and name."""
    tensors = read_model(str(path)).graph.tensors
    stored = {f"{i} {t.name}": t.data for i, t in enumerate(tensors)}
    return {name: np.array(a) for name, a in stored.items() if a is not None}


@pytest.mark.parametrize("form", ["float32", "float16", "int8"])
@pytest.mark.parametrize("name", DETECTORS)
def test_a_step_moves_the_weights_alone(tmp_path: Path, name: str, form: str) -> None:
    path, out = written(tmp_path, name, form), tmp_path / "out.tflite"
    with odt.Trainer(path, loss="huber", optimizer=odt.Adam(0.05), batch_size=8) as t:
        trained = {each.split("/")[-1] for each in t.weights}
        y = t.predict(X)
        t.train_on_batch(X, RNG.normal(size=y.shape).astype(np.float32))
        t.export(out)
    before, after = constants(path), constants(out)
    assert before.keys() == after.keys()
    changed = {n.split()[1] for n, a in before.items() if a.tobytes() != after[n].tobytes()}
    assert changed == {"w", "b"}, (changed, trained)


def test_a_name_trains_a_constant_all_the_same(tmp_path: Path) -> None:
    path, out = written(tmp_path, "anchors", "float32"), tmp_path / "out.tflite"
    with odt.Trainer(path, loss="huber", trainable=odt.select("size"), batch_size=8) as t:
        t.train_on_batch(X, np.zeros((8, 3 * CELLS, 7), np.float32))
        t.export(out)
    after = constants(out)
    changed = {n.split()[1] for n, a in constants(path).items() if (a != after[n]).any()}
    assert changed == {"size"}


@pytest.mark.parametrize("form", ["float32", "float16", "int8"])
@pytest.mark.parametrize("name", DETECTORS)
def test_check_says_where_to_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, form: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, name, form)
    checked = CliRunner().invoke(main, ["check", path.name, "--loss", "huber", "--seed", "3"])
    line = next(line for line in checked.output.splitlines() if "decoded values" in line)
    words = ["replace-head", path.name, "--classes", "3", "-o", "new.tflite"]
    refused = CliRunner().invoke(main, words)
    assert (refused.exit_code, line in refused.stderr) == (1, True)
    command = line.split("made by odt ")[1].rstrip(".")
    assert CliRunner().invoke(main, shlex.split(command)).exit_code == 0
    with odt.Trainer("part.tflite", loss="huber", batch_size=8) as t:
        assert {each.split("/")[-1] for each in t.weights} == {"w", "b"}
        raw = np.asarray(t.predict(X))
        assert raw.shape[:3] == (8, SIDE, SIDE)
        whole = odt.check("part.tflite", loss="huber").text
    assert "decoded values" not in whole
