"""Power loss at a chosen moment while files are written.

Moments are: before each write, with half of its bytes written, before and after each fsync, before
and after each rename. From then on nothing else reaches the disk, so that no clean-up helps.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from odt.core.storage.atomic_files import AtomicFile

NEVER = 1 << 30


class PowerLossError(BaseException):
    """Not an Exception, so that no code under test handles it."""


class Moments:
    """Counts moments; the chosen one and all later ones raise PowerLossError."""

    def __init__(self, chosen: int) -> None:
        self.chosen = chosen
        self.count = 0

    def next(self) -> None:
        self.count += 1
        if self.count > self.chosen:
            raise PowerLossError

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.next()
            result = function(*arguments, **named)
            self.next()
            return result

        return call


@contextmanager
def power_loss(chosen: int = NEVER) -> Iterator[Moments]:
    """Ends the block at moment number `chosen`, counted from 0, if there are as many."""
    moments = Moments(chosen)
    write = AtomicFile.write

    def halved(file: AtomicFile, chunk: Any) -> None:
        moments.next()
        data = memoryview(chunk).cast("B") if len(chunk) else chunk
        write(file, data[: len(data) // 2])
        file.flush()
        moments.next()
        write(file, data[len(data) // 2 :])

    def unlink(*arguments: Any, **named: Any) -> None:
        if moments.count <= moments.chosen:
            real(*arguments, **named)

    real = os.unlink
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AtomicFile, "write", halved)
        patch.setattr(os, "fsync", moments.around(os.fsync))
        patch.setattr(os, "replace", moments.around(os.replace))
        patch.setattr(os, "unlink", unlink)
        try:
            yield moments
        except PowerLossError:
            assert moments.count > chosen
