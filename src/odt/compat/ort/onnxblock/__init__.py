"""Losses, optimizers and blocks: the names of onnxruntime.training.onnxblock."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from odt.compat.ort.onnx_source import onnx_source
from odt.compat.ort.onnxblock import blocks, loss, optim
from odt.compat.ort.onnxblock.block import Block, ForwardBlock, TrainingBlock
from odt.compat.ort.onnxblock.recorder import Recorder, recording
from odt.core.checkpoints.ort_file import OrtCheckpoint, write_ort_checkpoint
from odt.core.formats.onnx.messages import TENSOR
from odt.core.formats.onnx.tensors import ExternalFiles, read_tensor
from odt.core.formats.protobuf import MessageReader, Span
from odt.errors import OptionError, UnsupportedError
from odt.training.weights import Array

__all__ = [
    "Block",
    "ForwardBlock",
    "TrainingBlock",
    "base",
    "blocks",
    "empty_base",
    "loss",
    "optim",
    "save_checkpoint",
]

REFUSED = ("custom_op_library", "load_checkpoint_to_model")


def __getattr__(name: str) -> Any:
    if name in REFUSED:
        raise UnsupportedError(
            f"onnxblock.{name}: odt has no such function. See odt docs onnxruntime."
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@contextmanager
def base(model: Any, model_path: str | os.PathLike[str] | None = None) -> Iterator[Recorder]:
    """Makes blocks add to a model during a `with` block.

    Args:
        model: an onnx.ModelProto, its bytes, or the path of an ONNX file. It is not changed.
        model_path: path of the model's file, if its weights are in a file beside it.

    Raises:
        ModelError: if the model cannot be read.
        OptionError: if it is not an ONNX model.
    """
    source = onnx_source(model if model_path is None else model_path)
    if source is None:
        raise OptionError("model", "must be an ONNX model", type(model).__name__)
    with recording(Recorder(source)) as recorder:
        yield recorder


@contextmanager
def empty_base(opset_version: int | None = None) -> Iterator[Recorder]:
    """Makes blocks add to an empty model during a `with` block.

    Args:
        opset_version: version of ONNX's operators; None for the default of odt.
    """
    with recording(Recorder(None, opset_version or optim.OPSET)) as recorder:
        yield recorder


def save_checkpoint(
    parameters: tuple[Iterable[Any], Iterable[Any]],
    path_to_checkpoint: str | os.PathLike[str],
    nominal_checkpoint: bool = False,
) -> None:
    """Writes a checkpoint.

    Args:
        parameters: those that train, and the frozen ones, as `TrainingBlock.parameters` gives them.
        path_to_checkpoint: path of the file.
        nominal_checkpoint: whether to write names only.

    Raises:
        ModelError: if the file cannot be written.
    """
    trained, frozen = (dict(map(_named, each)) for each in parameters)
    write_ort_checkpoint(
        OrtCheckpoint(trained, frozen, is_nominal=nominal_checkpoint), path_to_checkpoint
    )


def _named(parameter: Any) -> tuple[str, Array]:
    """Returns name and values of a TensorProto."""
    data = memoryview(parameter.SerializeToString())
    reader = MessageReader(data)
    message = reader.read(Span(0, len(data)), TENSOR)
    values = read_tensor(reader, message, ExternalFiles("")).values
    return message.get("name", ""), np.asarray(values)
