"""ONNX files of others, recorded cases and random nodes: equal to onnxruntime, or refused by name.

ODT_ONNX_MODELS is the folder with the files of tools/onnx_models.toml; `make accept ONLY=onnx`
fetches them. The tables of results are printed at the end of each test.
"""

import importlib.util
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.accept_data import complete
from support.onnx_judges import Comparison, compare, difference, outputs, refusals
from support.paths import ROOT, TESTS

from odt.core.formats.reader import read_model
from odt.core.recipe.lowered_model import lower_model
from odt.errors import OdtError

sys.path.insert(0, str(ROOT / "tools"))
from fetch_shipped_models import models

pytestmark = pytest.mark.accept

MODELS = Path(os.environ.get("ODT_ONNX_MODELS", "."))
LISTED = models(ROOT / "tools" / "onnx_models.toml")
CLOSE = 1e-4  # relative difference to onnxruntime
SEEDS = (0, 1)
MUTATIONS = int(os.environ.get("ODT_MUTATIONS", "20000"))  # of each of ten files
MUTATED = (
    "DTLN__model_1",  # LSTM
    "UltraFace__version-slim-320",  # weights in Constant nodes
    "gtcrn__gtcrn_simple",  # GRU, transposed convolutions, ScatterND
    "magika__model",
    "onnxruntime-extensions__FastestDet",
    "onnxruntime-inference-examples__mnist",
    "openwakeword__hey_jarvis_v0.1",  # If
    "silero_vad__silero_vad_openvino_16k",
    "speechmos__model_v8",
    "surfaces_onnx_files__gradient_boosting_regressor",
)


@pytest.fixture(autouse=True)
def _judges() -> None:
    missing = [n for n in ("onnx", "onnxruntime") if importlib.util.find_spec(n) is None]
    if missing:
        pytest.fail(
            "install the judges: pip install onnx==1.23.2 onnxruntime==1.32.0", pytrace=False
        )


@pytest.mark.parametrize("entry", LISTED, ids=lambda entry: str(entry["name"]))
def test_a_real_file_equals_onnxruntime(entry: dict[str, Any]) -> None:
    path = MODELS / f"{entry['name']}.onnx"
    if not path.exists():
        pytest.fail(
            f"give a folder with {entry['file']}: SHIPPED=DIR, clones of {entry.get('repository')}",
            pytrace=False,
        )
    for seed in SEEDS:
        result = compare(path, entry.get("shapes", {}), entry.get("values", {}), seed)
        if "refused" in entry:
            assert {*entry["refused"]} <= {*result.refused}
        else:
            assert result.refused == ()
            assert result.difference < CLOSE


def test_most_of_the_listed_files_are_equal() -> None:
    assert len(LISTED) == 74
    assert sum("refused" not in entry for entry in LISTED) >= 64


def recorded(folder: Path) -> Comparison:
    """Compares a case of the package onnx with its recorded outputs."""
    from onnx import TensorProto, numpy_helper

    def arrays(kind: str) -> list[Any]:
        found: list[Any] = []
        while (path := folder / "test_data_set_0" / f"{kind}_{len(found)}.pb").exists():
            tensor = TensorProto()
            tensor.ParseFromString(path.read_bytes())
            found.append(numpy_helper.to_array(tensor))
        return found

    model = read_model(folder / "model.onnx")
    lowered = lower_model(model, outputs="file")
    if kinds := refusals(lowered):
        return Comparison(kinds)
    feeds = dict(zip(model.graph.inputs, arrays("input"), strict=True))
    return Comparison((), difference(outputs(model, lowered, feeds), arrays("output")))


def test_recorded_cases_of_pytorch() -> None:
    import onnx

    folder = Path(onnx.__file__).parent / "backend" / "test" / "data"
    cases = {p.name: recorded(p) for p in sorted(folder.glob("pytorch-*/*")) if p.is_dir()}
    wrong = {n: c for n, c in cases.items() if c.difference >= CLOSE}
    assert len(cases) == 117
    assert not wrong, wrong


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the cases
@pytest.mark.parametrize("opset", [23, 28])
def test_node_cases_are_equal_or_refused(tmp_path: Path, opset: int) -> None:
    """Cases of the package onnx that say what each kind of node computes, at an opset."""
    from onnx import defs, numpy_helper
    from onnx.backend.test.case.node import collect_testcases

    counts: Counter[str] = Counter()
    wrong = []
    for case in collect_testcases(None):
        model = case.model
        for entry in model.opset_import:
            entry.version = min(entry.version, opset) if not entry.domain else entry.version
        kinds = {n.op_type for n in model.graph.node if not n.domain}
        if "_expanded" in case.name or not all(_has(defs, kind, opset) for kind in kinds):
            continue
        inputs, wanted = case.data_sets[0]
        if not all(isinstance(x, np.ndarray | np.generic) for x in (*inputs, *wanted)):
            continue
        names = [v.name for v in model.graph.input]
        feeds = dict(zip(names, map(np.asarray, inputs), strict=True))
        whole = [n for n in names[1:] if feeds[n].dtype.kind in "iub"]
        for constants in ((), whole, names[1:]):  # shapes and axes must be constants
            copy = type(model)()
            copy.CopyFrom(model)
            kept = [v for v in copy.graph.input if v.name not in constants]
            del copy.graph.input[:]
            copy.graph.input.extend(kept)
            copy.graph.initializer.extend(numpy_helper.from_array(feeds[n], n) for n in constants)
            path = tmp_path / "m.onnx"
            path.write_bytes(copy.SerializeToString())
            try:
                result = _outputs_by_name(path, feeds)
            except OdtError:
                result = None
            if result is not None:
                break
        if result is None:
            counts["refused"] += 1
        elif difference(result, wanted) < (1e-3 if wanted[0].dtype == np.float16 else CLOSE):
            counts["equal"] += 1
        elif difference(result, _onnxruntime(path, feeds)) < CLOSE:
            counts["equal to onnxruntime alone"] += 1
        else:
            wrong.append(case.name)
    print(dict(counts))
    assert not wrong, wrong
    assert counts["equal"] >= 800


def _has(defs: Any, kind: str, opset: int) -> bool:
    try:
        defs.get_schema(kind, opset, "")
    except defs.SchemaError:
        return False
    return True


def _outputs_by_name(path: Path, feeds: dict[str, Any]) -> list[Any] | None:
    model = read_model(path)
    lowered = lower_model(model, outputs="file")
    if refusals(lowered):
        return None
    return outputs(
        model, lowered, {i: feeds[model.graph.tensors[i].name] for i in model.graph.inputs}
    )


def _onnxruntime(path: Path, feeds: dict[str, Any]) -> list[Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return list(session.run(None, {v.name: feeds[v.name] for v in session.get_inputs()}))


def test_exports_of_torch() -> None:
    """Modules that torch 2.13 exported in three ways; one trains on batch statistics."""
    folder = complete("onnx", "exports")
    if not folder.is_dir():
        pytest.fail("give the folder with onnx/exports: make accept DATA=DIR", pytrace=False)
    paths = [p for p in sorted(folder.glob("*.onnx")) if not p.name.startswith("bn")]
    results = {p.name: compare(p, {}, {}, 0) for p in paths}
    other = {n: r for n, r in results.items() if r.difference >= CLOSE}
    assert len(results) == 30
    assert other.keys() <= {"cnn_train_legacy14.onnx"}, other


@pytest.mark.parametrize("name", MUTATED)
def test_mutations_give_an_answer_or_one_error(name: str, tmp_path: Path) -> None:
    """In time, and in memory of the file and 50 MB more."""
    script = TESTS / "support" / "mutate_onnx.py"
    command = [
        sys.executable,
        str(script),
        str(MODELS / f"{name}.onnx"),
        str(MUTATIONS),
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=TESTS)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
