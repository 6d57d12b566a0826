"""Predictions as HTML: the preprocessed input, and the outputs as bars."""

import base64
from collections.abc import Sequence
from html import escape

import numpy as np

from odt.datasets.boxes.drawing import detected_boxes, name_of
from odt.kernels.rows.opdef import Array
from odt.live.new_samples import Prediction, Predictions, TableRow
from odt.runs.box_sections import described, photo_with
from odt.runs.page import table
from odt.runs.sample_pictures import png, upright

MAX_BARS = 10  # classes of a sample
MAX_COLUMNS = 200  # numbers of a row


def results(predictions: Predictions) -> str:
    """Returns the predictions for a file."""
    shown = predictions.samples
    notes = [*predictions.notes, f"Model: {predictions.model}."]
    if predictions.count > len(shown):
        notes.append(f"The first {len(shown)} of {predictions.count} samples are shown.")
    if len(shown) > 1 and shown[0].row:
        body = f"<h4>{escape(predictions.name)}</h4>{_rows(shown)}"
    else:
        body = "".join(map(_result, shown))
    return body + "".join(f'<p class="pale">{escape(note)}</p>' for note in notes)


def _result(sample: Prediction) -> str:
    """Returns one sample with its input, and its bars or boxes."""
    if sample.detections is not None:
        pair = [_picture(sample), _boxes(sample, sample.detections)]
    elif sample.row:
        pair = [_bars(sample), _numbers(sample.row, sample.values)]
    else:
        pair = [_picture(sample), _bars(sample)]
    heading = f"<h4>{escape(sample.label)}</h4>"
    return f'<article class="result">{heading}<div class="pair">{"".join(pair)}</div></article>'


def _order(sample: Prediction) -> Array:
    """Returns the positions of the outputs in the order in which they are shown."""
    if sample.names and not sample.are_classes:
        return np.arange(sample.outputs.size)[:MAX_BARS]
    return np.argsort(-sample.outputs, kind="stable")[:MAX_BARS]


def _texts(sample: Prediction) -> list[tuple[str, str, float]]:
    """Returns name, text and value of each output that is shown."""
    names = sample.names or [f"output {k}" for k in range(sample.outputs.size)]
    form = ".4f" if sample.are_classes and sample.names else ".6g"
    return [
        (str(names[k]), f"{sample.outputs[k]:{form}}", float(sample.outputs[k]))
        for k in _order(sample).tolist()
    ]


def _bars(sample: Prediction) -> str:
    """Returns the outputs as a table, with bars if they may be probabilities."""
    outputs = sample.outputs
    has_bars = sample.are_classes and outputs.size > 1
    has_bars = has_bars and bool(np.all((outputs >= 0) & (outputs <= 1)))
    rows = []
    for name, text, value in _texts(sample):
        bar = f'<td><span class="bar" style="--part:{value:.4f}"></span></td>' if has_bars else ""
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{bar}<td>{escape(text)}</td></tr>')
    head = "probability" if has_bars else "output"
    return f'<table class="bars" aria-label="{head}">{"".join(rows)}</table>'


def _boxes(sample: Prediction, detections: Array) -> str:
    """Returns the classes and scores of detections as a table."""
    rows = [(name_of(int(k), sample.names), f"{score:.4f}") for k, score, *_ in detections.tolist()]
    return table(("class", "score"), rows) if rows else "<p>No boxes.</p>"


def _picture(sample: Prediction) -> str:
    """Returns the model's input as a picture, with the boxes that a detector finds."""
    pixels = upright(sample.values, sample.shape, sample.kind)
    kind = "sound" if sample.kind == "sound" else ""
    shape = " × ".join(map(str, sample.shape))
    if sample.detections is not None:
        kind = "photos"
        boxes = [*detected_boxes(sample.detections, sample.names)]
        picture = photo_with(pixels, boxes, f"model input; detected: {described(boxes)}")
    else:
        image = base64.b64encode(png(pixels)).decode()
        picture = f'<img alt="model input" src="data:image/png;base64,{image}">'
    return (
        f'<figure class="sample {kind} input">{picture}'
        f"<figcaption>model input, {shape}</figcaption></figure>"
    )


def _numbers(row: TableRow, values: Array) -> str:
    """Returns a row before and after preprocessing."""
    names = row.names[:MAX_COLUMNS]
    cells = [
        (name, f"{number:.6g}", f"{value:.6g}")
        for name, number, value in zip(names, row.numbers, values, strict=False)  # the first ones
    ]
    return f'<div class="wide">{table(("column", "given", "model input"), cells)}</div>'


def _rows(samples: Sequence[Prediction]) -> str:
    """Returns the rows of a table: outputs, and the columns."""
    first = samples[0]
    columns = first.row.columns.heads[:MAX_COLUMNS] if first.row else []
    if first.names and not first.are_classes:
        heads = [*first.names]
        cells = [[text for _, text, _ in _texts(sample)] for sample in samples]
    else:
        heads = ["prediction", "output"]
        cells = [list(_texts(sample)[0][:2]) for sample in samples]
    rows = []
    for sample, outputs in zip(samples, cells, strict=True):
        inputs = sample.row.columns.cells(sample.row.numbers) if sample.row else []
        rows.append((sample.label, *outputs, *inputs[: len(columns)]))
    return f'<div class="wide">{table(("sample", *heads, *columns), rows)}</div>'
