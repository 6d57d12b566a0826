"""Merged checkpoints: what is averaged, what is left out, and where training begins."""

import numpy as np

from odt.core.checkpoints.checkpoint import Checkpoint, Entry
from odt.core.checkpoints.progress import Progress
from odt.federated.merging import mean_checkpoint

ROLES = ("weight", "momentum", "statistic", "best", "before-weight")


def device(value: float) -> Checkpoint:
    """The state of a device within an epoch, after a best one and a plateau."""
    progress = Progress(
        step=7,
        epoch=3,
        position=2,
        samples=40,
        loss="mean_squared_error",
        plateau=(0.5, 1.0, 0.0),
        best=(0.4, 2.0, 1.0),
        monitor="val_loss",
    )
    entries = tuple(Entry("w", role, (2,), "float32") for role in ROLES)
    arrays = tuple(np.array([value, k], np.float32) for k in range(len(ROLES)))
    return Checkpoint("sgd", {"learning_rate": 0.1}, progress, entries, arrays)


def test_a_merged_checkpoint_begins_with_means_and_no_past() -> None:
    merged = mean_checkpoint([device(1), device(5)], [3, 1])
    assert [entry.role for entry in merged.entries] == ["weight", "momentum", "statistic"]
    wanted = [[2, 0], [0, 0], [2, 2]]  # a new optimizer state
    np.testing.assert_array_equal(merged.arrays, wanted)
    assert merged.progress == Progress(loss="mean_squared_error")
