"""Metrics, as compile takes them; own ones derive from Metric."""

from collections.abc import Mapping, Sequence

from odt.kernels.opdef import Array

__all__ = ["CategoricalAccuracy", "Metric"]


class Metric:
    """A figure over all batches since the last reset."""

    def reset_state(self) -> None:
        """Forgets what it has seen."""
        raise NotImplementedError

    def update_state(self, outputs: Sequence[Array], expecteds: Sequence[Array]) -> None:
        """Sees a batch: the model's outputs and what they should be."""
        raise NotImplementedError

    def result(self) -> float:
        """The figure."""
        raise NotImplementedError


class CategoricalAccuracy(Metric):
    """Share of samples whose greatest output is where the greatest target is."""

    def __init__(self) -> None:
        self.correct = 0
        self.total = 0

    def reset_state(self) -> None:
        """Forgets all samples."""
        self.correct = self.total = 0

    def update_state(self, outputs: Sequence[Array], expecteds: Sequence[Array]) -> None:
        """Counts the samples of a batch."""
        for y, t in zip(outputs, expecteds, strict=True):
            if len(y) != len(t):
                raise ValueError(f"outputs: must be {len(t)} samples as expected, but got {len(y)}")
            best, wanted = (a.reshape(len(a), -1).argmax(1) for a in (y, t))
            self.correct += int((best == wanted).sum())
            self.total += len(y)

    def result(self) -> float:
        """Returns the accuracy of all samples since the last reset, 0 without any."""
        return self.correct / self.total if self.total else 0.0


NAMES: Mapping[str, type[Metric]] = {"categorical_accuracy": CategoricalAccuracy}
