"""Models with a new head, made by `odt replace-head`, and their expected outputs."""

from pathlib import Path

import numpy as np
from click.testing import CliRunner, Result
from model_builder import ModelBuilder

from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.core.model.model import Model


def run(model: Path, output: Path, *options: object) -> Result:
    words = ["replace-head", model, "--classes", 4, "--output", output, *options]
    return CliRunner().invoke(main, [str(w) for w in words])


def made(model: Path, output: Path, *options: object) -> Model:
    result = run(model, output, *options)
    assert result.exit_code == 0, result.output
    return read_model(str(output))


def head(model: Model) -> tuple[np.ndarray, np.ndarray]:
    named = {t.name: t.data for t in model.graph.tensors}
    w, b = named["head/weights"], named["head/bias"]
    assert w is not None
    assert b is not None
    return w, b


def expected(features: np.ndarray, model: Model) -> np.ndarray:
    """Computes probabilities from the features of one sample, with the new layer's weights."""
    w, b = head(model)
    e = np.exp(features.reshape(1, -1).astype(float) @ w.T + b)
    return np.asarray(e / e.sum())


def classifier() -> tuple[ModelBuilder, int, int]:
    """Returns a builder: inputs (1, 6, 5, 3), features (1, 6, 5, 8) of a convolution with PRELU."""
    model = ModelBuilder("tflite", seed=1)
    x = model.add_input((1, 6, 5, 3), signature=(-1, 6, 5, 3))
    w = model.add_weight((8, 1, 1, 3), 3, "conv")
    b = model.add_constant(np.zeros(8, np.float32), "conv bias")
    y = model.add_operator("CONV_2D", (x, w, b), (1, 6, 5, 8), stride_w=1, stride_h=1)
    slope = model.add_constant(np.full((1, 1, 8), 0.1, np.float32), "slope")
    y = model.add_operator("PRELU", (y, slope), (1, 6, 5, 8))
    model.graph.tensors[y].shape_signature = [-1, 6, 5, 8]
    return model, x, y
