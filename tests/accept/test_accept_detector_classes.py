"""Shipped detectors with other classes, judged by LiteRT: `make accept ONLY=detector_classes`.

Google's uint8 SSD and the BlazeFace files of `DATA/data/models/boxes`.
"""

from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from flatbuffers import flexbuffers
from support.accept_data import complete
from support.judges import random_inputs

import odt
from odt.core.formats.flatbuffer.tflite_metadata import associated_files, read_metadata
from odt.core.formats.reader import read_model
from odt.kernels.rows.opdef import Array

pytestmark = pytest.mark.accept


def shipped(name: str) -> Path:
    path = complete("data", "models", "boxes", name)
    assert path.exists(), f"give DATA=DIR with {path}"
    return path


def outputs(path: Path, x: Array) -> dict[str, Array]:
    """Output name → values, in the order of the file."""
    interpreter = Interpreter(str(path))
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    details = interpreter.get_output_details()
    return {detail["name"]: interpreter.get_tensor(detail["index"]) for detail in details}


def test_ssd_gets_other_classes(tmp_path: Path) -> None:
    """Six convolutions change, and the options only in the number of classes."""
    path, new_path = shipped("ssd-mobilenet-v1-uint8.tflite"), tmp_path / "new.tflite"
    names = ["red", "white", "plate"]
    odt.replace_head(path, names, max_detections=100).save(new_path)
    old, new = read_model(str(path)), read_model(str(new_path))
    x = random_inputs(path, 1)[0]
    before, after = outputs(path, x), outputs(new_path, x)
    assert [*before] == [*after]
    assert [a.shape for a in before.values()] == [(1, 10, 4), (1, 10), (1, 10), (1,)]
    assert [a.shape for a in after.values()] == [(1, 100, 4), (1, 100), (1, 100), (1,)]
    options = [flexbuffers.Loads(m.graph.nodes[-1].options["custom_options"]) for m in (old, new)]
    assert options[1] == {**options[0], "num_classes": 3, "max_detections": 100}
    changed = [
        (a.spec.shape, b.spec.shape)
        for a, b in zip(old.graph.tensors, new.graph.tensors, strict=True)
        if a.data is not None and b.data is not None and a.data.tobytes() != b.data.tobytes()
    ]
    weights = [shapes for shapes in changed if len(shapes[0]) == 4]
    assert len(weights) == 6
    assert all(4 * a[0] == 91 * b[0] and a[1:] == b[1:] for a, b in weights)
    assert len(changed) == 18  # with a bias and a shape each
    assert associated_files(new) == {"labelmap.txt": b"red\nwhite\nplate\n"}
    assert read_metadata(new) is not None


@pytest.mark.parametrize("name", ["blazeface-front-f32", "blazeface-short-f16"])
def test_blazeface_keeps_its_boxes(name: str, tmp_path: Path) -> None:
    path, new_path = shipped(f"{name}.tflite"), tmp_path / "new.tflite"
    odt.replace_head(path, ["cat"]).save(new_path)
    x = np.random.default_rng(0).uniform(-1, 1, (1, 128, 128, 3)).astype(np.float32)
    before, after = outputs(path, x), outputs(new_path, x)
    assert np.array_equal(before["regressors"], after["regressors"])
    assert before["classificators"].shape == after["classificators"].shape
    assert not np.array_equal(before["classificators"], after["classificators"])
