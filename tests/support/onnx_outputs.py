"""Computes the outputs of ONNX files with odt."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from odt.core.data.array_columns import array_columns
from odt.core.data.dataset import DataSet
from odt.core.formats.reader import read_model
from odt.core.recipe.interface import with_input_values
from odt.core.recipe.lowered_model import lower_model
from odt.core.training.inference import Predictor
from support.onnx_files import OnnxFile

Array = np.ndarray[Any, Any]


def compute(
    file: OnnxFile, folder: Path, *arrays: Array, values: Mapping[str, Any] | None = None
) -> list[Array]:
    """Returns the outputs for samples along axis 0 of the arrays, in one batch.

    Args:
        file: the model, whose inputs have an open first axis.
        folder: where the file is written.
        arrays: one for each input.
        values: values of inputs that are constants.
    """
    model = with_input_values(read_model(file.write(folder / "m.onnx")), values or {})
    samples = len(arrays[0])
    with Predictor(lower_model(model, outputs="file").graphs, samples) as predictor:
        runtime = predictor.runtime
        columns = array_columns([*arrays], runtime.input_specs, "input", runtime.quantizations)
        (batch,) = predictor.run(DataSet(columns), range(samples))
        return [np.array(y) for y in batch]
