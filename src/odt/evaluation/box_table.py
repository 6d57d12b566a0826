"""Table of samples with boxes: true boxes, missed ones and false detections of each."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from odt.kernels.rows.opdef import Array
from odt.text import table

if TYPE_CHECKING:
    from odt.training.detection import Detections


class BoxTable:
    """Samples as rows of text: number, true boxes, missed ones, false detections, loss.

    Attributes:
        heads: heads of the columns.

    Args:
        detections: detections of the samples.
        least: smallest score of a detection that counts.
        losses: loss of each sample; None for no such column.
    """

    def __init__(self, detections: "Detections", least: float, losses: Array | None = None) -> None:
        self._detections, self._least, self._losses = detections, least, losses
        last = () if losses is None else ("loss",)
        self.heads = ("sample", "boxes", "missed", "false", *last)

    def cells(self, sample: int) -> tuple[str, ...]:
        """Returns the row of a sample."""
        counts = self._detections.counts(sample, self._least)
        last = () if self._losses is None else (f"{self._losses[sample]:.6g}",)
        return str(sample), *map(str, (counts.boxes, counts.missed, counts.false)), *last

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yields the heads, and the rows of all samples."""
        yield self.heads
        yield from map(self.cells, sorted(self._detections.rows))

    def lines(self, samples: Sequence[int]) -> list[str]:
        """Returns the table of some samples, as lines.

        Args:
            samples: their numbers.
        """
        rows = [self.heads, *map(self.cells, samples)]
        return table(rows, right={*range(len(self.heads))})
