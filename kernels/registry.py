"""Finds rows by name: the folders are the lists, and a row is loaded when it is asked for."""

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import cast

import odt.kernels.losses
import odt.kernels.ops
import odt.kernels.optimizers
from odt.kernels.opdef import OpDef, TensorSpec, UpdateRule


def _modules(path: list[str]) -> frozenset[str]:
    return frozenset(m.name for m in pkgutil.iter_modules(path))


@cache
def operator_names() -> tuple[str, ...]:
    """All operators that have a row, sorted."""
    return tuple(sorted(name.upper() for name in _modules(list(odt.kernels.ops.__path__))))


@cache
def loss_names() -> tuple[str, ...]:
    return tuple(sorted(_modules(list(odt.kernels.losses.__path__))))


@cache
def optimizer_names() -> tuple[str, ...]:
    return tuple(sorted(_modules(list(odt.kernels.optimizers.__path__))))


@cache
def find_operator(name: str) -> OpDef | None:
    """The row of a BuiltinOperator, or None where odt has none."""
    if name not in operator_names():
        return None
    return cast(OpDef, importlib.import_module(f"odt.kernels.ops.{name.lower()}").OP)


def find_loss(name: str) -> OpDef:
    return cast(OpDef, importlib.import_module(f"odt.kernels.losses.{name}").LOSS)


def find_target(name: str) -> Callable[[TensorSpec], TensorSpec]:
    """From the spec of an output to the spec of a loss's target for it."""
    module = importlib.import_module(f"odt.kernels.losses.{name}")
    return cast(Callable[[TensorSpec], TensorSpec], module.target)


def find_optimizer(name: str) -> UpdateRule:
    return cast(UpdateRule, importlib.import_module(f"odt.kernels.optimizers.{name}").RULE)
