"""Counts of true and false detections, and of true boxes without one."""

from odt.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class BoxCounts:
    """Counts of detections of a set of photos.

    Attributes:
        true: detections of a true box.
        false: other detections.
        missed: true boxes without a detection.
    """

    true: int = 0
    false: int = 0
    missed: int = 0

    @property
    def boxes(self) -> int:
        """Number of true boxes."""
        return self.true + self.missed

    @property
    def f1(self) -> float:
        """F1: the harmonic mean of precision and recall; NaN without boxes and detections."""
        count = 2 * self.true + self.false + self.missed
        return 2 * self.true / count if count else float("nan")

    def __add__(self, other: "BoxCounts") -> "BoxCounts":
        return BoxCounts(
            self.true + other.true, self.false + other.false, self.missed + other.missed
        )
