"""`odt replace-head` and `--max-detections` on detectors, judged by LiteRT."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from flatbuffers import flexbuffers
from support.detectors import grid_anchors, small_detector
from support.judges import inner, litert, random_inputs

import odt
from odt.cli.main import main
from odt.core.export.class_scores import class_scores
from odt.core.export.model_builder import ModelBuilder, table
from odt.core.export.model_tables import buffer_entry, model_tables, packed_model
from odt.core.export.record_metadata import encode_metadata
from odt.core.formats.flatbuffer.detection_postprocess import read_post_process
from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.core.formats.flatbuffer.tflite_metadata import associated_files, read_metadata
from odt.core.formats.reader import read_model
from odt.core.model.graph import Tensor
from odt.core.model.model import Model
from odt.errors import OdtError
from odt.tasks.labels import slot_labels

NAMES = "red,white"


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(w) for w in words])


def replaced(path: Path, *options: object, classes: str = NAMES) -> Model:
    output = path.with_name("new.tflite")
    result = run("replace-head", path, "--classes", classes, "-o", output, *options)
    assert result.exit_code == 0, result.output
    return read_model(str(output))


def refused(path: Path, *options: object) -> str:
    output = path.with_name("refused.tflite")
    result = run("replace-head", path, "-o", output, *options)
    assert result.exit_code in (1, 2), result.output
    assert not output.exists()
    return result.stderr


@pytest.fixture
def detector(tmp_path: Path) -> Path:
    path = tmp_path / "detector.tflite"
    path.write_bytes(small_detector(5))
    return path


def options_of(model: Model) -> Any:
    return flexbuffers.Loads(model.graph.nodes[-1].options["custom_options"])


def constant(model: Model, tensor: int) -> np.ndarray:
    data = model.graph.tensors[tensor].data
    assert data is not None
    return data


def content(tensor: Tensor) -> bytes:
    return b"" if tensor.data is None else tensor.data.tobytes()


@pytest.mark.filterwarnings("ignore:Warning. Enabling")  # LiteRT: to keep tensors takes memory
def test_only_class_layers_change(detector: Path) -> None:
    """Names, order, shapes, anchors and options stay, except for the number of classes."""
    old, new = read_model(str(detector)), replaced(detector)
    assert [(n.op, n.inputs, n.outputs) for n in new.graph.nodes] == [
        (n.op, n.inputs, n.outputs) for n in old.graph.nodes
    ]
    assert options_of(new) == {**options_of(old), "num_classes": 2}
    assert np.array_equal(constant(new, new.graph.nodes[-1].inputs[2]), grid_anchors())
    changed = {
        i
        for i, (a, b) in enumerate(zip(old.graph.tensors, new.graph.tensors, strict=True))
        if (a.spec, content(a)) != (b.spec, content(b))
    }
    convolutions = [n for n in new.graph.nodes if n.op == "CONV_2D"]
    classes = [n for n in convolutions if old.graph.tensors[n.outputs[0]].spec.shape[3] == 12]
    weights = {i for n in classes for i in n.inputs[1:]}
    assert len(classes) == 2
    assert weights < changed
    assert {new.graph.tensors[i].spec.shape[-1] for i in changed - weights} <= {3, 6}
    for before, after in zip(old.graph.outputs, new.graph.outputs, strict=True):
        assert old.graph.tensors[before].name == new.graph.tensors[after].name
        assert old.graph.tensors[before].spec == new.graph.tensors[after].spec
    x = random_inputs(detector, 1)[0]
    boxes, scores = new.graph.nodes[-1].inputs[:2]
    path = detector.with_name("new.tflite")
    assert np.array_equal(inner(path, x, boxes), inner(detector, x, boxes))
    values = inner(path, x, scores)
    assert values.shape == (1, len(grid_anchors()), 3)
    assert np.median(values[..., 1:]) == pytest.approx(0.01, rel=0.5)


def test_the_operator_returns_the_new_classes(detector: Path) -> None:
    replaced(detector, "--max-detections", 40)
    x = random_inputs(detector, 3)
    boxes, classes, scores, count = litert(detector.with_name("new.tflite"), x)
    assert boxes.shape == (3, 40, 4)
    assert set(classes.ravel()) == {0, 1}
    assert count.tolist() == [40, 40, 40]
    assert (scores > 0.01).any()


def test_lines_say_what_was_replaced(detector: Path) -> None:
    output = detector.with_name("new.tflite")
    result = run("replace-head", detector, "--classes", NAMES, "-o", output)
    assert result.stdout.splitlines() == [
        f"{output}: 2 classes in place of 5 at each anchor: red, white",
        "New layers: operators 4, 9. Boxes and all other layers stay.",
        "The model returns at most 10 boxes of a sample; --max-detections changes that.",
    ]


def test_seeds_draw_other_weights(detector: Path) -> None:
    weights = [
        np.concatenate([t.data.ravel() for t in replaced(detector, *seed).graph.tensors
                        if t.data is not None and t.spec.shape[:1] == (6,) and t.data.ndim == 4])
        for seed in ((), (), ("--seed", 1))
    ]  # fmt: skip
    assert np.array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[0], weights[2])


def test_a_shape_that_boxes_share_stays_theirs(tmp_path: Path) -> None:
    """Three classes and the background have as many columns as a box has codes."""
    source = read_model_bytes(small_detector(3))
    tables = model_tables(source)
    operators = tables["subgraphs"][0]["operators"]
    shapes: dict[bytes, int] = {}
    for operator, node in zip(operators, source.graph.nodes, strict=True):
        if node.op == "RESHAPE":
            values, shape = node.inputs
            key = constant(source, shape).tobytes()
            operator["inputs"] = [values, shapes.setdefault(key, shape)]
    assert len(shapes) == 2
    path = tmp_path / "shared.tflite"
    path.write_bytes(packed_model(source, tables))
    replaced(path)
    x = random_inputs(path, 1)
    boxes, _, _, _ = litert(tmp_path / "new.tflite", x)
    assert boxes.shape == (1, 10, 4)


def cells(dtype: str, op: str) -> bytes:
    """A model that ends in a grid (1, 4, 3, 2) of cells, as FOMO; its input is a feature map."""
    b = ModelBuilder("tflite", 1)
    shape = (2, 1, 1, 8)
    if dtype.startswith("float"):
        x = b.add_input((1, 4, 3, 8))
        w, bias = b.add_constant(np.ones(shape, dtype)), b.add_constant(np.ones(2, dtype))
        if dtype == "float16":
            w = b.add_operator("DEQUANTIZE", (w,), shape)
            bias = b.add_operator("DEQUANTIZE", (bias,), (2,))
        scales: dict[int, tuple[list[float], list[int]]] = {}
    else:
        x = b.add_input((1, 4, 3, 8), dtype)
        zero = 128 if dtype == "uint8" else 0
        w, bias = b.add_constant(np.full(shape, zero + 1, dtype)), b.add_constant([1, 1])
        channels = 1 if dtype == "uint8" else 2
        scales = {
            x: ([0.02], [zero]),
            w: ([0.01] * channels, [zero] * channels),
            bias: ([0.0002] * channels, [0] * channels),
        }
    kind = dtype if scales else "float32"
    y = b.add_operator(
        "CONV_2D", (x, w, bias), (1, 4, 3, 2), dtype=kind, stride_w=1, stride_h=1, padding=1
    )
    options: Any = {"beta": 1.0} if op == "SOFTMAX" else {}
    p = b.add_operator(op, (y,), (1, 4, 3, 2), dtype=kind, **options)
    if scales:
        scales[y] = [0.05], [scales[x][1][0]]
        scales[p] = [1 / 256], [0 if dtype == "uint8" else -128]
    for i, (scale, zero_point) in scales.items():
        b.graph.tensors[i].quantization = table(
            "QuantizationParameters", scale=scale, zero_point=zero_point
        )
    return b.build(p)


def real(model: Model, tensor: int, values: np.ndarray | None = None) -> np.ndarray:
    """Values of a tensor, by default those of the file, as real numbers."""
    data = constant(model, tensor) if values is None else values
    if tensor not in model.quantization:
        return data.astype(np.float64)
    q = model.quantization[tensor]
    shape = (-1,) + (1,) * (data.ndim - 1) if q.scale.size > 1 else ()
    return (data.astype(np.float64) - q.zero_point.reshape(shape)) * q.scale.reshape(shape)


@pytest.mark.parametrize("op", ["SOFTMAX", "LOGISTIC"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8"])
def test_a_grid_of_cells(dtype: str, op: str, tmp_path: Path) -> None:
    """Weights and biases are stored in the types of the old ones."""
    path = tmp_path / "cells.tflite"
    path.write_bytes(cells(dtype, op))
    new = replaced(path)
    layer = next(n for n in new.graph.nodes if n.op == "CONV_2D")
    constants = [
        next((n.inputs[0] for n in new.graph.nodes if i in n.outputs), i) for i in layer.inputs[1:]
    ]
    weights, bias = (real(new, i) for i in constants)
    assert new.graph.tensors[constants[0]].spec.dtype == dtype
    assert weights.shape == (3, 1, 1, 8)
    # The background stays; new classes begin as the mean of the old ones, but rare.
    old_weight = 1 if dtype.startswith("float") else 0.01
    assert weights.mean() == pytest.approx(old_weight, abs=0.01)
    assert 0 < weights[1:].std() < 0.02
    old_bias = 1 if dtype.startswith("float") else 0.0002
    assert bias == pytest.approx([old_bias, -4.6, -4.6], abs=1e-2)
    x = random_inputs(path, 1)
    logits = real(new, layer.inputs[0], x[0]) @ weights[:, 0, 0].T + bias
    expected = np.exp(logits)
    expected /= expected.sum(axis=-1, keepdims=True) if op == "SOFTMAX" else 1 + expected
    (y,) = litert(tmp_path / "new.tflite", x)
    tolerance = 1e-6 if dtype == "float32" else 1e-4 if dtype == "float16" else 0.03
    output = new.graph.outputs[0]
    np.testing.assert_allclose(real(new, output, y), expected, atol=tolerance)
    assert associated_files(new) == {"odt-labels.txt": b"background\nred\nwhite\n"}


def faces(dtype: str = "float32") -> bytes:
    """A model with codes (1, 12, 16) and one score for each anchor, as BlazeFace."""
    b = ModelBuilder("tflite", 1)
    x = b.add_input((1, 2, 2, 8))
    outputs = []
    for columns in (16, 1):
        w = b.add_weight((3 * columns, 1, 1, 8), 8)
        bias = b.add_constant(np.zeros(3 * columns, np.float32))
        y = b.add_operator("CONV_2D", (x, w, bias), (1, 2, 2, 3 * columns), stride_w=1, stride_h=1)
        new = b.add_constant(np.array((1, 12, columns), np.int32))
        outputs.append(b.add_operator("RESHAPE", (y, new), (1, 12, columns)))
    return b.build(*outputs)


def test_one_score_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "faces.tflite"
    path.write_bytes(faces())
    x = random_inputs(path, 2)
    before = litert(path, x)
    replaced(path, classes="cat")
    after = litert(tmp_path / "new.tflite", x)
    assert np.array_equal(before[0], after[0])
    assert after[1].shape == (2, 12, 1)
    assert after[1].mean() == pytest.approx(-4.6, abs=1)
    assert "must be one name for a detector with one score" in refused(path, "--classes", NAMES)


@pytest.mark.parametrize("shapes", [[], [(1, 64, 1), (1, 64)], [(1, 64)]])
def test_other_outputs_are_no_class_scores(shapes: list[tuple[int, ...]]) -> None:
    b = ModelBuilder("tflite")
    x = b.add_input((1, 64), "float32")
    shape = [b.add_constant(np.array(s, np.int32)) for s in shapes]
    outputs = [b.add_operator("RESHAPE", (x, i), s) for i, s in zip(shape, shapes, strict=True)]
    assert class_scores(read_model_bytes(b.build(*outputs))) is None


def labeled(data: bytes, lines: bytes) -> bytes:
    """A detector with TFLite Model Metadata and a zip archive of two files."""
    source = read_model_bytes(data)
    tables = model_tables(source)
    labels = {"name": "labelmap.txt", "type": code_of("AssociatedFileType", "TENSOR_VALUE_LABELS")}
    outputs = [{"name": "location"}, {"name": "category", "associated_files": [labels]}]
    content = {
        "name": "shipped",
        "associated_files": [{"name": "notes.txt"}],
        "subgraph_metadata": [{"output_tensor_metadata": outputs}],
    }
    tables["buffers"].append({"data": np.frombuffer(encode_metadata(content), np.uint8)})
    tables["metadata"] = [{"name": "TFLITE_METADATA", "buffer": len(tables["buffers"]) - 1}]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("labelmap.txt", lines)
        zipped.writestr("notes.txt", b"keep")
    return packed_model(source, tables, archive.getvalue())


@pytest.mark.parametrize(
    ("old", "new"), [(b"a\nb\nc\nd\ne\n", b""), (b"???\na\nb\nc\nd\ne\n", b"???\n")]
)
def test_the_label_file_gets_the_names(old: bytes, new: bytes, tmp_path: Path) -> None:
    """It keeps its name, by which apps read it, and its line for the background."""
    path = tmp_path / "labeled.tflite"
    path.write_bytes(labeled(small_detector(5), old))
    model = replaced(path)
    assert associated_files(model) == {
        "labelmap.txt": new + b"red\nwhite\n",
        "notes.txt": b"keep",
    }
    content, before = read_metadata(model), read_metadata(read_model(str(path)))
    assert content == before
    litert(tmp_path / "new.tflite", random_inputs(path, 1))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_labels_of_slots_are_lines(end: str, tmp_path: Path) -> None:
    path = tmp_path / "labeled.tflite"
    path.write_bytes(labeled(small_detector(3), "".join(f"{c}{end}" for c in "abc").encode()))
    assert slot_labels(read_model(str(path)), 3) == ("a", "b", "c")


def test_the_background_has_no_slot(tmp_path: Path) -> None:
    path = tmp_path / "labeled.tflite"
    path.write_bytes(labeled(small_detector(3), b"???\na\nb\nc\n"))
    assert slot_labels(read_model(str(path)), 3) == ("a", "b", "c")


def test_a_file_without_metadata_gets_labels(detector: Path) -> None:
    model = replaced(detector)
    content = read_metadata(model)
    assert content is not None
    (graph,) = content["subgraph_metadata"]
    files = [t.get("associated_files", []) for t in graph["output_tensor_metadata"]]
    assert [[f["name"] for f in each] for each in files] == [[], [b"odt-labels.txt"], [], []]
    assert associated_files(model) == {"odt-labels.txt": b"red\nwhite\n"}
    again = detector.with_name("again.tflite")
    run("replace-head", detector.with_name("new.tflite"), "--classes", "a,b,c", "-o", again)
    assert associated_files(read_model(str(again))) == {"odt-labels.txt": b"a\nb\nc\n"}


@pytest.mark.parametrize("background", [True, False])
def test_numbers_of_classes_are_no_columns(background: bool, tmp_path: Path) -> None:
    """Even if there are as many detections as columns."""
    path = tmp_path / "ten.tflite"
    path.write_bytes(small_detector(10 - background, background=background, max_detections=10))
    model = replaced(path)
    assert associated_files(model) == {"odt-labels.txt": b"red\nwhite\n"}
    assert slot_labels(model, 2) == ("red", "white")


def test_the_operator_must_have_its_inputs(detector: Path) -> None:
    model = read_model(detector)
    tables = model_tables(model)
    operator = tables["subgraphs"][0]["operators"][-1]
    operator["inputs"] = [operator["inputs"][0], -1, operator["inputs"][2]]
    damaged = parse_model(memoryview(packed_model(model, tables)), "m")
    with pytest.raises(OdtError, match="3 inputs and 4 outputs, but got 1 with 2 inputs and 4"):
        read_post_process(damaged)


def test_classes_must_be_an_output(detector: Path) -> None:
    source = read_model(str(detector))
    tables = model_tables(source)
    graph = tables["subgraphs"][0]
    graph["outputs"] = graph["outputs"][:1]
    detector.write_bytes(packed_model(source, tables))
    message = refused(detector, "--classes", NAMES)
    assert "operator 14 (CUSTOM:TFLite_Detection_PostProcess): its classes must be an" in message


def test_names_and_layers_are_checked(detector: Path) -> None:
    assert (
        f"--classes: must be names for {detector}, a detector, such as red,white, or --like its "
        "boxes, but got 3. For a classifier of whole samples instead, give --classifier."
    ) in refused(detector, "--classes", 3)
    assert "must be different names" in refused(detector, "--classes", "a,b,a")
    for option in (("--hidden", 8), ("--activation", "sigmoid")):
        message = refused(detector, "--classes", NAMES, *option)
        assert f"{option[0]}: must be left out for a detector" in message
    data = detector.with_name("x.npz")
    np.savez(data, x=np.zeros((2, 32, 32, 3), np.float32))
    assert "--like: must be data with boxes" in refused(detector, "--like", data)


def test_other_models_with_positions_become_classifiers_only_if_asked(tmp_path: Path) -> None:
    b = ModelBuilder("tflite", 1)
    x = b.add_input((1, 4, 4, 3))
    w, bias = b.add_weight((6, 1, 1, 3), 3), b.add_constant(np.zeros(6, np.float32))
    y = b.add_operator("CONV_2D", (x, w, bias), (1, 4, 4, 6), stride_w=1, stride_h=1)
    path = tmp_path / "map.tflite"
    path.write_bytes(b.build(y))
    message = refused(path, "--classes", 3)
    assert "must have one output with one position, or be a detector" in message
    assert message.count("\n") == 1
    assert "give --classifier" in message
    new = replaced(path, "--classifier", classes="3")
    assert new.graph.nodes[-1].op == "SOFTMAX"
    assert new.graph.tensors[new.graph.outputs[0]].spec.shape == (1, 3)
    message = refused(path, "--classes", 3, "--classifier", "--max-detections", 5)
    assert "--max-detections: must be left out for a classifier" in message


def test_a_detector_becomes_a_classifier_if_asked(detector: Path) -> None:
    new = replaced(detector, "--classifier", classes="3")
    assert [new.graph.tensors[i].spec.shape for i in new.graph.outputs] == [(1, 3)]


def test_scores_that_other_operators_compute_are_refused(tmp_path: Path) -> None:
    b = ModelBuilder("tflite", 1)
    x = b.add_input((1, 4, 4, 3))
    y = b.add_operator("EXP", (x,), (1, 4, 4, 3))
    y = b.add_operator("SOFTMAX", (y,), (1, 4, 4, 3), beta=1.0)
    path = tmp_path / "m.tflite"
    path.write_bytes(b.build(y))
    message = refused(path, "--classes", NAMES)
    assert "class scores must come from CONV_2D and FULLY_CONNECTED" in message
    assert "operator 0 (EXP)" in message


def test_scores_that_other_operators_read_are_refused(detector: Path) -> None:
    """A RESHAPE beside the post-processing would keep the number of old classes."""
    source = read_model(str(detector))
    scores = source.graph.nodes[-1].inputs[1]
    tables = model_tables(source)
    graph = tables["subgraphs"][0]
    tables["buffers"].append(buffer_entry(np.array([1, 960], np.int32)))
    y = len(graph["tensors"])
    graph["tensors"] += [
        {"name": "flat", "shape": [1, 960], "type": code_of("TensorType", "FLOAT32"), "buffer": 0},
        {"name": "shape", "shape": [2], "type": code_of("TensorType", "INT32"),
         "buffer": len(tables["buffers"]) - 1},
    ]  # fmt: skip
    reshape = next(k for k, n in enumerate(source.graph.nodes) if n.op == "RESHAPE")
    code = graph["operators"][reshape].get("opcode_index", 0)
    graph["operators"].append({"opcode_index": code, "inputs": [scores, y + 1], "outputs": [y]})
    graph["outputs"] = [*graph["outputs"], y]
    detector.write_bytes(packed_model(source, tables))
    assert "got operator 15 (RESHAPE), which reads them too" in refused(
        detector, "--classes", NAMES
    )


def test_names_name_the_classes_of_a_classifier(tmp_path: Path) -> None:
    b = ModelBuilder("tflite", 1)
    y = b.add_operator("SOFTMAX", (b.add_dense(b.add_input((1, 4)), 5),), (1, 5), beta=1.0)
    path = tmp_path / "m.tflite"
    path.write_bytes(b.build(y))
    new = replaced(path, classes="a,b,c")
    assert new.graph.tensors[new.graph.outputs[0]].spec.shape == (1, 3)


def test_max_detections_changes_nothing_else(detector: Path) -> None:
    """A few bytes of the options and of the shapes of outputs."""
    output = detector.with_name("converted.tflite")
    assert run("convert", detector, output, "--max-detections", 150).exit_code == 0
    old, new = read_model(str(detector)), read_model(str(output))
    assert options_of(new) == {**options_of(old), "max_detections": 150}
    boxes, classes, scores, count = litert(output, random_inputs(output, 1))
    assert boxes.shape == (1, 150, 4)
    assert (classes.shape, scores.shape, count.tolist()) == ((1, 150), (1, 150), [150])
    changed = np.frombuffer(old.data, np.uint8) != np.frombuffer(new.data, np.uint8)
    assert changed.sum() == 4  # the option, and an axis of three outputs
    unchanged = detector.with_name("same.tflite")
    assert run("convert", detector, unchanged).exit_code == 0
    assert unchanged.read_bytes() == detector.read_bytes()


def test_max_detections_is_checked(detector: Path, tmp_path: Path) -> None:
    with pytest.raises(OdtError, match=r"must be a whole number of at least 1"):
        odt.load_model(detector, max_detections=0)
    path = tmp_path / "cells.tflite"
    path.write_bytes(cells("float32", "SOFTMAX"))
    result = run("convert", path, tmp_path / "out.tflite", "--max-detections", 20)
    assert result.exit_code == 1
    assert "--max-detections: must be left out for a model that does not end in" in result.stderr


def test_outputs_may_not_be_too_large(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(small_detector(3, max_classes_per_detection=10**8))
    with pytest.raises(OdtError, match=r"max_classes_per_detection must be at most 2147483647"):
        odt.load_model(path, max_detections=60000)


def read_model_bytes(data: bytes) -> Model:
    return parse_model(memoryview(data), "m.tflite")
