"""Files of models that are trained several times, from different random seeds."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odt
from odt.kernels.rows.opdef import Array


def trained_files(
    path: Path, out: Path, train: tuple[Array, Array], epochs: int, seeds: int = 3, **options: Any
) -> Iterator[Path]:
    """Trains a model with Adam once for each seed from 1, and yields `out` with each trained model.

    Args:
        path: of the model.
        out: where to write the trained models.
        train: inputs, and targets.
        epochs: of each training.
        seeds: number of trainings.
        options: of odt.Trainer.
    """
    for seed in range(1, seeds + 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", odt.OdtWarning)
            trainer = odt.Trainer(path, optimizer="adam", workers=1, **options)
            trainer.fit(*train, epochs=epochs, seed=seed, shuffle=True)
        trainer.export(out)
        yield out
