"""Writes figures of matplotlib, an optional package, as PNG."""

from io import BytesIO
from typing import Any

from odt.core.storage.atomic_files import AtomicFile
from odt.errors import MissingPackageError, OdtError


def new_figure(**options: Any) -> Any:
    """Returns a new figure of matplotlib.

    Raises:
        MissingPackageError: if matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as e:
        raise MissingPackageError(
            "PNG: charts need matplotlib, which is not installed. Install it: pip install "
            "'odt[plot]'."
        ) from e
    return Figure(layout="constrained", **options)


def save_png(figure: Any, path: str) -> None:
    """Writes a figure as PNG.

    Raises:
        OdtError: if the file cannot be written.
    """
    picture = BytesIO()
    figure.savefig(picture, format="png")
    with AtomicFile(path, OdtError) as file:
        file.write(picture.getvalue())
