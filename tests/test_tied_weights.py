"""A weight that several operators use: one gradient, the sum; one weight, also in the export."""

from pathlib import Path

import numpy as np
import pytest
from judges import difference, litert, odt
from model_builder import ModelBuilder
from networks import ArrayData, InOrder

from odt.core.exporter import export_model
from odt.core.reader import read_model
from odt.core.trainer import Trainer
from odt.core.training_info import TrainingInfo


def tied(path: Path, *, two_tensors: bool) -> Path:
    """Two FULLY_CONNECTED of one weight: one tensor, or two tensors of one buffer."""
    model = ModelBuilder("tflite", seed=0)
    x = model.add_input((1, 6))
    w = model.add_weight((6, 6), 6, "w")
    twin = w
    if two_tensors:
        twin = model.add_tensor((6, 6), name="twin", buffer=model.graph.tensors[w].buffer)
    y = model.add_operator("FULLY_CONNECTED", [x, w, -1], (1, 6), fused_activation_function=1)
    z = model.add_operator("FULLY_CONNECTED", [y, twin, -1], (1, 6))
    model.write(path, z)
    return path


@pytest.mark.parametrize("two_tensors", [False, True], ids=["one tensor", "one buffer"])
def test_tied_weights_train_as_one_and_stay_tied(two_tensors: bool, tmp_path: Path) -> None:
    path = tied(tmp_path / "tied.tflite", two_tensors=two_tensors)
    rng = np.random.default_rng(1)
    x, t = (rng.standard_normal((4, 6), np.float32) for _ in range(2))
    model = read_model(str(path))
    info = TrainingInfo(optimizer="sgd", learning_rate=0.1, loss="mean_squared_error", batch_size=4)
    out = tmp_path / "out.tflite"
    with Trainer(model.graph, info) as trainer:
        (w,) = trainer.parameters.tensors.values()
        w0 = w.astype(np.float64)
        list(trainer.fit(ArrayData([x], [t]), InOrder(4), epochs=1))
        export_model(model, trainer.buffers(), str(out), "tflite")
        h = np.maximum(x @ w0.T, 0)
        d = 2 * (h @ w0.T - t) / t.size
        gradient = d.T @ h + ((d @ w0) * (h > 0)).T @ x
        np.testing.assert_allclose(w, w0 - 0.1 * gradient, rtol=1e-5, atol=1e-6)
        exported = read_model(str(out)).graph
        constants = [t.data for t in exported.tensors if t.data is not None and t.data.size == 36]
        assert len(constants) == 1 + two_tensors
        for a in constants:
            np.testing.assert_array_equal(a, w)
    assert difference(odt(out, [x])[0], litert(out, [x])[0]) < 1e-4
