"""Show data files: shapes, value ranges, classes, and samples as an image."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from odt.cli.options.datafile_steps import shape as parse_shape
from odt.cli.options.sections import typed_options
from odt.cli.options.types import NewFile
from odt.cli.output.output_paths import check_outputs
from odt.cli.output.signals import keep_going
from odt.core.data.column import Column
from odt.core.data.sidecar import Sidecar
from odt.core.storage.reading import printable, reading
from odt.datasets.boxes.drawing import true_boxes
from odt.datasets.contact_sheet import write_sheet
from odt.datasets.statistics import (
    BoxStatistics,
    ColumnStatistics,
    NamedStatistics,
    box_names,
    box_statistics,
    column_names,
    column_statistics,
    is_boxes,
    label_names,
    named_statistics,
    open_any,
    sample_boxes,
)
from odt.errors import OdtError
from odt.text import quantity, table

LINE = 10_000  # characters shown of a preprocessing step
SHOWN = 10  # positions, and values of a step, that are listed
COLUMNS = 40  # columns of a table that are listed


@click.group()
def command() -> None:
    """Show the contents of data files."""


@command.command()
@click.argument("files", type=click.Path(), nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--shape", default="", help="Sample shape of a raw file without a JSON file, such as 28x28x1."
)
@click.option("--sheet", type=NewFile(".png", path_type=Path), metavar="PNG",
              help="Write a contact sheet: one image that shows the first samples.")  # fmt: skip
@click.option("--samples", type=click.IntRange(1, 1024), default=64, show_default=True,
              help="Number of samples on the sheet.")  # fmt: skip
def show(files: tuple[str, ...], shape: str, sheet: Path | None, samples: int) -> None:
    """Show shapes, value ranges, classes and invalid values of each FILE.

    The exit status is 1 if values are NaN or infinite.
    """
    numbers = parse_shape(shape, "--shape")
    if sheet is None and "--samples" in typed_options():
        raise OdtError("--samples: must come with --sheet, but got it alone.")
    if sheet is not None:
        if len(files) > 1:
            raise OdtError(f"--sheet: must be given with one FILE, but got {len(files)}.")
        check_outputs({"--sheet": str(sheet)}, {"FILE": files[0]})
        keep_going()
    contents = {file: open_any(file, numbers) for file in files}
    not_finite = 0
    for file, (columns, sidecar) in contents.items():
        not_finite += describe(file, columns, sidecar)
    if sheet is not None:
        columns, sidecar = contents[files[0]]
        boxes = [
            [*true_boxes(rows, box_names(sidecar))]
            for rows in sample_boxes(files[0], sidecar, samples)
        ]
        write_sheet(sheet, columns[0], label_names(files[0], sidecar, samples), boxes=boxes)
        count = min(samples, columns[0].length)
        click.echo(f"{sheet}: the first {quantity(count, 'sample')}")
    if not_finite:
        raise click.exceptions.Exit(1)


def describe(file: str, columns: Sequence[Column], sidecar: Sidecar | None) -> int:
    """Prints the description of a file; returns the number of values that are not finite."""
    classes = sidecar.classes if sidecar else ()
    with reading(f"{file}.json", "must hold a preprocessing record"):
        names = column_names(file, sidecar)
    not_finite = 0
    for column in columns:
        for note in column.notes:
            click.echo(note, err=True)
        statistics = column_statistics(column, classes)
        if is_boxes(column, file, sidecar):
            click.echo(_title(statistics))
            click.echo("\n".join(box_lines(box_statistics(column, box_names(sidecar)))))
        else:
            click.echo("\n".join(lines(statistics)))
        if names and column.spec.shape[-1:] == (len(names),):
            click.echo("\n".join(table_lines(named_statistics(column, names))))
        not_finite += statistics.nan + statistics.infinite
    if sidecar is not None and "source" in sidecar.recipe:
        source = sidecar.recipe["source"]
        name = source.get("name", source) if isinstance(source, dict) else source
        click.echo(f"source: {printable(name, LINE)}")
        for step in sidecar.recipe.get("preprocessing", []):
            click.echo(f"  {printable(_step(step), LINE)}")
    return not_finite


def _title(statistics: ColumnStatistics) -> str:
    """Describes how many samples a tensor has."""
    count = statistics.samples
    return f"{statistics.name}: {quantity(count, 'sample')} of {statistics.spec}"


def _step(step: Mapping[str, object]) -> str:
    """Formats a preprocessing step: its name, and its values by name."""
    values = [f"{k} {_short(v)}" for k, v in step.items() if k != "step" and v not in ([], "")]
    return ": ".join(filter(None, (str(step.get("step", "")), ", ".join(values))))


def _short(value: object) -> str:
    """Formats a value of a preprocessing step, with few digits and few values of a list."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if not isinstance(value, list):
        return str(value)
    text = ", ".join(map(_short, value[:SHOWN]))
    ending = f", … ({len(value)} values)" if len(value) > SHOWN else ""
    return f"[{text}{ending}]"


def table_lines(rows: Sequence[NamedStatistics]) -> Iterator[str]:
    """Yields a line for each column of a table: range and mean."""
    cells = [("column", "least", "most", "mean")]
    for row in rows[:COLUMNS]:
        cells.append(
            (printable(row.name), f"{row.least:.6g}", f"{row.most:.6g}", f"{row.mean:.6g}")
        )
    yield from (f"  {line}" for line in table(cells, right=(1, 2, 3)))
    if len(rows) > COLUMNS:
        yield f"  … {len(rows) - COLUMNS} more columns"


def box_lines(statistics: BoxStatistics) -> Iterator[str]:
    """Yields the lines about boxes: how many there are, by class and sample, and how large."""
    counts = (f"{printable(c)} {n}" for c, n in statistics.classes.items())
    yield f"  boxes: {', '.join(counts)}"
    yield (
        f"  boxes of a sample: {statistics.mean:.4g} on average, at most {statistics.most}; "
        f"samples without boxes: {statistics.empty}"
    )
    least, median, largest = statistics.sides
    yield (f"  sides, as fractions of the image: {least:.2g} … {largest:.2g}, median {median:.2g}")


def lines(statistics: ColumnStatistics) -> Iterator[str]:
    """Describes one tensor, line by line."""
    yield _title(statistics)
    yield f"  range {statistics.least:.6g} … {statistics.most:.6g}, mean {statistics.mean:.6g}"
    if statistics.nan or statistics.infinite:
        yield f"  {statistics.nan} values are NaN, {statistics.infinite} infinite"
    if statistics.classes:
        yield "  classes: " + ", ".join(
            f"{printable(c)} {n}" for c, n in statistics.classes.items()
        )
        missing = [printable(c) for c, n in statistics.classes.items() if not n]
        if missing:
            yield f"  classes without samples: {', '.join(missing)}"
    elif len(statistics.constant):
        constant = len(statistics.constant)
        positions = ", ".join(str(k) for k in statistics.constant[:SHOWN])
        ending = ", …" if constant > SHOWN else ""
        yield f"  {constant} of {statistics.spec.size} values never change: {positions}{ending}"
