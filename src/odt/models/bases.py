"""Trained networks of the package odt-models, which are given by name."""

import importlib
import importlib.util
import os

from odt.dataclass import dataclass
from odt.errors import MissingPackageError

PACKAGE = "odt_models"
BASES = ("mobilenet", "keywords")


@dataclass(frozen=True, slots=True)
class Base:
    """A trained network whose last layer is to be replaced.

    Attributes:
        path: path of its file.
        after: operator whose output a new last layer reads; None to choose it.
    """

    path: str
    after: int | None = None


def find_base(model: str) -> Base:
    """Returns a network by its name in odt-models, or by its path.

    Raises:
        MissingPackageError: if it is in odt-models, which is not installed.
    """
    if model not in BASES or os.path.exists(model):
        return Base(model)
    if importlib.util.find_spec(PACKAGE) is None:
        raise MissingPackageError(
            f"{model}: is in the package odt-models, which is not installed. Install it (pip "
            "install 'odt[models]'; in a checkout: pip install ./models), or give a model file."
        )
    network = importlib.import_module(PACKAGE).BASES[model]
    return Base(network.path, network.after)
