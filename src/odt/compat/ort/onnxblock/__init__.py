"""Losses and optimizers with arguments: the names of onnxruntime.training.onnxblock."""

from typing import Any

from odt.compat.ort.onnxblock import loss, optim
from odt.errors import UnsupportedError

__all__ = ["loss", "optim"]

GRAPH = {"Block", "ForwardBlock", "TrainingBlock", "base", "blocks", "custom_op_library"}
GRAPH |= {"empty_base", "load_checkpoint_to_model", "save_checkpoint"}


def __getattr__(name: str) -> Any:
    if name in GRAPH:
        raise UnsupportedError(
            f"onnxblock.{name}: blocks must be those of onnxblock.loss and onnxblock.optim: odt "
            "builds no ONNX graphs. Give generate_artifacts a loss of odt, also your own: "
            '`loss="module:object"`.'
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
