"""Trains a model on arrays, as in Keras: fit, evaluate, predict, export.

Usage, in the project's folder:

    odt new cnn --input-shape 28,28,1 --outputs 10 -o model.tflite --seed 1
    python examples/quickstart.py model.tflite trained.tflite [EPOCHS]
"""

import gzip
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import odt

Array = NDArray[np.float32]
DATA = Path(__file__).parent / "fashion-mnist"


def load(split: str) -> tuple[Array, Array]:
    """Returns images (N, 28, 28, 1) with values from 0 to 1, and one-hot classes (N, 10)."""
    images = gzip.decompress((DATA / f"{split}-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((DATA / f"{split}-labels-idx1-ubyte.gz").read_bytes())
    x = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 28, 28, 1)
    y = np.frombuffer(labels, np.uint8, offset=8)
    return x.astype(np.float32) / np.float32(255), np.eye(10, dtype=np.float32)[y]


def main(source: str, target: str, epochs: int = 5) -> None:
    x_train, y_train = load("train")
    x_test, y_test = load("t10k")

    model = odt.load_model(source)
    print(model.summary())
    with odt.Trainer(
        model,
        loss="categorical_crossentropy",
        optimizer=odt.Adam(1e-3),
        batch_size=32,
        metrics=["accuracy"],
    ) as trainer:
        early_stopping = odt.EarlyStopping(patience=2)
        history = trainer.fit(
            x_train, y_train, epochs=epochs, validation_split=0.1, callbacks=[early_stopping]
        )
        print("validation accuracy of each epoch:", history.history["val_accuracy"])
        print("test:", trainer.evaluate(x_test, y_test))
        print("first five classes:", trainer.predict(x_test[:5]).argmax(axis=1))
        trainer.export(target)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
