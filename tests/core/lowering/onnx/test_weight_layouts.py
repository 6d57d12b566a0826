"""Weights lie in memory as kernels want them: no step transposes one; sums become biases."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.lowering import transposed_values
from support.onnx_files import OnnxFile, value

import odt
from odt.core.formats.reader import read_model
from odt.core.model.graph import ABSENT, LoweredGraph
from odt.core.recipe.lowered_model import lower_model

Array = np.ndarray[Any, Any]
BATCH = 4


def real(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def network(inputs: tuple[int, ...], outputs: tuple[int, ...], **weights: Array) -> OnnxFile:
    file = OnnxFile()
    file.inputs.append(value("x", ("N", *inputs)))
    file.outputs.append(value("y", ("N", *outputs)))
    file.constants(weights)
    return file


def windows() -> OnnxFile:
    """Filters of all kinds of convolutions, and a matrix that is not transposed."""
    filters = {"w0": real(4, 3, 3, 3), "w1": real(4, 1, 3, 3), "w2": real(6, 2, 1, 1)}
    file = network((3, 8, 8), (5,), **filters, w3=real(6, 4, 2, 2), w4=real(4, 5), b=real(5))
    pads = (1, 1, 1, 1)
    file.add("Conv", "x", "w0", outputs=["h0"], pads=pads)
    file.add("Conv", "h0", "w1", outputs=["h1"], pads=pads, group=4)
    file.add("Conv", "h1", "w2", outputs=["h2"], group=2)
    file.add("ConvTranspose", "h2", "w3", outputs=["h3"], strides=(2, 2))
    file.add("GlobalAveragePool", "h3", outputs=["h4"])
    file.add("Flatten", "h4", outputs=["h5"])
    file.add("Gemm", "h5", "w4", "b")
    return file


def reshaped(*, stored: bool = True) -> OnnxFile:
    """Filters that the file holds as matrices, and reshapes; or as filters."""
    shapes = {"w0": (4, 3, 3, 3), "w1": (4, 1, 3, 3), "w2": (4, 2, 2, 2)}
    weights = {name: real(*shape) for name, shape in shapes.items()}
    matrices = {f"{name} as stored": a.reshape(len(a), -1) for name, a in weights.items()}
    file = network((3, 8, 8), (4, 7, 7), **(matrices if stored else weights))
    for name, shape in shapes.items() if stored else ():
        file.constants({f"shape of {name}": np.array([*shape[:-1], -1])})
        file.add("Reshape", f"{name} as stored", f"shape of {name}", outputs=[name])
    file.add("Conv", "x", "w0", outputs=["h0"])
    file.add("Conv", "h0", "w1", outputs=["h1"], pads=(1, 1, 1, 1), group=4)
    file.add("ConvTranspose", "h1", "w2", group=2)
    return file


def transposed() -> OnnxFile:
    """Filters of transposed convolutions, whose channels are divided into groups."""
    file = network((4, 5, 5), (6, 9, 9), w0=real(4, 3, 2, 3), w1=real(6, 1, 3, 3))
    file.add("ConvTranspose", "x", "w0", outputs=["h"], strides=(2, 2), pads=(0, 1, 1, 1), group=2)
    file.add("ConvTranspose", "h", "w1", pads=(1, 1, 1, 1), group=6)
    return file


def volumes() -> OnnxFile:
    file = network((2, 4, 4, 4), (3, 4, 4, 4), w0=real(4, 2, 1, 1, 1), w1=real(4, 3, 3, 3, 3))
    file.add("Conv", "x", "w0", outputs=["h"])
    file.add("ConvTranspose", "h", "w1", pads=(1,) * 6)
    return file


def sequences() -> OnnxFile:
    """Convolutions along one axis, a shuffle of channels, a split as in YOLOv8, and padding."""
    file = network((4, 9), (4, 9), w0=real(4, 4, 3), w1=real(2, 2, 3))
    file.constants({"p": np.array([0, 1, 1, 0, 1, 1]), "halves": np.array([2, 2])})
    file.constants({"two": np.array([0, 2, 2, 9]), "back": np.array([0, 4, 9])})
    file.add("Conv", "x", "w0", outputs=["h0"], pads=(1, 1))
    file.add("Reshape", "h0", "two", outputs=["h1"])
    file.add("Transpose", "h1", outputs=["h2"], perm=(0, 2, 1, 3))
    file.add("Reshape", "h2", "back", outputs=["h3"])
    file.add("Split", "h3", "halves", outputs=["a", "b"], axis=1)
    file.add("Conv", "a", "w1", outputs=["h4"], pads=(1, 1))
    file.add("Add", "a", "h4", outputs=["sum"])
    file.add("Concat", "sum", "b", outputs=["h5"], axis=1)
    file.add("Pad", "h5", "p", outputs=["h6"], mode="reflect")
    file.add("Conv", "h6", "w0")
    return file


def products() -> OnnxFile:
    """A matrix that the file transposes, one that it does not, and products of letters."""
    file = network((3, 6), (3, 4), w0=real(5, 6), b0=real(5), w1=real(5, 7), b1=real(7))
    file.constants({"w2": real(4, 7)})
    file.add("Transpose", "w0", outputs=["turned"], perm=(1, 0))
    file.add("Identity", "turned", outputs=["same"])
    file.add("MatMul", "x", "same", outputs=["h0"])
    file.add("Add", "b0", "h0", outputs=["h1"])
    file.add("Relu", "h1", outputs=["h2"])
    file.add("MatMul", "h2", "w1", outputs=["h3"])
    file.add("Add", "h3", "b1", outputs=["h4"])
    file.add("Einsum", "h4", "w2", equation="nti,oi->nto")
    return file


def recurrent() -> OnnxFile:
    """Weights of all gates in one tensor."""
    file = network((5, 3), (5, 1, 4), w=real(1, 16, 3), r=real(1, 16, 4), b=real(1, 32))
    file.add("LSTM", "x", "w", "r", "b", hidden_size=4, layout=1)
    return file


NETWORKS = (windows, reshaped, transposed, volumes, sequences, products, recurrent)


def lowered(file: OnnxFile, folder: Path) -> LoweredGraph:
    return lower_model(read_model(file.write(folder / "m.onnx"))).graphs.at(BATCH)


@pytest.mark.parametrize("make", NETWORKS, ids=[f.__name__ for f in NETWORKS])
def test_no_step_transposes_a_weight(tmp_path: Path, make: Callable[[], OnnxFile]) -> None:
    assert transposed_values(lowered(make(), tmp_path), constants=True) == 0


@pytest.mark.parametrize("make", NETWORKS, ids=[f.__name__ for f in NETWORKS])
def test_the_layout_in_memory_can_be_undone(tmp_path: Path, make: Callable[[], OnnxFile]) -> None:
    model = read_model(make().write(tmp_path / "m.onnx"))
    tensors = zip(model.graph.tensors, lower_model(model).graph.tensors, strict=False)
    layouts = [(t.data, new.layout, new.data) for t, new in tensors if new.layout]
    assert layouts
    for in_file, layout, in_memory in layouts:
        assert layout is not None
        assert in_memory is not None
        np.testing.assert_array_equal(layout.to_file(in_memory), in_file)


def test_filters_that_the_file_reshapes_train_like_others(tmp_path: Path) -> None:
    x, y = real(BATCH, 3, 8, 8), real(BATCH, 4, 7, 7)
    trained = []
    for stored in (True, False):
        path = reshaped(stored=stored).write(tmp_path / f"{stored}.onnx")
        with odt.Trainer(path, loss="mean_squared_error", optimizer=odt.SGD(1e-4)) as trainer:
            losses = [trainer.train_on_batch(x, y)["loss"] for _ in range(3)]
            trainer.export(path)
        file = [t.data for t in read_model(path).graph.tensors if t.data is not None]
        trained.append((losses, *(a.reshape(-1) for a in file if a.dtype.kind == "f")))
    for one, other in zip(*trained, strict=True):
        np.testing.assert_array_equal(one, other)


def test_transposes_of_sequences_cancel(tmp_path: Path) -> None:
    """Only the input, the output and the channels that are shuffled move."""
    graph = lowered(sequences(), tmp_path)
    assert transposed_values(graph) <= 3 * BATCH * 4 * 9


def test_sums_of_products_are_dense_layers_with_biases(tmp_path: Path) -> None:
    graph = lowered(products(), tmp_path)
    layers = [node for node in graph.nodes if node.op == "FULLY_CONNECTED"]
    assert [node.inputs[2] != ABSENT for node in layers] == [True, True]
    assert Counter(node.op for node in graph.nodes)["ADD"] == 0


def test_a_product_that_is_read_twice_keeps_its_sum(tmp_path: Path) -> None:
    file = network((6,), (5,), w=real(6, 5), b=real(5))
    file.add("MatMul", "x", "w", outputs=["p"])
    file.add("Add", "p", "b", outputs=["s"])
    file.add("Mul", "p", "s")
    counts = Counter(node.op for node in lowered(file, tmp_path).nodes)
    assert counts == {"FULLY_CONNECTED": 1, "ADD": 1, "MUL": 1}


def test_products_and_biases_compute_what_numpy_does(tmp_path: Path) -> None:
    x = real(BATCH, 3, 6)
    path = products().write(tmp_path / "m.onnx")
    h = np.maximum(x @ real(5, 6).T + real(5), 0) @ real(5, 7) + real(7)
    np.testing.assert_allclose(odt.predict(path, x), h @ real(4, 7).T, atol=1e-4)


def test_trained_weights_return_to_the_layout_of_the_file(tmp_path: Path) -> None:
    """The gradient of a matrix that the file transposes, against differences of the loss."""
    path, x, t = products().write(tmp_path / "m.onnx"), real(BATCH, 3, 6), real(BATCH, 3, 4)
    with odt.Trainer(
        path, loss=odt.MeanSquaredError(), optimizer=odt.SGD(1.0), batch_size=BATCH
    ) as trainer:
        trainer.train_on_batch(x, t)
        trainer.export(tmp_path / "trained.onnx")
    after = odt.load_model(tmp_path / "trained.onnx").parameters["w0"]
    w = {"w0": real(5, 6).astype(np.float64)}

    def loss() -> float:
        h = np.maximum(x @ w["w0"].T + real(5), 0) @ real(5, 7) + real(7)
        return float(np.mean((h @ real(4, 7).T - t) ** 2))

    for at in ((0, 1), (4, 5), (2, 0)):
        sides = []
        for step in (1e-4, -1e-4):
            w["w0"][at] += step
            sides.append(loss())
            w["w0"][at] -= step
        gradient = (sides[0] - sides[1]) / 2e-4
        assert after[at] == pytest.approx(real(5, 6)[at] - gradient, abs=1e-3)
