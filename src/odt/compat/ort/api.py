"""The training phase: the names of onnxruntime.training.api."""

from odt.compat.ort.checkpoint_state import CheckpointState
from odt.compat.ort.lr_scheduler import LinearLRScheduler
from odt.compat.ort.module import Module
from odt.compat.ort.optimizer import Optimizer

__all__ = ["CheckpointState", "LinearLRScheduler", "Module", "Optimizer"]
