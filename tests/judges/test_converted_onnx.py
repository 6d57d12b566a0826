"""LiteRT and onert run the Circle and TFLite files that ONNX files were converted to."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from support.judges import litert, onert
from support.onert_party import HAVE_ONERT
from support.onnx_networks import NETWORKS
from support.onnx_outputs import compute

import odt
from odt.core.export.onnx_conversion import convert_onnx
from odt.core.formats.reader import read_model

LITERT_ALONE = ("images",)  # onert 0.1.0 computes no TRANSPOSE_CONV


@pytest.mark.parametrize("name", NETWORKS)
def test_converted_files_compute_the_same(name: str, tmp_path: Path) -> None:
    """Also in a second run: no state of a recurrent layer is left in a runtime."""
    net = NETWORKS[name]()
    samples = net.samples()
    expected = compute(net.file, tmp_path, *samples)
    path = tmp_path / "m.onnx"
    for kind in ("circle", "tflite"):
        (tmp_path / f"m.{kind}").write_bytes(convert_onnx(read_model(path), {}, kind))
    judges = {"LiteRT": litert(tmp_path / "m.tflite", samples)}
    judges["LiteRT's own kernels"] = litert(tmp_path / "m.tflite", samples, xnnpack=False)
    if HAVE_ONERT and name not in LITERT_ALONE:
        (tmp_path / "onert").mkdir()
        judges["onert"] = onert(tmp_path / "m.circle", samples, tmp_path / "onert")
    for judge, outputs in judges.items():
        assert len(outputs) == len(expected)
        for theirs, ours in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(
                theirs.reshape(ours.shape), ours, rtol=1e-5, atol=1e-5, err_msg=judge
            )


def test_runs_begin_without_states(tmp_path: Path) -> None:
    """The runtime is asked twice, and its variables are not reset."""
    net = NETWORKS["LSTM in both directions"]()
    data = convert_onnx(read_model(net.file.write(tmp_path / "m.onnx")), {}, "tflite")
    interpreter = Interpreter(model_content=data)
    runner = interpreter.get_signature_runner()
    (x,) = net.samples(1)
    first, second = (runner(x=x) for _ in range(2))
    assert {*first} == {"y", "h"}
    np.testing.assert_array_equal(first["y"], second["y"])


@pytest.mark.parametrize(
    ("name", "options"),
    [("convolutions", {}), ("convolutions", {"batch_norm": "batch"}), ("transformer", {})],
)
def test_a_trained_model_is_exported_as_tflite(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """With the running statistics that training moved."""
    net = NETWORKS[name]()
    path = net.file.write(tmp_path / "m.onnx")
    samples = net.samples(8)
    outputs = compute(net.file, tmp_path, *samples)
    targets = [np.roll(y, 1, axis=0) for y in outputs]
    loss = dict.fromkeys([o.name for o in odt.load_model(path).outputs], "mean_squared_error")
    with odt.Trainer(path, loss=loss, batch_size=8, learning_rate=1e-3, **options) as trainer:
        for _ in range(3):
            trainer.train_on_batch(samples[0], targets)
        trainer.export(tmp_path / "new.tflite")
        ours = trainer.predict(samples[0])
    ours = ours if isinstance(ours, list | tuple) else [ours]
    for k, theirs in enumerate(litert(tmp_path / "new.tflite", samples)):
        np.testing.assert_allclose(theirs, ours[k].reshape(theirs.shape), rtol=1e-5, atol=1e-5)
        assert np.abs(theirs - outputs[k].reshape(theirs.shape)).max() > 1e-4
