"""A model as HTML: interface, table of operators and picture of the graph."""

import os

from odt.charts import graph_picture
from odt.charts.html import folded, image, paragraph, scrolled, side_by_side, table
from odt.charts.plot import Plot
from odt.core.model.training_info import TrainingInfo
from odt.core.recipe.inspection import Inspection
from odt.core.recipe.lowered_model import LoweredModel
from odt.errors import one_line
from odt.models.summary import inspect_selected, shape_and_dtype
from odt.text import size

MAX_OPEN = 12  # operators of a model whose picture is beside the table
MAX_DRAWN = 1000  # operators of a model with a picture
MAX_NAME = 48  # characters of a tensor's name


def plot(lowered: LoweredModel) -> Plot:
    """Returns the picture of the graph.

    Raises:
        OdtError: if the graph is too large.
    """
    inspection = inspect_selected(lowered)
    title = f"operators of {os.path.basename(lowered.file.path)}"
    return Plot(title, graph_picture.draw(lowered.file.graph, inspection))


def html(lowered: LoweredModel, training: TrainingInfo | None = None, about_run: str = "") -> str:
    """Returns what a notebook shows of the model.

    Args:
        lowered: the model.
        training: which operators and tensors train; None for all.
        about_run: how the model trains, as a line; empty for none.
    """
    model = lowered.file
    graph = model.graph
    inspection = selected = inspect_selected(lowered)
    if training is not None:
        selected = inspection.among(training.trainable_ops, training.trainable_tensors)
    trained = {i for tensors in selected.trained.values() for i in tensors}
    name = os.path.basename(model.path) or model.path
    count = len(graph.nodes)
    about = f"{model.format}, {size(len(model.data))}, {count} operators"
    if not inspection.refusal:
        about += f", {inspection.values(trained):,} trainable parameters"
    parts = [paragraph(f"{name}: {about}", bold=True)]
    if about_run:
        parts.append(paragraph(about_run))
    if inspection.refusal:
        parts.append(paragraph(f"cannot be trained: {inspection.refusal}"))
    ends = [("input", i) for i in graph.inputs] + [("output", i) for i in graph.outputs]
    rows = [("", "name", "shape")]
    for role, i in ends:
        label = one_line(graph.tensors[i].name, MAX_NAME) or f"tensor {i}"
        rows.append((role, label, shape_and_dtype(inspection.specs[i])))
    tables = table(rows) + scrolled(_operators(lowered, inspection, selected))
    if count <= MAX_OPEN:
        parts.append(side_by_side(tables, _picture(lowered, selected)))
    else:
        parts.append(tables)
        if count <= MAX_DRAWN:
            picture = scrolled(_picture(lowered, selected))
            parts.append(folded("image of the graph", picture))
    return f"<div>{''.join(parts)}</div>"


def _picture(lowered: LoweredModel, selected: Inspection) -> str:
    """Returns the image of the graph, in which operators that train are filled."""
    return image(graph_picture.draw(lowered.file.graph, selected), "graph of the operators")


def _operators(lowered: LoweredModel, inspection: Inspection, selected: Inspection) -> str:
    """Returns the table of the operators, in the order of the file.

    Args:
        lowered: the model.
        inspection: the weights that could train.
        selected: those that do.
    """
    rows = [("#", "operator", "output", "parameters", "trainable")]
    for node in lowered.file.graph.nodes:
        outputs = ", ".join(shape_and_dtype(inspection.specs[i]) for i in node.outputs)
        tensors = inspection.trained.get(node.origin, ())
        count = f"{inspection.values(tensors):,}" if tensors else ""
        trains = _trains(len(tensors), len(selected.trained.get(node.origin, ())))
        rows.append((str(node.origin), node.op, outputs, count, trains))
    return table(rows, right=(0, 3))


def _trains(trainable: int, training: int) -> str:
    """Returns whether an operator trains, by its numbers of trainable and of training tensors."""
    if not trainable:
        return ""
    if not training:
        return "no"
    return "yes" if training == trainable else "part"
