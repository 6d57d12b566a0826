"""Files that odt writes have no fused TANH, which LiteRT leaves out or refuses."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_builder import ModelBuilder
from support.judges import difference, litert
from support.judges import odt as computed

import odt
from odt.core.formats.flatbuffer.training_info_buffer import encode_training_info
from odt.core.formats.reader import read_model

TANH = 4
SIDE = (1, 4, 4, 3)
INFO = odt.TrainingInfo(batch_size=4, loss="categorical_crossentropy", trainable_ops=(1, 2))
STRIDES: Any = {"stride_w": 1, "stride_h": 1}
Built = tuple[Path, np.ndarray[Any, Any]]


def convolution(b: ModelBuilder) -> int:
    inputs = b.add_input(SIDE), b.add_weight((5, 3, 3, 3), 27), b.add_constant(np.zeros(5, "<f4"))
    return b.add_operator(
        "CONV_2D", inputs, (1, 4, 4, 5), fused_activation_function=TANH, **STRIDES
    )


def pooling(b: ModelBuilder) -> int:
    options: Any = {**STRIDES, "filter_width": 2, "filter_height": 2}
    x = b.add_input(SIDE)
    y = b.add_operator("MAX_POOL_2D", (x,), SIDE, fused_activation_function=TANH, **options)
    return b.add_operator("RESHAPE", (y, b.add_constant([1, 48])), (1, 48))


def sum_of_two(b: ModelBuilder) -> int:
    x, y = b.add_input(SIDE), b.add_weight(SIDE, 1)
    return b.add_operator("ADD", (x, y), SIDE, fused_activation_function=TANH)


def quotient(b: ModelBuilder) -> int:
    x = b.add_operator("ADD", (b.add_input(SIDE), b.add_weight(SIDE, 1)), SIDE)
    y = b.add_constant(np.full(SIDE, 0.5, np.float32))
    return b.add_operator("DIV", (x, y), SIDE, fused_activation_function=TANH)


def joined(b: ModelBuilder) -> int:
    x = b.add_input(SIDE)
    y = b.add_operator("MUL", (x, b.add_weight(SIDE, 1)), SIDE, fused_activation_function=TANH)
    options: Any = {"axis": 3, "fused_activation_function": TANH}
    return b.add_operator("CONCATENATION", (x, y), (1, 4, 4, 6), **options)


def dense(b: ModelBuilder) -> int:
    hidden = b.add_dense(b.add_input((1, 6)), 5, fused_activation_function=TANH)
    return b.add_dense(hidden, 3, fused_activation_function=TANH)


NETWORKS = [convolution, pooling, sum_of_two, quotient, joined, dense]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("epochs", [0, 1])
def test_litert_computes_the_trained_file(network: Any, epochs: int, tmp_path: Path) -> None:
    b, path, out = ModelBuilder("circle", seed=4), tmp_path / "m.circle", tmp_path / "m.tflite"
    b.write(path, network(b))
    model = read_model(str(path))
    shape = model.graph.tensors[model.graph.inputs[0]].spec.shape[1:]
    x = 2 * np.random.default_rng(1).normal(size=(8, *shape)).astype(np.float32)
    with odt.Trainer(path, loss="mean_squared_error", batch_size=4) as trainer:
        if epochs and network is not pooling:
            y = np.zeros((8, *trainer.predict(x).shape[1:]), np.float32)
            trainer.fit(x, y, epochs=epochs)
        found = trainer.predict(x)
        trainer.export(out)
    assert difference(found, litert(out, [x])[0]) < 1e-5
    assert difference(found, computed(out, [x])[0]) < 1e-6
    read = read_model(str(out)).graph
    assert read.outputs == model.graph.outputs
    assert not any(n.options.get("fused_activation_function") == TANH for n in read.nodes)


def two_dense(folder: Path, **more: Any) -> Built:
    b, path = ModelBuilder("tflite", seed=4), folder / "m.tflite"
    y = dense(b)
    for name, data in more.items():
        b.add_metadata(name, data)
    b.write(path, b.add_operator("SOFTMAX", (y,), (1, 3), beta=1.0))
    return path, np.random.default_rng(1).normal(size=(32, 6)).astype(np.float32)


def test_commands_that_rewrite(tmp_path: Path) -> None:
    path, x = two_dense(tmp_path)
    wanted = computed(path, [x])[0]
    int8 = tmp_path / "int8.tflite"
    odt.quantize(path, x).model.save(int8)
    assert difference(litert(int8, [x], xnnpack=False)[0], wanted) < 0.05
    half = tmp_path / "half.tflite"
    odt.quantize(path, scheme="float16").model.save(half)
    assert difference(litert(half, [x])[0], wanted) < 1e-2
    head = tmp_path / "head.tflite"
    odt.replace_head(path, classes=4, seed=1).save(head)
    assert difference(litert(head, [x])[0], computed(head, [x])[0]) < 1e-5
    part = tmp_path / "part.tflite"
    odt.cut(path, before=[read_model(str(path)).graph.nodes[1].outputs[0]]).save(part)
    assert difference(litert(part, [x])[0], computed(part, [x])[0]) < 1e-5


def test_metadata_and_appended_files_stay(tmp_path: Path) -> None:
    path, x = two_dense(tmp_path, note=b"kept")
    text = io.BytesIO(path.read_bytes())
    with zipfile.ZipFile(text, "a") as archive:
        archive.writestr("labels.txt", "a\nb\nc\n")
    path.write_bytes(text.getvalue())
    out = tmp_path / "out.tflite"
    with odt.Trainer(path, loss="categorical_crossentropy") as trainer:
        trainer.export(out)
    model = read_model(str(out))
    assert bytes(model.buffer(model.metadata["note"])) == b"kept"
    with zipfile.ZipFile(out) as archive:
        assert archive.read("labels.txt") == b"a\nb\nc\n"
    assert difference(computed(path, [x])[0], litert(out, [x])[0]) < 1e-5


def test_positions_in_training_info_move(tmp_path: Path) -> None:
    """Operators 1 and 2 of the file are 2 and 4 behind the TANHs of operators 0 and 1."""
    path, _ = two_dense(tmp_path)
    first, again = tmp_path / "first.circle", tmp_path / "again.circle"
    odt.write_circle_plus(path, first, INFO)
    for file in (first, again):
        info = odt.read_training_info(file)
        assert info is not None
        assert info.trainable_ops == (2, 4)
        with odt.Trainer(first, loss="categorical_crossentropy") as trainer:
            trainer.export(again)


def test_positions_in_stored_training_info_move(tmp_path: Path) -> None:
    """A circle+ of another program, whose operators have a fused TANH."""
    path, _ = two_dense(tmp_path, CIRCLE_TRAINING=encode_training_info(INFO, 3))
    assert odt.read_training_info(path) is not None
    with odt.Trainer(path, loss="categorical_crossentropy") as trainer:
        trainer.export(tmp_path / "out.circle")
    found = odt.read_training_info(tmp_path / "out.circle")
    assert found is not None
    assert found.trainable_ops == (2, 4)
