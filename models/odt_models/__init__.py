"""Trained networks from which odt makes models of new photos and sounds."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["BASES", "Base"]


@dataclass(frozen=True)
class Base:
    """A trained network.

    Attributes:
        file: name of its file in this package.
        kind: kind of its inputs, image or sound.
        after: position of the operator that computes its features; None for the last pooling.
    """

    file: str
    kind: str
    after: int | None = None

    @property
    def path(self) -> str:
        """Path of its file."""
        return str(Path(__file__).with_name(self.file))


BASES = {
    "mobilenet": Base("mobilenet.tflite", "image", after=171),
    "keywords": Base("keywords.tflite", "sound"),
}
