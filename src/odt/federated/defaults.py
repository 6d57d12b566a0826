"""Defaults of a client's training, which suit clients with different data."""

from typing import Any

from odt.arguments import checked_arguments
from odt.core.options.training_options import TRAINING_OPTIONS
from odt.models.model import Model, Path, load_model
from odt.training.trainer import Trainer

DEFAULTS = {name: row.clients for name, row in TRAINING_OPTIONS.items() if row.clients is not None}
MOMENTUM = 0.9
SGD_ONLY = ("optimizer", "learning_rate", "clip_norm")  # defaults that suit no other optimizer


@checked_arguments
def new_trainer(model: Model | Path, **options: Any) -> Trainer:
    """Returns a trainer with the defaults of federations: SGD, batch size 8, clipped gradients.

    SGD has momentum 0.9 and learning rate 0.05; gradients are clipped to norm 3. Adam would make
    steps of the same size for any gradient, so that clients with few classes, whose gradients soon
    become small, would move as far as the others. Small batches make more steps between two
    averages. The weights have no moving average, because the server averages those of the last
    step.

    Args:
        model: a model or the path of its file. Training info in the file replaces the defaults.
        options: arguments of Trainer, which override both.

    Raises:
        OdtError: if the model cannot be read, or Trainer refuses an argument.
    """
    loaded = model if isinstance(model, Model) else load_model(model)
    settings = {name: value for name, value in options.items() if value is not None}
    if loaded.training_info is not None:
        return Trainer(loaded, **({"ema": DEFAULTS["ema"]} | settings))
    defaults = dict(DEFAULTS)
    if "optimizer" in settings:
        defaults = {name: value for name, value in DEFAULTS.items() if name not in SGD_ONLY}
    else:
        hyper_parameters = {"momentum": MOMENTUM}
        for name, value in (settings.get("hyper_parameters") or {}).items():
            if value is not None:
                hyper_parameters[name] = value
        settings["hyper_parameters"] = hyper_parameters
    if "clip_value" in settings:
        defaults.pop("clip_norm", None)
    return Trainer(loaded, **(defaults | settings))
