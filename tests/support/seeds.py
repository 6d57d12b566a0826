"""Files of models that are trained several times, from different random seeds."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odt
from odt.kernels.opdef import Array

SEEDS = (1, 2, 3)


def trained_files(
    path: Path, out: Path, train: tuple[Array, Array], epochs: int, **options: Any
) -> Iterator[Path]:
    """Trains a model with Adam once for each seed, and yields `out` with each trained model."""
    for seed in SEEDS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", odt.OdtWarning)
            trainer = odt.Trainer(path, optimizer="adam", workers=1, **options)
            trainer.fit(*train, epochs=epochs, seed=seed, shuffle=True)
        trainer.export(out)
        yield out
