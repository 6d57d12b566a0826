"""Adds three classes to a trained classifier, one after the other, from 50 samples of each.

Usage, in the project's folder:

    odt new cnn --input-shape 28,28,1 --outputs 7 -o seven.tflite --seed 1
    python examples/personalize/new_classes.py seven.tflite personal.tflite [EPOCHS]

First a network is trained on seven classes of Fashion-MNIST. Features of 20 samples of
each class are stored. Then 50 samples of each of the other classes arrive: on the device.
"""

import gzip
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import odt

DATA = Path(__file__).parents[1] / "fashion-mnist"
NAMES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt")
NEW_NAMES = ("sneaker", "bag", "ankle boot")
SAMPLES = 50  # of each new class


def load(split: str) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Returns images (N, 28, 28, 1) with values from 0 to 1, and labels (N,)."""
    images = gzip.decompress((DATA / f"{split}-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((DATA / f"{split}-labels-idx1-ubyte.gz").read_bytes())
    x = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 28, 28, 1)
    y = np.frombuffer(labels, np.uint8, offset=8)
    return x.astype(np.float32) / np.float32(255), y.astype(np.int32)


def accuracy(path: str, classes: int) -> float:
    """Accuracy on the test images of the first classes."""
    x, y = load("t10k")
    with odt.Trainer(path, loss="categorical_crossentropy") as trainer:
        predicted = trainer.predict(x[y < classes]).argmax(axis=1)
    return float(np.mean(predicted == y[y < classes]))


def main(source: str, target: str, epochs: int = 3) -> None:
    x, y = load("train")
    old = y < len(NAMES)
    with odt.Trainer(source, loss="sparse_categorical_crossentropy", learning_rate=1e-3) as trainer:
        trainer.fit(x[old], y[old], epochs=epochs, seed=1)
        trainer.export(target)
    print(f"seven classes: accuracy {accuracy(target, 7):.4f}")
    odt.personalize(target, (x[old], y[old]), classes=NAMES, epochs=0)

    for k, name in enumerate(NEW_NAMES, start=len(NAMES)):
        some = np.flatnonzero(y == k)[:SAMPLES]
        result = odt.personalize(target, (x[some], np.full(SAMPLES, name)))
        print(result)
        print(f"{len(result.classes)} classes: accuracy {accuracy(target, k + 1):.4f}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
