"""Objects that are closed at the end of a `with` block."""

from types import TracebackType
from typing import Self


class Closing:
    """Base class of objects that hold threads, memory or files: `with` calls `close` at its end."""

    def close(self) -> None:
        """Releases the resources; may be called more than once."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
