"""Runs a notebook or a script of ONNX Runtime's training examples with odt's imports.

    python tutorial_run.py FILE FOLDER

FILE is executed in FOLDER as it is, but `onnxruntime.training` is imported as `odt.compat.ort`. It
needs torch, torchvision, onnx, onnxruntime and matplotlib. What the examples download (data sets,
trained weights, photos, metrics, a viewer) is not to be had: modules of these names that make
synthetic data stand for it.
"""

import json
import os
import re
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

RUNTIME, ODT = "onnxruntime.training", "odt.compat.ort"
ANIMALS = ("dog", "cat", "elephant", "cow")
DIGITS = 256  # samples of a data set
SIDE = 28


def source_of(path: Path) -> str:
    """Returns the Python code of a notebook or a script."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    return text


def with_imports_changed(source: str) -> str:
    """Returns code that imports odt's modules in place of ONNX Runtime's."""
    pattern = rf"^(\s*(?:from|import)\s+){re.escape(RUNTIME)}\b"
    changed, count = re.subn(pattern, rf"\g<1>{ODT}", source, flags=re.MULTILINE)
    assert count, "the file must import ONNX Runtime's training"
    return changed


def module(name: str, **values: Any) -> types.ModuleType:
    """Makes a module of this name the one that is imported."""
    made = types.ModuleType(name)
    vars(made).update(values)
    sys.modules[name] = made
    parent, _, child = name.rpartition(".")
    if parent and parent in sys.modules:
        setattr(sys.modules[parent], child, made)
    return made


def digits(root: str, train: bool = True, download: bool = False, transform: Any = None) -> Any:
    """Stands for torchvision.datasets.MNIST: each digit is a pattern with noise."""
    rng = np.random.default_rng(0)
    patterns = rng.random((10, SIDE, SIDE))
    labels = np.random.default_rng(1 + train).integers(0, 10, DIGITS)
    noise = np.random.default_rng(3 + train).random((DIGITS, SIDE, SIDE))
    images = (255 * (0.7 * patterns[labels] + 0.3 * noise)).astype(np.uint8)
    return [(transform(image), int(label)) for image, label in zip(images, labels, strict=True)]


class Accuracy:
    """Stands for the metric of the package evaluate."""

    def __init__(self) -> None:
        self._hits: list[bool] = []

    def add_batch(self, references: Any, predictions: Any) -> None:
        self._hits += (np.asarray(references) == np.asarray(predictions)).tolist()

    def compute(self) -> dict[str, float]:
        return {"accuracy": float(np.mean(self._hits))}


def look(path: str) -> None:
    """Stands for the viewer netron: onnx checks the file, and onnxruntime loads it."""
    import onnx
    import onnxruntime

    if not os.path.exists(path):  # the example for the web writes to the current folder
        path = os.path.basename(path)
    onnx.checker.check_model(path, full_check=True)
    onnxruntime.InferenceSession(path)


def speech_model() -> Any:
    """Stands for the speech model of transformers: it has a layer named classifier."""
    import torch

    class Speech(torch.nn.Module):  # type: ignore[misc]  # torch is not installed here
        def __init__(self) -> None:
            super().__init__()
            self.features = torch.nn.Linear(160000 // 100, 256)
            self.classifier = torch.nn.Linear(256, 12)

        def forward(self, x: Any) -> Any:
            means = x.reshape(x.shape[0], -1, 100).mean(2)
            return self.classifier(torch.relu(self.features(means)))

    return Speech()


def stand_ins() -> None:
    """Makes the modules that stand for what the examples download."""
    import matplotlib

    matplotlib.use("Agg")
    import torch

    try:
        import torchvision
    except RuntimeError:  # its operators were built for another torch, and are not used here
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision
    torch.manual_seed(0)
    torchvision.datasets.MNIST = digits

    def state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Random weights, with running statistics that fit them."""
        net = torchvision.models.mobilenet_v2()
        for layer in net.modules():
            if isinstance(layer, torch.nn.BatchNorm2d):
                layer.momentum = None  # the mean of what it sees
        with torch.no_grad():
            net(torch.rand(8, 3, 96, 96))
        return net.state_dict()

    torchvision.models.MobileNet_V2_Weights.get_state_dict = state_dict
    module("netron", start=look)
    module("evaluate", load=lambda name: Accuracy())
    module("IPython", get_ipython=lambda: None, version_info=(9, 0))
    module("IPython.display", Image=lambda filename: filename, display=print)
    pretrained = types.SimpleNamespace(from_pretrained=lambda name: speech_model())
    module(
        "transformers",
        Wav2Vec2ForSequenceClassification=pretrained,
        AutoConfig=types.SimpleNamespace(from_pretrained=lambda name: None),
    )


def photos(folder: Path) -> None:
    """Writes photos of four colors, where the Android example reads those of animals."""
    from PIL import Image

    rng = np.random.default_rng(2)
    for k, animal in enumerate(ANIMALS):
        (folder / "data" / "images" / animal).mkdir(parents=True, exist_ok=True)
        for i in range(20):
            pixels = rng.integers(0, 60, (240, 300, 3))
            pixels[..., k % 3] += 60 + 60 * (k // 3)
            image = Image.fromarray(pixels.astype(np.uint8))
            image.save(folder / "data" / "images" / animal / f"{i}.png")
    image.save(folder / "inference_artifacts" / "test1.jpg")


def main() -> None:
    path, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    for name in ("data", "training_artifacts", "inference_artifacts", "MyVoice/artifacts"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    stand_ins()
    if path.name == "train.ipynb":
        photos(folder)
    os.chdir(folder)
    code = compile(with_imports_changed(source_of(path)), str(path), "exec")
    exec(code, {"__name__": "__main__"})  # what the file says, with other imports
    assert not any(name.startswith(RUNTIME) for name in sys.modules)


if __name__ == "__main__":
    main()
