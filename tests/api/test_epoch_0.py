"""Epoch 0 of samples with many class numbers reads few of them."""

import numpy as np
import pytest

from odt.cli.output.report import parameter_block
from odt.kernels.rows.opdef import TensorSpec
from odt.training.fitting import most_untrained

SPARSE = "sparse_categorical_crossentropy"


@pytest.mark.parametrize(
    ("loss", "shape", "batch", "most"),
    [
        (SPARSE, (10,), 1, 256),
        (SPARSE, (2, 10), 1, 128),
        (SPARSE, (256, 49152), 1, 16),
        (SPARSE, (256, 49152), 32, 64),
        (SPARSE, (256, 49152), 512, 256),
        ("mean_squared_error", (64, 64, 3), 1, 256),
    ],
)
def test_samples_of_many_labels_are_few(
    loss: str, shape: tuple[int, ...], batch: int, most: int
) -> None:
    assert most_untrained((loss, TensorSpec(shape, np.dtype(np.float32))), batch) == most


def test_many_operators_are_listed_in_part() -> None:
    block = parameter_block(
        learning_rate=0.1,
        batch_size=1,
        loss=SPARSE,
        reduction="sum",
        optimizer="adam",
        num_of_trainable_ops=-2,
        trainable_ops=range(2, 842, 4),
    )
    line = "- num_of_trainable_ops = -2 = operators 2, 6, 10, 14, 18, 22, 26, 30, … (210 operators)"
    assert line in block.splitlines()
