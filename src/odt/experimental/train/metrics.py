"""Metrics for TrainSession.compile; custom metrics derive from Metric."""

from collections.abc import Mapping, Sequence

from odt.kernels.rows.opdef import Array

__all__ = ["CategoricalAccuracy", "Metric"]


class Metric:
    """Base class of metrics, which are accumulated over batches."""

    def reset_state(self) -> None:
        """Clears the accumulated values."""
        raise NotImplementedError

    def update_state(self, outputs: Sequence[Array], expecteds: Sequence[Array]) -> None:
        """Adds a batch: the model's outputs and the expected outputs."""
        raise NotImplementedError

    def result(self) -> float:
        """Returns the metric of all batches since the last reset."""
        raise NotImplementedError


class CategoricalAccuracy(Metric):
    """Fraction of samples whose largest output is at the position of the largest target."""

    def __init__(self) -> None:
        self.correct = 0
        self.total = 0

    def reset_state(self) -> None:
        """Clears the counts."""
        self.correct = self.total = 0

    def update_state(self, outputs: Sequence[Array], expecteds: Sequence[Array]) -> None:
        """Counts the samples of a batch and those classified correctly."""
        for y, t in zip(outputs, expecteds, strict=True):
            if len(y) != len(t):
                raise ValueError(f"outputs: must be {len(t)} samples as expected, but got {len(y)}")
            best, target = (a.reshape(len(a), -1).argmax(1) for a in (y, t))
            self.correct += int((best == target).sum())
            self.total += len(y)

    def result(self) -> float:
        """Returns the accuracy over all samples since the last reset, 0 if there are none."""
        return self.correct / self.total if self.total else 0.0


NAMES: Mapping[str, type[Metric]] = {"categorical_accuracy": CategoricalAccuracy}
