"""What the tests know of every operator and loss: OP_DB, collected from the modules beside this.

A module is an operator or a loss, as in kernels/ops, kernels/custom and kernels/losses; its INFO is
an OpInfo.
tests/kernels/test_ops.py asks all its questions of each. What several of them need is in support/.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec

Draw: TypeAlias = Callable[[np.random.Generator, tuple[int, ...]], Array]
Options: TypeAlias = Mapping[str, Any]
Reference: TypeAlias = Callable[[Options, Mapping[str, Array]], Mapping[str, Array]]
BOOL, INT32, INT64 = np.dtype(bool), np.dtype(np.int32), np.dtype(np.int64)
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def away_from_zero(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Both signs, at least 0.1 from 0: no kink and no pole is met."""
    return rng.choice([-1.0, 1.0], shape) * rng.uniform(0.1, 1.5, shape)


def positive(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.uniform(0.2, 2.0, shape)


def distinct(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Values as far apart from each other as their number allows: no ties, also after a step."""
    count = int(np.prod(shape))
    return (rng.permutation(count).reshape(shape) + 0.5) * (3 / max(count, 1)) - 1.5


def between(low: float, high: float) -> Draw:
    return lambda rng, shape: rng.uniform(low, high, shape)


def integers(low: int, high: int, dtype: type = np.int32) -> Draw:
    return lambda rng, shape: rng.integers(low, high, shape).astype(dtype)


@dataclass(frozen=True)
class Sample:
    """One use of an operator.

    Attributes:
        label: what this one is for.
        inputs: shapes, to be drawn, or arrays; without the static inputs. Those in schema order
            that the row calls `xs*` are xs0, xs1, ….
        options: the schema's options, snake case.
        statics: values of the static inputs.
        constants: inputs that do not grow with the batch; axis 0 of all others is the batch.
        mixes: what the row must say: a sample's output depends on other samples.
        rebatches: whether the operator makes sense at another batch.
    """

    label: str
    inputs: Mapping[str, tuple[int, ...] | Array]
    options: Options = field(default_factory=dict)
    statics: Options = field(default_factory=dict)
    constants: tuple[str, ...] = ()
    mixes: bool = False
    rebatches: bool = True


@dataclass(frozen=True)
class Refusal:
    """What must be refused, and words that the message must hold.

    Attributes:
        inputs: shapes (float32) or specs.
    """

    words: str
    inputs: Mapping[str, tuple[int, ...] | TensorSpec]
    options: Options = field(default_factory=dict)
    statics: Options = field(default_factory=dict)


@dataclass(frozen=True)
class OpInfo:
    """What the tests know of an operator.

    Attributes:
        name: of the OpDef.
        reference: (options and statics, inputs) → outputs: the definition written as plainly as
            can be, in float64, from the published formula and never from the kernel.
        samples: small, and covering every branch: with and without b, SAME and VALID, ….
        large: a sample of 1 MiB or more: more than a tile, and where temporary arrays show.
        also_large: more of these.
        refusals: what must be refused.
        draw: how to draw an input: avoids kinks, poles and ties.
        draws: the same for single inputs, by name.
        loose: the factor by which float32 may be worse than a sum of a few terms.
        straight_through: the function whose derivative the gradients are; None for the reference.
    """

    name: str
    reference: Reference
    samples: tuple[Sample, ...]
    large: Sample
    refusals: tuple[Refusal, ...] = ()
    also_large: tuple[Sample, ...] = ()
    draw: Draw = away_from_zero
    draws: Mapping[str, Draw] = field(default_factory=dict)
    loose: float = 1.0
    straight_through: Reference | None = None


def _collect() -> dict[str, OpInfo]:
    found: dict[str, OpInfo] = {}
    for module in pkgutil.iter_modules(__path__):
        if not module.ispkg:
            info = importlib.import_module(f"op_db.{module.name}").INFO
            found[info.name] = info
    return found


OP_DB = _collect()
