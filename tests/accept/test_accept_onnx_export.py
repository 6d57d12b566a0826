"""Exports of trained ONNX files beside onnxruntime, and their conversions in LiteRT.

DATA/onnx has exports of PyTorch, small files of others and networks of ONNX Runtime's recordings.
Conversions are also made of the files that `make accept ONLY=onnx` fetched, if they are there.
"""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from support.accept_data import complete
from support.onnx_judges import OPEN, draw
from support.paths import ROOT

import odt
from odt.core.export.onnx_conversion import convert_onnx
from odt.core.formats.reader import read_model
from odt.core.model.model import Model
from odt.core.recipe.interface import resized, with_input_values
from odt.errors import UnsupportedError

sys.path.insert(0, str(ROOT / "tools"))
from fetch_shipped_models import models

pytestmark = pytest.mark.accept

FILES = sorted(
    p
    for folder in ("exports", "files", "golden/out")
    for p in complete("onnx", folder).glob("*.onnx")
)
FETCHED = Path(os.environ.get("ODT_ONNX_MODELS", "."))
LISTED = [entry for entry in models(ROOT / "tools" / "onnx_models.toml") if "refused" not in entry]
# Files of DATA/onnx that are neither trained nor converted, and why.
REFUSED = {"bnq": "training_mode must be 0", "cnn_train_legacy14": "training_mode must be 0"}
CLOSE = 1e-5  # of the largest value of an output, at least 1
Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _judges() -> None:
    missing = [n for n in ("onnx", "onnxruntime") if importlib.util.find_spec(n) is None]
    if missing:
        pytest.fail(
            "install the judges: pip install onnx==1.23.2 onnxruntime==1.32.0", pytrace=False
        )


def test_there_are_files() -> None:
    if len(FILES) < 40:
        pytest.fail("give the folder with onnx/exports: make accept DATA=../shared", pytrace=False)


def feeds_of(model: Model, entry: Mapping[str, Any]) -> dict[int, Array]:
    """Returns random values of all inputs, of the shapes and values that the list gives."""
    rng, feeds = np.random.default_rng(0), {}
    shapes, values = entry.get("shapes", {}), entry.get("values", {})
    for i in model.graph.inputs:
        t = model.graph.tensors[i]
        signature = [(1 if k == 0 else OPEN) if n < 0 else n for k, n in enumerate(t.signature)]
        only = shapes.get("x", signature) if len(model.graph.inputs) == 1 else signature
        shape = tuple(shapes.get(t.name, only))
        feeds[i] = draw(rng, t.name, shape, t.spec.dtype)
        if t.name in values:
            feeds[i] = np.full(shape, values[t.name], t.spec.dtype)
    return feeds


def in_onnxruntime(path: Path, feeds: Mapping[str, Array]) -> dict[str, Array]:
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    read = {i.name for i in session.get_inputs()}
    outputs = session.run(names, {name: a for name, a in feeds.items() if name in read})
    return dict(zip(names, outputs, strict=True))


def blanked(path: Path) -> tuple[bytes, dict[str, list[tuple[int, int]]]]:
    """Returns a model with zeros for all float weights, and places of external ones, by onnx."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    constants = [a.t for n in model.graph.node if n.op_type == "Constant" for a in n.attribute]
    places: dict[str, list[tuple[int, int]]] = {}
    for tensor in (*model.graph.initializer, *constants):
        if tensor.data_type != onnx.TensorProto.FLOAT:
            continue
        if tensor.external_data:
            place = {entry.key: entry.value for entry in tensor.external_data}
            span = int(place.get("offset", 0)), int(place["length"])
            places.setdefault(place["location"], []).append(span)
        elif tensor.raw_data:
            tensor.raw_data = bytes(len(tensor.raw_data))
        else:
            tensor.float_data[:] = [0.0] * len(tensor.float_data)
    return model.SerializeToString(), places


def check_bytes(source: Path, trained: Path) -> None:
    """Checks that two models differ in the bytes of float weights alone."""
    assert trained.stat().st_size == source.stat().st_size
    before, places = blanked(source)
    after, same_places = blanked(trained)
    assert before == after
    assert places == same_places
    for location, spans in places.items():
        old, new = (np.fromfile(path.with_name(location), np.uint8) for path in (source, trained))
        assert old.shape == new.shape
        for offset, size in spans:
            old[offset : offset + size] = new[offset : offset + size] = 0
        np.testing.assert_array_equal(old, new)


def check_close(ours: Array, theirs: Array, name: str) -> None:
    limit = CLOSE * max(1.0, float(np.abs(theirs).max(initial=0)))
    if theirs.dtype.kind != "f":
        limit = 0
    np.testing.assert_allclose(ours.reshape(theirs.shape), theirs, rtol=0, atol=limit, err_msg=name)


TRAINED = [path for path in FILES if path.stem not in REFUSED]


@pytest.mark.parametrize("path", TRAINED, ids=lambda p: p.stem)
def test_a_trained_file_differs_in_weights_alone(path: Path, tmp_path: Path) -> None:
    """onnxruntime runs it and computes what odt computes; it trains again."""
    model = read_model(path)
    feeds = {model.graph.tensors[i].name: a for i, a in feeds_of(model, {}).items()}
    outputs = in_onnxruntime(path, feeds)
    names = [name for name, y in outputs.items() if y.dtype.kind == "f"]
    noise = np.random.default_rng(1)
    targets = [
        (outputs[name] + 0.1 * noise.standard_normal(outputs[name].shape)).astype(np.float32)
        for name in names
    ]
    samples = feeds
    if len({a.shape[0] for a in feeds.values()}) > 1:  # no common batch: all of it is one sample
        samples = {name: a if a.shape[0] == 1 else a[None] for name, a in feeds.items()}
        targets = [y if y.shape[0] == 1 else y[None] for y in targets]
    source = path
    for step in range(2):
        out = tmp_path / str(step) / path.name
        out.parent.mkdir()
        with odt.Trainer(
            source,
            loss=dict.fromkeys(names, "mean_squared_error"),
            optimizer="sgd",
            learning_rate=1e-5,
            batch_size=next(iter(samples.values())).shape[0],
        ) as trainer:
            trainer.train_on_batch(samples, targets)
            trainer.export(out)
            predicted = trainer.predict(samples)
        check_bytes(path, out)
        theirs = in_onnxruntime(out, feeds)
        several = predicted if isinstance(predicted, list | tuple) else [predicted]
        for name, ours in zip(outputs, several, strict=True):
            check_close(ours, theirs[name], name)
        moved = max(np.abs(theirs[name] - outputs[name]).max() for name in names)
        assert moved > 0
        source = out


CONVERTED = [pytest.param(path, {}, id=path.stem) for path in FILES]
CONVERTED += [
    pytest.param(path, entry, id=str(entry["name"]))
    for entry in LISTED
    if (path := FETCHED / f"{entry['name']}.onnx").exists()
]


@pytest.mark.parametrize(("path", "entry"), CONVERTED)
def test_litert_runs_a_converted_file(path: Path, entry: Mapping[str, Any]) -> None:
    """It computes what onnxruntime computes of the source."""
    model = read_model(path)
    feeds = feeds_of(model, entry)
    tensors = model.graph.tensors
    changed = {i: a.shape for i, a in feeds.items() if a.shape != tensors[i].spec.shape}
    fixed = with_input_values(resized(model, changed), entry.get("values", {}))
    if path.stem in REFUSED:
        with pytest.raises(UnsupportedError, match=REFUSED[path.stem]):
            convert_onnx(fixed, {}, "tflite")
        return
    interpreter = Interpreter(model_content=convert_onnx(fixed, {}, "tflite"))
    runner = interpreter.get_signature_runner()
    results = runner(**{tensors[i].name: feeds[i] for i in fixed.graph.inputs})
    expected = in_onnxruntime(path, {tensors[i].name: a for i, a in feeds.items()})
    assert {*results} == {*expected}
    for name, y in expected.items():
        check_close(results[name], y, name)


def test_the_tutorial_ends_in_onnxruntime() -> None:
    """The page runs with onnxruntime where it is installed, as here."""
    page = "tests/project/test_docs.py::test_every_command_of_the_page_runs"
    command = [sys.executable, "-m", "pytest", "-q", f"{page}[docs/tutorials/onnx-file.md]"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-2000:]
