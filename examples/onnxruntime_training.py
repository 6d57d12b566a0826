"""A script for ONNX Runtime's on-device training with its imports changed: docs/onnxruntime.md.

Usage, in the project's folder:

    odt new cnn --input-shape 28,28,1 --outputs 10 -o model.tflite --seed 1
    python examples/onnxruntime_training.py model.tflite trained.tflite [EPOCHS]
"""

import sys
from pathlib import Path

import numpy as np
from quickstart import load

import odt
from odt.compat.ort import artifacts
from odt.compat.ort.api import CheckpointState, LinearLRScheduler, Module, Optimizer

BATCH = 32


def prepare(source: str, folder: Path) -> None:
    """The offline phase, on a workstation."""
    parameters = list(odt.load_model(source).parameters)
    artifacts.generate_artifacts(
        source,
        requires_grad=parameters,
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=artifacts.OptimType.AdamW,
        artifact_directory=folder,
        nominal_checkpoint=True,
    )


def train(folder: Path, epochs: int) -> tuple[CheckpointState, Module]:
    """The training phase, on a device."""
    x, y = load("train")
    labels, steps = y.argmax(1), len(x) // BATCH
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    module = Module(folder / "training_model.json", state, folder / "eval_model.json")
    optimizer = Optimizer(folder / "optimizer_model.json", module)
    scheduler = LinearLRScheduler(optimizer, 50, epochs * steps, 2e-3)
    for epoch in range(epochs):
        losses = []
        for at in range(0, steps * BATCH, BATCH):
            losses.append(module(x[at : at + BATCH], labels[at : at + BATCH]))
            optimizer.step()
            scheduler.step()
            module.lazy_reset_grad()
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}")
    return state, module


def main(source: str, target: str, epochs: int = 3) -> None:
    folder = Path(target).with_suffix(".artifacts")
    prepare(source, folder)
    state, module = train(folder, epochs)

    x_test, y_test = load("t10k")
    print(f"test loss {module.eval()(x_test, y_test.argmax(1)):.4f}")

    state.properties["epochs"] = epochs
    CheckpointState.save_checkpoint(state, folder / "trained", include_optimizer_state=True)
    outputs = [t.name for t in odt.load_model(source).outputs]
    module.export_model_for_inferencing(target, outputs)

    # A client of a federation: parameters come from a server, as one array.
    client = CheckpointState.load_checkpoint(folder / "nominal_checkpoint")
    with Module(folder / "training_model.json", client) as other:
        other.copy_buffer_to_parameters(module.get_contiguous_parameters())
        print(f"test loss of a client {other.eval()(x_test, y_test.argmax(1)):.4f}")
    module.close()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
