"""Defaults of a client's training, which suit clients with different data."""

from typing import Any

from odt.models.model import Model, load_model
from odt.training.trainer import Trainer

OPTIMIZER, MOMENTUM, LEARNING_RATE = "sgd", 0.9, 0.05
BATCH_SIZE, CLIP_NORM = 8, 3.0


def new_trainer(model: Any, **options: Any) -> Trainer:
    """Returns a trainer with the defaults of federations: SGD, batch size 8, clipped gradients.

    SGD has momentum 0.9 and learning rate 0.05; gradients are clipped to norm 3. There is no moving
    average of the weights, because the server averages those of the last step. Adam makes steps
    of the same size for any gradient, so that clients with few classes, whose gradients soon are
    small, move as far as the others. Small batches make more steps between two averages.

    Args:
        model: a model or the path of its file. Training info in the file comes before the defaults.
        options: arguments of Trainer, which come before both.

    Raises:
        OdtError: as Trainer.
    """
    loaded = model if isinstance(model, Model) else load_model(model)
    settings = {"ema": 0} | {name: value for name, value in options.items() if value is not None}
    if loaded.training_info is None:
        settings.setdefault("batch_size", BATCH_SIZE)
        if "optimizer" not in settings:
            hyper_parameters = settings.get("hyper_parameters") or {}
            chosen_values = {name: v for name, v in hyper_parameters.items() if v is not None}
            settings |= {
                "optimizer": OPTIMIZER,
                "learning_rate": settings.get("learning_rate", LEARNING_RATE),
                "clip_norm": settings.get(
                    "clip_norm", None if "clip_value" in settings else CLIP_NORM
                ),
                "hyper_parameters": {"momentum": MOMENTUM, **chosen_values},
            }
    return Trainer(loaded, **settings)
