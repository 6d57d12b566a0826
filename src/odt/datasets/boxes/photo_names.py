"""Finds the photo that an annotation names, which may be in another folder."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from odt.core.storage.reading import listed, printable
from odt.datasets.file_suffixes import kind_of
from odt.errors import DataError


class PhotoNames:
    """The photos of a source, by name.

    Args:
        names: paths of the photos.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = {*names}
        self._by_name: dict[str, list[str]] = {}
        self._by_stem: dict[str, list[str]] = {}
        for name in names:
            path = PurePosixPath(name)
            self._by_name.setdefault(path.name, []).append(name)
            self._by_stem.setdefault(path.stem, []).append(name)

    def find(self, text: str, folder: str) -> str | None:
        """Returns the photo that an annotation names; None if there is none.

        Paths in annotations are those of another machine, and suffixes those before a conversion:
        a photo of the same path is taken, else one of the same name, else of the same stem. Of
        several, the one that shares most folders with the annotation is taken.

        Args:
            text: name or path, with or without a suffix.
            folder: folder of the annotation.

        Raises:
            DataError: if several photos fit equally well.
        """
        path = PurePosixPath(text.replace("\\", "/"))
        beside = str(PurePosixPath(folder) / path)
        for exact in (beside, str(path)):
            if exact in self._names:
                return exact
        stem = path.stem if kind_of(path.name) == "image" else path.name
        fitting = self._by_name.get(path.name) or self._by_stem.get(stem, [])
        if len(fitting) < 2:
            return fitting[0] if fitting else None
        folders = {*path.parent.parts, *PurePosixPath(folder).parts}
        shared = [len(folders & {*PurePosixPath(name).parent.parts}) for name in fitting]
        best = [name for name, n in zip(fitting, shared, strict=True) if n == max(shared)]
        if len(best) > 1:
            raise DataError(
                f"must name one photo, but {printable(text)} may be {listed(best)}. Give folders "
                "in which each name is unique"
            )
        return best[0]
