"""The post-processing operator of detectors: read, changed, refused."""

from pathlib import Path

import numpy as np
import pytest
from op_db.support.flex_maps import flex_map
from support.detectors import OPTIONS, SIDE, grid_anchors, small_detector
from support.judges import litert

from odt.core.export.model_tables import buffer_entry, model_tables, packed_model
from odt.core.formats.flatbuffer.detection_postprocess import (
    change_counts,
    read_options,
    read_post_process,
)
from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.core.model.model import Model
from odt.errors import ModelError


def parsed(data: bytes) -> Model:
    return parse_model(memoryview(data), "m.tflite")


def test_its_options_and_anchors_are_read() -> None:
    post = read_post_process(parsed(small_detector(3, use_regular_nms=1, detections_per_class=7)))
    assert post is not None
    assert post.anchors.tobytes() == grid_anchors().tobytes()
    assert post.scales == (10, 10, 5, 5)
    assert (post.classes, post.max_detections, post.classes_per_detection) == (3, 10, 1)
    assert (post.regular, post.detections_per_class) == (True, 7)
    assert (post.score_threshold, post.iou_threshold) == pytest.approx((0.01, 0.6))


def test_litert_returns_the_new_number_of_detections(tmp_path: Path) -> None:
    data = small_detector(3)
    post = read_post_process(parsed(data))
    assert post is not None
    old = post.node.options["custom_options"]
    new = change_counts(post.node.options, {"max_detections": 25}, "m.tflite")
    path = tmp_path / "m.tflite"
    path.write_bytes(data.replace(old, new))
    image = np.random.default_rng(0).random((1, SIDE, SIDE, 3), np.float32)
    assert len(old) == len(new)
    assert [a.shape for a in litert(path, [image])][:3] == [(1, 25, 4), (1, 25), (1, 25)]


@pytest.mark.parametrize("count", [3, 3.0])  # without floats, a number has one byte
def test_a_count_that_needs_other_bytes_is_refused(count: float) -> None:
    options = flex_map(max_detections=10, num_classes=count)
    rule = "m: num_classes must be an integer in the file, with enough bytes for 300"
    with pytest.raises(ModelError, match=rule):
        change_counts(options, {"num_classes": 300}, "m")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"custom_options": b"\x01\x02"}, "custom_options must be a FlexBuffers map with y_scale"),
        (flex_map(y_scale=1), "but got no x_scale"),
        (flex_map(y_scale=float("nan")), "y_scale must be finite, but got"),
        (flex_map(y_scale=[1, 2]), "y_scale must have 1 number, but got"),
        (
            flex_map(**{**OPTIONS, "h_scale": 0.0, "max_detections": -1}, num_classes=3),
            "scales and counts must be above 0, but got h_scale 0, max_detections -1",
        ),
    ],
)
def test_damaged_options_are_refused(options: dict[str, bytes], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read_options(options, "m")


def test_other_models_have_none() -> None:
    data = small_detector(3).replace(
        b"TFLite_Detection_PostProcess", b"TFLite_Detection_PostProcesz"
    )
    assert read_post_process(parsed(data)) is None


@pytest.mark.parametrize("kind", ["BOOL", "STRING"])
def test_anchors_that_are_no_numbers_are_refused(kind: str) -> None:
    source = parsed(small_detector(3))
    tables = model_tables(source)
    anchors = tables["subgraphs"][0]["tensors"][source.graph.nodes[-1].inputs[2]]
    anchors["type"] = code_of("TensorType", kind)
    tables["buffers"][anchors["buffer"]] = buffer_entry(bytes(len(grid_anchors()) * 4))
    with pytest.raises(ModelError, match=r"its anchors must be a constant \(A, 4\) of numbers"):
        read_post_process(parsed(packed_model(source, tables)))


def test_anchors_of_other_shapes_are_refused() -> None:
    data = small_detector(3)
    options = flex_map(**OPTIONS, num_classes=3)["custom_options"]
    other = flex_map(**OPTIONS, num_classes=5)["custom_options"]
    with pytest.raises(ModelError, match=r"scores \(1, 160, 5 or 6\) .*\(1, 160, 4\)"):
        read_post_process(parsed(data.replace(options, other)))
