"""ONNX Runtime's on-device training: names, arguments and files of 1.19.2.

A script runs after its imports are changed. `odt docs onnxruntime` lists what is the same, what
differs, and what is refused.
"""

from odt.compat.ort import api, artifacts, onnxblock
from odt.compat.ort.api import CheckpointState, LinearLRScheduler, Module, Optimizer
from odt.compat.ort.ort_value import OrtValue

__all__ = [
    "CheckpointState",
    "LinearLRScheduler",
    "Module",
    "Optimizer",
    "OrtValue",
    "api",
    "artifacts",
    "onnxblock",
]

# Public names, as docs/api/onnxruntime.md lists them.
PUBLIC = (
    "artifacts.generate_artifacts",
    "artifacts.LossType",
    "artifacts.OptimType",
    "Module",
    "CheckpointState",
    "Optimizer",
    "LinearLRScheduler",
    "OrtValue",
    *(f"onnxblock.loss.{loss.__name__}" for loss in onnxblock.loss.LOSSES),
    "onnxblock.optim.AdamW",
    "onnxblock.optim.SGD",
    "onnxblock.optim.ClipGradNorm",
    "onnxblock.Block",
    "onnxblock.TrainingBlock",
    "onnxblock.ForwardBlock",
    "onnxblock.base",
    "onnxblock.empty_base",
    "onnxblock.save_checkpoint",
)
