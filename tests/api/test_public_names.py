"""`import odt` is fast and lazy: each public name is loaded when it is used first."""

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from write_loss_classes import CLASSES as LOSS_CLASSES
from write_loss_classes import classes
from write_optimizer_classes import MODULE, module
from write_stubs import stubs

import odt
from odt import federated, losses, optimizers
from odt.arguments import unwrapped


def test_importing_odt_loads_nothing_else() -> None:
    script = "import sys, odt; print([m for m in sys.modules if m.startswith(('odt.', 'numpy'))])"
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "[]\n"


@pytest.mark.parametrize("name", odt.PUBLIC)
def test_a_public_name_is_that_of_its_module(name: str) -> None:
    assert getattr(odt, name) is getattr(importlib.import_module(odt.PUBLIC[name]), name)
    assert name in dir(odt)


def test_public_functions_check_the_types_of_their_arguments() -> None:
    for package in (odt, federated):
        functions = [getattr(package, name) for name in package.PUBLIC]
        for function in filter(inspect.isfunction, functions):
            has_arguments = function.__annotations__.keys() - {"return", "options"}
            name = function.__qualname__
            assert not has_arguments or unwrapped(function) is not function, (
                f"{name}: decorate with checked_arguments"
            )


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="module 'odt' has no attribute 'trian'"):
        getattr(odt, "trian")  # noqa: B009 - type checkers know that it is not there


STUBS = stubs()


@pytest.mark.parametrize("path", STUBS, ids=lambda path: path.parent.name)
def test_type_checkers_see_the_names_of_the_tables(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == STUBS[path], "run: make pages"


@pytest.mark.parametrize("name", [*optimizers.__all__, *losses.__all__])
def test_optimizers_and_losses_are_public_names_too(name: str) -> None:
    assert getattr(odt, name) is getattr(optimizers if name in optimizers.__all__ else losses, name)
    assert name in dir(odt)


def test_optimizer_classes_are_those_of_the_rows() -> None:
    text = MODULE.read_text(encoding="utf-8")
    assert text == module(), "run: make pages"


def test_loss_classes_are_those_of_the_rows() -> None:
    assert LOSS_CLASSES.read_text(encoding="utf-8") == classes(), "run: make pages"
