"""Classifiers with more classes."""

import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from model_builder import ModelBuilder
from support.model_forms import FORMS, write_form
from support.paths import MODELS

import odt
from odt.core.export.add_classes import add_classes
from odt.core.export.exporter import export_model
from odt.core.formats.flatbuffer.tflite_metadata import read_record
from odt.core.formats.flatbuffer.training_info_buffer import stored_training_info
from odt.core.formats.reader import read_model
from odt.core.lowering.class_head import class_head, frozen_hash
from odt.core.model.model import Model
from odt.core.model.record import Record
from odt.core.model.training_info import TrainingInfo
from odt.core.recipe.lowered_model import lower_model
from odt.errors import UnsupportedError

RESNET = MODELS / "mlperf-tiny-resnet8-cifar10.tflite"
X = np.random.default_rng(0).uniform(0, 255, (3, 32, 32, 3)).astype(np.float32)


def larger(model: Model, count: int, names: tuple[str, ...] = ()) -> Model:
    return add_classes(model, class_head(lower_model(model).graph), count, names)


@pytest.mark.parametrize("suffix", ["tflite", "circle"])
def test_old_classes_keep_their_logits(suffix: str, tmp_path: Path) -> None:
    export_model(read_model(str(RESNET)), {}, tmp_path / f"m.{suffix}", suffix)
    old = read_model(str(tmp_path / f"m.{suffix}"))
    new = larger(old, 2)
    odt.Model(new).save(tmp_path / f"new.{suffix}")
    read = read_model(str(tmp_path / f"new.{suffix}"))
    assert read.format == suffix
    for a, b in zip(old.graph.tensors, read.graph.tensors, strict=True):
        assert a.name == b.name
    (y,) = read.graph.outputs
    assert read.graph.tensors[y].spec.shape == (1, 12)
    probabilities = []
    for model in (old, read):
        with odt.Trainer(odt.Model(model), loss="categorical_crossentropy") as trainer:
            probabilities.append(trainer.predict(X))
    before, after = probabilities
    rest = after[:, :10] / after[:, :10].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(rest, before, rtol=1e-4, atol=1e-7)
    np.testing.assert_array_equal(after[:, 10], after[:, 11])


def test_the_hash_of_the_frozen_part_stays() -> None:
    old = read_model(str(RESNET))
    graph = lower_model(old).graph
    head = class_head(graph)
    more = lower_model(larger(old, 3)).graph
    assert frozen_hash(more, class_head(more)) == frozen_hash(graph, head)
    w, first = graph.tensors[head.weights].data, graph.nodes[0].inputs[1]
    assert w is not None

    def changed(i: int) -> str:
        data = graph.tensors[i].data
        assert data is not None
        tensors = list(graph.tensors)
        tensors[i] = replace(tensors[i], data=data + np.float32(1))
        return frozen_hash(replace(graph, tensors=tuple(tensors)), head)

    assert changed(head.weights) == frozen_hash(graph, head)
    assert changed(first) != frozen_hash(graph, head)


def test_metadata_and_training_info_stay_and_class_names_grow(tmp_path: Path) -> None:
    path, names = tmp_path / "m.tflite", tuple("abcdefghij")
    record = Record("image", ({"step": "scale", "to": "0..1"},), names)
    export_model(read_model(str(RESNET)), {}, path, record=record)
    old = read_model(str(path))
    new = larger(old, 1, (*names, "k"))
    odt.Model(new).save(path)
    read = read_model(str(path))
    assert read_record(read) == replace(record, classes=(*names, "k"))
    with zipfile.ZipFile(path) as archive:
        assert archive.read("odt-labels.txt").decode().split() == [*names, "k"]
    info = TrainingInfo(optimizer="sgd", loss="categorical_crossentropy", learning_rate=0.1)
    odt.write_circle_plus(_as_circle(path, tmp_path / "m.circle"), tmp_path / "plus.circle", info)
    plus = larger(read_model(str(tmp_path / "plus.circle")), 1, (*names, "k", "l"))
    stored = stored_training_info(plus)
    assert stored is not None
    assert stored.learning_rate == pytest.approx(0.1)


def _as_circle(path: Path, target: Path) -> Path:
    export_model(read_model(str(path)), {}, target, "circle")
    return target


def test_names_are_not_added_to_a_file_without_metadata() -> None:
    old = read_model(str(RESNET))
    new = larger(old, 2, tuple("abcdefghijkl"))
    assert new.metadata.keys() == old.metadata.keys()
    assert "TFLITE_METADATA" not in new.metadata


def test_shared_buffers_are_not_changed(tmp_path: Path) -> None:
    builder = ModelBuilder("circle", seed=0)
    x = builder.add_input((1, 4))
    w, b = builder.add_weight((4, 4), 4, "w"), builder.add_constant(np.zeros(4, np.float32), "b")
    h = builder.add_operator("FULLY_CONNECTED", (x, w, b), (1, 4), fused_activation_function=1)
    v = builder.add_weight((4, 4), 4, "v")
    builder.graph.tensors[v].buffer = builder.graph.tensors[w].buffer
    y = builder.add_operator("FULLY_CONNECTED", (h, v), (1, 4))
    builder.write(tmp_path / "m.circle", builder.add_operator("SOFTMAX", (y,), (1, 4)))
    old = read_model(str(tmp_path / "m.circle"))
    new = larger(old, 1)
    weights = {t.name: t.data for t in new.graph.tensors}
    assert weights["w"] is not None
    assert weights["v"] is not None
    np.testing.assert_array_equal(weights["v"][:4], weights["w"])
    assert weights["v"].shape == (5, 4)


def test_other_models_are_refused(tmp_path: Path) -> None:
    builder = ModelBuilder("circle", seed=0)
    y = builder.add_dense(builder.add_input((1, 4)), 3)
    builder.write(tmp_path / "m.circle", y)
    with pytest.raises(UnsupportedError, match=r"must be a classifier .* but got FULLY_CONNECTED"):
        class_head(lower_model(read_model(str(tmp_path / "m.circle"))).graph)
    y = builder.add_operator("SOFTMAX", (y,), (1, 3))
    builder.write(tmp_path / "m.circle", y, builder.add_operator("ABS", (y,), (1, 3)))
    with pytest.raises(UnsupportedError, match=r"must be a classifier .* but got 2 outputs"):
        class_head(lower_model(read_model(str(tmp_path / "m.circle"))).graph)


@pytest.mark.parametrize("activated", ["FULLY_CONNECTED", "ADD"])
def test_an_activation_before_softmax_is_refused(activated: str, tmp_path: Path) -> None:
    """Scores of the head alone would be without it, wherever it is fused."""
    builder = ModelBuilder("circle", seed=0)
    x, w = builder.add_input((1, 4)), builder.add_weight((3, 4), 4, "w")
    b = builder.add_constant(np.array([1, -9, 1], np.float32), "b")
    relu = {name: int(name == activated) for name in ("FULLY_CONNECTED", "ADD")}
    y = builder.add_operator(
        "FULLY_CONNECTED", (x, w), (1, 3), fused_activation_function=relu["FULLY_CONNECTED"]
    )
    y = builder.add_operator("ADD", (y, b), (1, 3), fused_activation_function=relu["ADD"])
    builder.write(tmp_path / "m.circle", builder.add_operator("SOFTMAX", (y,), (1, 3), beta=1.0))
    graph = lower_model(read_model(str(tmp_path / "m.circle"))).graph
    with pytest.raises(UnsupportedError, match=r"SOFTMAX, .* but got an activation .* `replace_he"):
        class_head(graph)
    with pytest.raises(UnsupportedError, match=r"perhaps SOFTMAX, .* activation .* Convert it fi"):
        class_head(graph, logits=True)


@pytest.mark.parametrize("form", ["float16", "int8 weights", "int4 weights", "int8", "int16x8"])
def test_weights_keep_the_type_of_the_file(form: str, tmp_path: Path) -> None:
    """Old rows keep their integers, also two in a byte; new ones stand for 0."""
    write_form(FORMS[form], tmp_path / "m.tflite")
    old = read_model(tmp_path / "m.tflite")
    new = larger(old, 2)
    before, after = ({t.name: t for t in m.graph.tensors}["last"] for m in (old, new))
    assert (after.spec.shape, after.spec.dtype) == ((5, 5), before.spec.dtype)
    was, now = (lower_model(m).graph for m in (old, new))
    rows, longer = (g.tensors[class_head(g).weights].real for g in (was, now))
    assert longer is not None
    np.testing.assert_array_equal(longer[:3], rows)
    assert not longer[3:].any()


def test_sparse_weights_are_refused(tmp_path: Path) -> None:
    write_form(FORMS["sparse"], tmp_path / "m.tflite")
    with pytest.raises(UnsupportedError, match="must be dense to add classes, but are sparse"):
        larger(read_model(tmp_path / "m.tflite"), 1)
