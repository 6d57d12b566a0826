"""Prints and draws the boxes that a detector finds in samples."""

from pathlib import Path

import click

import odt
from odt.cli.options.new_data import show_note
from odt.core.model.record import Record
from odt.evaluation.detected import BoxPictures, DetectionReader, SamplePictures
from odt.evaluation.prediction import ModelPredictor


def print_boxes(
    predictor: ModelPredictor,
    reader: DetectionReader,
    x: odt.NewData | str,
    record: Record | None,
    *,
    draw: Path | None,
    top: int | None,
) -> None:
    """Prints a line with the boxes of each sample, and draws them.

    Args:
        predictor: the model.
        reader: what makes boxes of its outputs.
        x: new data, or the path of a data file.
        record: preprocessing record of new data.
        draw: file or folder of the pictures; None for no pictures.
        top: largest number of boxes of a sample; None for all.
    """
    data, opened = predictor.open(x, show_note, full_size=True)
    label = opened.label if opened else str
    samples = SamplePictures(data, opened, record)
    pictures = None
    if draw:
        source = Path(x.source if isinstance(x, odt.NewData) else x)
        labels = [label(k) for k in range(data.length)]
        pictures = BoxPictures(draw, reader.names, labels, source)
    number = 0
    for outputs in predictor.run(data):
        for boxes in reader.rows(outputs):
            pixels, rows = samples.place(number, boxes[:top])
            click.echo(f"{label(number)}: {reader.line(rows, *pixels.shape[:2])}")
            if pictures:
                pictures.write(number, pixels, rows)
            number += 1
    if opened:
        opened.show_remarks(show_note)
