"""Runs ONNX models in onnxruntime and in odt on the same random inputs.

onnx and onnxruntime are judges that odt never needs: they are imported where they are used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from odt.core.data.array_columns import array_columns
from odt.core.data.dataset import DataSet
from odt.core.formats.reader import read_model
from odt.core.model.model import Model
from odt.core.recipe.inference_graphs import inference_graphs
from odt.core.recipe.interface import resized, with_input_values
from odt.core.recipe.lowered_model import LoweredModel, lower_model
from odt.core.training.inference import Predictor
from odt.errors import ModelError

Array = np.ndarray[Any, Any]
OPEN = 20  # length of an axis that the file leaves open


@dataclass(frozen=True)
class Comparison:
    """What odt makes of a model.

    Attributes:
        refused: kinds of nodes that odt does not compute, or the message if it cannot be read.
        difference: largest difference to the other results, relative to values above 1; infinite
            if a shape differs or nodes are refused.
    """

    refused: tuple[str, ...] = ()
    difference: float = float("inf")


def compare(
    path: Path, shapes: Mapping[str, Sequence[int]], values: Mapping[str, Any], seed: int
) -> Comparison:
    """Compares the outputs of a file with those of onnxruntime.

    Args:
        path: the file.
        shapes: input → its shape; "x" stands for the only one.
        values: input → its value, if it is a constant.
        seed: of the inputs.
    """
    import onnxruntime

    try:
        model = read_model(path)
    except ModelError as e:
        return Comparison((str(e).rpartition(": ")[2],))
    feeds = {}
    rng = np.random.default_rng(seed)
    tensors = [model.graph.tensors[i] for i in model.graph.inputs]
    for i, t in zip(model.graph.inputs, tensors, strict=True):
        signature = [(1 if k == 0 else OPEN) if n < 0 else n for k, n in enumerate(t.signature)]
        shape = tuple(
            shapes.get(t.name, shapes.get("x", signature) if len(tensors) == 1 else signature)
        )
        feeds[i] = draw(rng, t.name, shape, t.spec.dtype)
        if t.name in values:
            feeds[i] = np.full(shape, values[t.name], t.spec.dtype)
    changed = {i: a.shape for i, a in feeds.items() if a.shape != model.graph.tensors[i].spec.shape}
    fixed = with_input_values(resized(model, changed), values)
    lowered = lower_model(fixed, outputs="file")
    if kinds := refusals(lowered):
        return Comparison(kinds)
    onnxruntime.set_default_logger_severity(4)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = session.run(None, {model.graph.tensors[i].name: a for i, a in feeds.items()})
    return Comparison((), difference(outputs(fixed, lowered, feeds), wanted))


def draw(rng: np.random.Generator, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
    """Draws an input: normal floats, masks that are mostly set, small numbers else."""
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    if np.dtype(dtype).kind == "b":
        return rng.random(shape) < 0.8
    few = 2 if "mask" in name or "type" in name else 8
    return rng.integers(0, few, shape).astype(dtype)


def refusals(lowered: LoweredModel) -> tuple[str, ...]:
    nodes = lowered.graphs.unsupported
    return tuple(sorted({node.node.op.removeprefix("ONNX:").rpartition(".")[2] for node in nodes}))


def outputs(model: Model, lowered: LoweredModel, feeds: Mapping[int, Array]) -> list[Array]:
    """Computes a model's outputs; a file whose inputs have no common batch is one sample."""
    graphs = inference_graphs(lowered)
    arrays = [feeds[i] for i in model.graph.inputs]
    batch = graphs.file_batch
    if batch == 1:
        arrays = [a if a.shape[:1] == (1,) else a[None] for a in arrays]
    with Predictor(graphs, batch) as predictor:
        runtime = predictor.runtime
        columns = array_columns(arrays, runtime.input_specs, "input", runtime.quantizations)
        (results,) = predictor.run(DataSet(columns), range(batch))
        return [np.array(y) for y in results]


def difference(results: Sequence[Array], wanted: Sequence[Any]) -> float:
    """Returns the largest difference, relative to values above 1; infinite for other shapes."""
    worst = 0.0
    for y, w in zip(results, map(np.asarray, wanted), strict=True):
        if y.size != w.size:
            return float("inf")
        if not y.size:
            continue
        if w.dtype.kind != "f":
            worst = max(worst, 0.0 if np.array_equal(y.reshape(w.shape), w) else float("inf"))
            continue
        exact = w.astype(np.float64)
        with np.errstate(invalid="ignore"):
            off = np.abs(y.reshape(w.shape) - exact) / np.maximum(1, np.abs(exact))
        same = (y.reshape(w.shape) == exact) | (np.isnan(exact) & np.isnan(y.reshape(w.shape)))
        worst = max(worst, float(np.where(same, 0, np.nan_to_num(off, nan=np.inf)).max()))
    return worst
