"""Checks of what comes from another machine: nothing is applied before it has passed them."""

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from odt.arguments import checked_arguments
from odt.errors import DataError
from odt.federated.update import Array, Tensors, Update

MAX_SAMPLES = 2**53  # whole numbers up to here are exact as floats
MAX_METRIC = 1e300  # sums of fewer than 10⁸ such numbers are finite
REFUSED = "It is refused."


@checked_arguments
def check_tensors(
    tensors: Any, expected: Mapping[str, Array], where: str, remedy: str = REFUSED
) -> None:
    """Checks names, shapes, dtypes and values of tensors.

    Args:
        tensors: the tensors to check, of any type.
        expected: tensors with the right names, shapes and dtypes.
        where: first words of the message, such as "client 3".
        remedy: last sentence of the message.

    Raises:
        DataError: for the first rule that is broken.
    """
    if not isinstance(tensors, Mapping):
        kind = type(tensors).__name__
        raise DataError(f"{where}: tensors must be a mapping, but got {kind}. {remedy}")
    for name in expected:
        if name not in tensors:
            raise DataError(f"{where}: must have the tensor {name}, but it is missing. {remedy}")
    for name in tensors:
        if name not in expected:
            raise DataError(f"{where}: must have no tensor {name!s}, but got it. {remedy}")
    for name, right in expected.items():
        check_array(tensors[name], right.shape, right.dtype, f"{where}: {name}", remedy)


def check_array(
    a: Any, shape: tuple[int, ...], dtype: Any, where: str, remedy: str = REFUSED
) -> None:
    """Checks that an object is an array of a shape and dtype with finite values.

    Args:
        a: the object to check.
        shape: right shape.
        dtype: right dtype.
        where: first words of the message.
        remedy: last sentence of the message.

    Raises:
        DataError: for the first rule that is broken.
    """
    if not isinstance(a, np.ndarray):
        raise DataError(f"{where}: must be an array, but got {type(a).__name__}. {remedy}")
    if a.shape != shape or a.dtype != dtype:
        raise DataError(
            f"{where}: must be {shape} {np.dtype(dtype)}, but got {a.shape} {a.dtype}. {remedy}"
        )
    finite = np.isfinite(a)
    if not finite.all():
        value = a[~finite].flat[0]
        raise DataError(f"{where}: values must be finite, but got {value}. {remedy}")


@checked_arguments
def check_update(
    update: Update, expected: Tensors, bound: float | None = None, client: str = "client"
) -> None:
    """Checks an update before it is used.

    Args:
        update: an update from a client.
        expected: the tensors that the client was sent.
        bound: largest L2 norm of the difference of all tensors to `expected`; None for no limit.
        client: name of the client, for the message.

    Raises:
        DataError: if names, shapes or dtypes differ from `expected`, a value is not finite, the
            number of samples is not a whole number above 0, a metric is not a finite number,
            or the norm is above the bound.
    """
    check_tensors(update.tensors, expected, client)
    check_counts(update.samples, update.metrics, client)
    if bound is None:
        return
    norm = distance(update.tensors, expected)
    if not norm <= bound:
        raise DataError(
            f"{client}: the norm of the update must be at most {bound:g}, but got {norm:g}. "
            f"{REFUSED}"
        )


def check_counts(samples: Any, metrics: Any, client: str) -> None:
    """Checks the number of samples and the metrics of an update.

    Args:
        samples: number of samples.
        metrics: name → number.
        client: name of the client, for the message.

    Raises:
        DataError: for the first rule that is broken.
    """
    is_whole = isinstance(samples, int) and not isinstance(samples, bool)
    if not is_whole or not 0 < samples <= MAX_SAMPLES:
        raise DataError(
            f"{client}: samples must be a whole number above 0, at most 2⁵³, but got "
            f"{samples!r}. {REFUSED}"
        )
    if not isinstance(metrics, Mapping):
        kind = type(metrics).__name__
        raise DataError(f"{client}: metrics must be a mapping, but got {kind}. {REFUSED}")
    for name, value in metrics.items():
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        # MAX_METRIC would overflow in a comparison with a float32, so compare Python's numbers.
        number = value.item() if isinstance(value, np.generic) else value
        if not (isinstance(name, str) and is_number and -MAX_METRIC <= number <= MAX_METRIC):
            raise DataError(
                f"{client}: metrics must be finite numbers by name, but {name!s} is {value!r}. "
                f"{REFUSED}"
            )


def distance(tensors: Tensors, reference: Tensors) -> float:
    """Returns the L2 norm of the difference of all tensors together, computed in float64.

    Args:
        tensors: tensors by name.
        reference: tensors of the same names and shapes.
    """
    squares = 0.0
    for name, a in tensors.items():
        difference = np.subtract(a, reference[name], dtype=np.float64)
        squares += float(np.vdot(difference, difference))
    return math.sqrt(squares)
