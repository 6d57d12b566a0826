"""ONNX Runtime's training examples run with odt's imports and no other change.

`make accept ONLY=tutorials TUTORIALS=DIR`: DIR is a checkout of
microsoft/onnxruntime-training-examples at ef9a7777, of which nothing is in this repository. The
examples run in an environment with torch, onnx and onnxruntime; tests/support/tutorial_run.py says
what stands for their downloads.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest
from support.paths import ROOT

pytestmark = pytest.mark.accept
PYTHON = ROOT / ".venv" / "tutorials" / "bin" / "python"  # `make accept ONLY=tutorials` makes it
FOLDER = os.environ.get("ODT_TUTORIALS", "")
DESKTOP, WEB = "desktop/python/mnist.ipynb", "web/offline-step/mnist.ipynb"
ANDROID, IOS = "mobile/android", "mobile/ios/artifacts_gen.py"
FILES = {"checkpoint", "eval_model.onnx", "optimizer_model.onnx", "training_model.onnx"}


def run(name: str, folder: Path) -> str:
    """Runs an example; returns what it printed."""
    path = Path(FOLDER, "on_device_training", name)
    if not FOLDER or not path.exists():
        pytest.fail(
            f"{path} must exist. Give a checkout of microsoft/onnxruntime-training-examples: "
            "`make accept ONLY=tutorials TUTORIALS=DIR`."
        )
    if not PYTHON.exists():
        pytest.fail(f"{PYTHON} must have torch and onnx. Run `make accept ONLY=tutorials`.")
    script = ROOT / "tests" / "support" / "tutorial_run.py"
    command = [PYTHON, script, path, folder]
    ran = subprocess.run(command, text=True, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


def numbers(text: str, pattern: str) -> list[float]:
    return [float(n) for n in re.findall(pattern, text)]


def test_mnist_on_the_desktop(tmp_path: Path) -> None:
    """Both ways to make artifacts, training, evaluation, and onnxruntime on the export."""
    text = run(DESKTOP, tmp_path)
    losses, hits = numbers(text, r"Train Loss: ([\d.]+)"), numbers(text, r"Accuracy : ([\d.]+)")
    assert losses[-1] < 0.5 * losses[0]
    assert hits[-1] > 0.95
    assert "Predicted Label" in text
    assert {p.name for p in (tmp_path / "data").iterdir()} >= FILES


def test_mnist_for_the_web(tmp_path: Path) -> None:
    run(WEB, tmp_path)
    assert {p.name for p in tmp_path.iterdir()} >= FILES


@pytest.mark.parametrize("app", ["c-cpp", "java"])
def test_photos_on_android(app: str, tmp_path: Path) -> None:
    """MobileNetV2, of which the classifier trains and everything else is frozen."""
    run(f"{ANDROID}/{app}/prepare_for_training.ipynb", tmp_path)
    assert {p.name for p in (tmp_path / "training_artifacts").iterdir()} >= FILES
    text = run(f"{ANDROID}/{app}/train.ipynb", tmp_path)
    losses = numbers(text, r"Epoch \d Loss ([\d.]+)")
    assert len(losses) == 5
    assert losses[-1] < 0.8 * losses[0]
    assert (tmp_path / "inference_artifacts" / "inference.onnx").exists()


def test_a_block_for_ios(tmp_path: Path) -> None:
    run(IOS, tmp_path)
    assert {p.name for p in (tmp_path / "MyVoice" / "artifacts").iterdir()} >= FILES
