"""odt.compat.ort beside ONNX Runtime 1.19.2, on six networks and both optimizers.

DATA/onnx/golden holds what record.py there recorded: networks, batches, losses of ten steps, final
parameters, and ONNX Runtime's own artifacts. Its last steps run in an environment of their own.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.accept_data import complete
from support.ort_continues import batch, steps
from support.paths import ROOT

from odt.compat.ort import artifacts, onnxblock
from odt.compat.ort.api import CheckpointState, Module, Optimizer

pytestmark = pytest.mark.accept
PYTHON = (
    ROOT / ".venv" / "onnxruntime" / "bin" / "python"
)  # `make accept ONLY=onnxruntime` makes it
GOLDEN = complete("onnx", "golden", "out")
NETWORKS = ("mlp", "cnn", "mobile", "lstm", "transformer", "two")
RUNS = [(name, optimizer) for name in NETWORKS for optimizer in ("SGD", "AdamW")]
LOSS, PARAMETERS = 1e-5, {"SGD": 1e-5, "AdamW": 2e-4}  # largest differences
STATISTICS = 1e-5
# BatchNormalization subtracts the bias of the layer before it, whose gradient is 0. In others it is
# rounding, of which AdamW makes whole steps: after ten of them ONNX Runtime's bias is 8.5e-5 off
# float64, PyTorch's float32 6.0e-5 and odt's 1e-13; the running mean 3.4e-5, 2.4e-5 and 9e-7.
ROUNDING = {("cnn", "AdamW", "bn2.mean"): 4e-5}


class TwoLosses(onnxblock.Block):
    """Cross-entropy of the first output, and squared error of the second."""

    def build(self, logits: str, value: str) -> Any:
        entropy = onnxblock.loss.CrossEntropyLoss()(logits, "labels")
        return onnxblock.blocks.Add()(entropy, onnxblock.loss.MSELoss()(value, "target"))


def recorded(name: str) -> dict[str, Any]:
    path = GOLDEN / "losses.json"
    if not path.exists():
        pytest.fail(f"{path} must exist. Give the complete data: `make accept DATA=DIR`.")
    found: dict[str, Any] = json.loads(path.read_text())["results"][name]
    return found


def opened(folder: Path, name: str, optimizer: str, checkpoint: str = "checkpoint") -> Any:
    state = CheckpointState.load_checkpoint(folder / checkpoint)
    module = Module(folder / "training_model.onnx", state, folder / "eval_model.onnx")
    updates = Optimizer(folder / "optimizer_model.onnx", module)
    updates.set_learning_rate(recorded(name)["rate"][optimizer])
    return state, module, updates


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Any]:
    """Ten steps of each network, from its .onnx file: losses, state, folder."""
    results = {}
    for name, optimizer in RUNS:
        known, folder = recorded(name), tmp_path_factory.mktemp(f"{name}_{optimizer}")
        artifacts.generate_artifacts(
            GOLDEN / f"{name}.onnx",
            requires_grad=known["trained"],
            frozen_params=known["frozen"],
            loss=TwoLosses() if name == "two" else artifacts.LossType.CrossEntropyLoss,
            optimizer=artifacts.OptimType[optimizer],
            artifact_directory=folder,
            nominal_checkpoint=True,
        )
        state, module, updates = opened(folder, name, optimizer)
        data = np.load(GOLDEN / f"{name}_data.npz")
        losses = [float(module.eval()(*batch(data, 0)))]
        module.train()
        for k in range(10):
            losses.append(float(module(*batch(data, k))))
            updates.step()
            module.lazy_reset_grad()
        losses.append(float(module.eval()(*batch(data, 0))))
        CheckpointState.save_checkpoint(state, folder / "state", include_optimizer_state=True)
        values = {n: p.data for n, p in state.parameters}
        names = [module.input_names(), module.output_names()]
        results[name, optimizer] = losses, values, folder, names
        module.close()
    return results


@pytest.fixture(scope="module")
def continued(trained: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Five further steps of ONNX Runtime, from its own states and from those of odt."""
    if not PYTHON.exists():
        pytest.fail(f"{PYTHON} must have ONNX Runtime. Run `make accept ONLY=onnxruntime`.")
    folder = tmp_path_factory.mktemp("continued")
    runs = {}
    for name, optimizer in RUNS:
        theirs, own = GOLDEN / "artifacts" / f"{name}_{optimizer}", trained[name, optimizer][2]
        for who, source in (("theirs", theirs), ("odt", own)):
            runs[f"{name}/{optimizer}/{who}"] = {
                # only ONNX Runtime writes graphs of gradients
                "training": str(theirs / "training_model.onnx"),
                "evaluation": str(source / "eval_model.onnx"),
                "optimizer": str(source / "optimizer_model.onnx"),
                "checkpoint": str(source / "state"),
                "data": str(GOLDEN / f"{name}_data.npz"),
                "rate": recorded(name)["rate"][optimizer],
            }
    (folder / "runs.json").write_text(json.dumps(runs))
    script = ROOT / "tests" / "support" / "ort_continues.py"
    command = [PYTHON, script, folder / "runs.json", folder / "results.npz"]
    ran = subprocess.run(command, text=True, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return dict(np.load(folder / "results.npz"))


@pytest.mark.parametrize(("name", "optimizer"), RUNS)
def test_ten_steps_are_those_of_onnx_runtime(name: str, optimizer: str, trained: Any) -> None:
    losses, values, _, (inputs, outputs) = trained[name, optimizer]
    run = recorded(name)["runs"][optimizer]
    expected = [run["eval_before"], *run["losses"], run["eval_after"]]
    np.testing.assert_allclose(losses, expected, rtol=0, atol=LOSS)
    final = np.load(GOLDEN / f"{name}_{optimizer}.npz")
    for parameter, a in values.items():
        frozen = parameter in recorded(name)["frozen"]
        most = STATISTICS if frozen else PARAMETERS[optimizer]
        most = ROUNDING.get((name, optimizer, parameter), most)
        np.testing.assert_allclose(a, final[f"p/{parameter}"], rtol=0, atol=most)
    assert inputs == run["inputs"]
    assert len(outputs) == len(run["outputs"])


def check_losses(losses: Any, expected: Any) -> None:
    """Compares the losses of five steps, and that of an evaluation with the parameters after them.

    The latter has the differences of the parameters, which AdamW magnifies.
    """
    np.testing.assert_allclose(losses[:-1], expected[:-1], rtol=0, atol=LOSS)
    np.testing.assert_allclose(losses[-1], expected[-1], rtol=0, atol=5 * LOSS)


@pytest.mark.parametrize(("name", "optimizer"), RUNS)
def test_a_folder_of_onnx_runtime_continues_in_odt(
    name: str, optimizer: str, continued: Any
) -> None:
    folder = GOLDEN / "artifacts" / f"{name}_{optimizer}"
    _, module, updates = opened(folder, name, optimizer, "state")
    losses = steps(module, updates, np.load(GOLDEN / f"{name}_data.npz"))
    key = f"{name}/{optimizer}/theirs"
    check_losses(losses, continued[f"{key}/losses"])
    buffer = module.get_contiguous_parameters(trainable_only=False).numpy()
    expected = continued[f"{key}/buffer"]
    np.testing.assert_allclose(buffer, expected, rtol=0, atol=PARAMETERS[optimizer])


@pytest.mark.parametrize(("name", "optimizer"), RUNS)
def test_a_state_of_odt_continues_in_onnx_runtime(
    name: str, optimizer: str, continued: Any
) -> None:
    """With odt's evaluation and optimizer models; the training model is ONNX Runtime's."""
    key, theirs = (f"{name}/{optimizer}/{who}" for who in ("odt", "theirs"))
    check_losses(continued[f"{key}/losses"], continued[f"{theirs}/losses"])
    np.testing.assert_allclose(
        continued[f"{key}/buffer"],
        continued[f"{theirs}/buffer"],
        rtol=0,
        atol=2 * PARAMETERS[optimizer],
    )
