"""Plots that notebooks show and that can be saved."""

import os
from collections.abc import Sequence

from odt.arguments import checked_arguments
from odt.charts.chart import Chart, svg
from odt.charts.chart_png import draw_png
from odt.charts.html import image, row_of_images, valid_xml
from odt.core.storage.atomic_files import write_atomically
from odt.errors import OdtError, OptionError

PNG, SVG = ".png", ".svg"


class Plot:
    """An image, which a notebook shows and `save` writes.

    Args:
        title: what it shows.
        content: content of an SVG file.
        charts: charts that the image consists of, one below the other; empty for other images.
    """

    def __init__(self, title: str, content: str, charts: Sequence[Chart] = ()) -> None:
        self._title = title
        self._content = content
        # A notebook shows them side by side, and matplotlib draws them as PNG.
        self._charts = tuple(charts)

    @checked_arguments
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the image.

        Args:
            path: path of the file, which ends in .svg or, for charts, in .png.

        Raises:
            OptionError: if the path has another ending.
            OdtError: if the file cannot be written.
            MissingPackageError: if matplotlib, which draws .png, is not installed.
        """
        kind = os.path.splitext(os.fspath(path))[1].lower()
        endings = (SVG, PNG) if self._charts else (SVG,)
        if kind not in endings:
            raise OptionError("path", f"must end in {' or '.join(endings)}", os.fspath(path))
        if kind == PNG:
            draw_png(self._charts, os.fspath(path))
        else:
            write_atomically(path, [self._repr_svg_().encode()], OdtError)

    def __repr__(self) -> str:
        return f"Plot({self._title!r})"

    def _repr_svg_(self) -> str:
        return valid_xml(self._content)

    def _repr_html_(self) -> str:
        if self._charts:
            return row_of_images([svg([chart]) for chart in self._charts], self._title)
        return image(self._content, self._title)


def plot_of(title: str, charts: Sequence[Chart]) -> Plot:
    """Returns the plot of charts, one below the other in a file."""
    return Plot(title, svg(charts), charts)
