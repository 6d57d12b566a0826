"""A real LSTM on real digits, read row by row."""

import gzip

import numpy as np
import pytest
from support.accept_data import complete
from support.judges import odt
from support.networks import ArrayData, InOrder
from support.paths import MODELS

from odt.core.formats.reader import read_model
from odt.core.model.training_info import TrainingInfo
from odt.core.training.trainer import Trainer
from odt.kernels.rows.opdef import Array

pytestmark = pytest.mark.accept

MODEL = MODELS / "tflm-mnist-lstm-float.tflite"


def digits(part: str, count: int) -> tuple[Array, Array]:
    """Pictures 0 … 1, as the model was trained on them, and labels."""
    folder = complete("data", "image", "mnist")
    with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as f:
        pictures = np.frombuffer(f.read(16 + count * 784), np.uint8, offset=16)
    with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as f:
        labels = np.frombuffer(f.read(8 + count), np.uint8, offset=8)
    return pictures.reshape(count, 28, 28).astype(np.float32) / 255, labels


def test_it_reads_as_many_digits_as_in_litert() -> None:
    """97 % of the first 500 test images; 94.6 % if LiteRT keeps the state of the previous image."""
    pictures, labels = digits("t10k", 500)
    (outputs,) = odt(MODEL, [pictures], batch=64)
    assert (outputs.argmax(axis=1) == labels).mean() == pytest.approx(0.97, abs=0.002)


def test_the_model_learns_other_labels() -> None:
    """Each digit is to be called the next one; four rounds of 20 steps."""
    pictures, labels = digits("train", 64 * 20)
    targets = np.eye(10, dtype=np.float32)[(labels + 1) % 10]
    info = TrainingInfo(loss="categorical_crossentropy", batch_size=64, learning_rate=0.1)
    with Trainer(read_model(str(MODEL)).graph, info) as trainer:
        data = ArrayData([pictures], [targets])
        losses = [e.training.loss for e in trainer.train(data, InOrder(64 * 20), epochs=4)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.25 * losses[0]
