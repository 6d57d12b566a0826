"""Payloads: the arrays that travel between server and clients.

| kind | server → client | client → server |
| --- | --- | --- |
| float32 | tensors | tensors |
| float16 | tensors in float16 | difference to the received tensors in float16 |
| int8 | tensors in float16 | difference in int8, with a float32 scale for each tensor |

Differences are added to the exact tensors of the server, so that rounding on the way to a client
never stays in the model. int8: q = round(d / s), s = max|d| / 127, where d includes the residual,
which is what rounding left over in earlier rounds (error feedback). Source: Seide et al., 1-Bit
Stochastic Gradient Descent (2014); Karimireddy et al., Error Feedback Fixes SignSGD (2019).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.arguments import checked_arguments
from odt.core.options import federation_options
from odt.errors import DataError, OptionError
from odt.federated.checks import REFUSED, check_array, check_tensors
from odt.federated.update import Array, Tensors

PAYLOADS = federation_options.PAYLOADS
SCALES = "#scales"  # name of the array of scales in an int8 payload
LEVELS = 127  # of int8, without −128


@checked_arguments
def broadcast(tensors: Tensors, kind: str = "float32") -> Tensors:
    """Returns the payload that a server sends to clients.

    Args:
        tensors: tensors of the server.
        kind: one of PAYLOADS.

    Raises:
        OptionError: if there is no such kind.
        DataError: if a value is too large for float16.
    """
    if check_kind(kind) == "float32":
        return dict(tensors)
    with np.errstate(over="ignore"):
        halves = {name: a.astype(np.float16) for name, a in tensors.items()}
    for name, a in halves.items():
        check_array(a, a.shape, np.float16, f"{name} in float16", "Use the payload float32.")
    return halves


@checked_arguments
def received(payload: Mapping[str, Array], expected: Tensors, kind: str = "float32") -> Tensors:
    """Returns the tensors of a payload from the server, on the client.

    Args:
        payload: result of `broadcast` on the server.
        expected: tensors with the right names, shapes and dtypes.
        kind: one of PAYLOADS.

    Raises:
        OptionError: if there is no such kind.
        DataError: if the payload does not match `expected` or has a value that is not finite.
    """
    halves = check_kind(kind) != "float32"
    zeros = _zeros(expected, np.float16 if halves else None)
    check_tensors(payload, zeros, "server", "The model is unchanged.")
    return {n: payload[n].astype(a.dtype) for n, a in expected.items()}


@checked_arguments
def encode(
    tensors: Tensors, reference: Tensors, kind: str = "float32", residual: Tensors | None = None
) -> Tensors:
    """Returns the payload of a client's trained tensors.

    Args:
        tensors: trained tensors.
        reference: the tensors that training began with, as received.
        kind: one of PAYLOADS.
        residual: rest that rounding left over in earlier rounds, by name; empty at first, and
            changed in place. Only int8 uses it. None for no error feedback.

    Raises:
        OptionError: if there is no such kind.
        DataError: if a difference is not finite and the kind is int8.
    """
    if check_kind(kind) == "float32":
        return dict(tensors)
    if kind == "float16":
        with np.errstate(over="ignore"):  # the server refuses infinity
            differences = {n: np.asarray(a - reference[n]) for n, a in tensors.items()}
            return {n: d.astype(np.float16) for n, d in differences.items()}
    payload: Tensors = {}
    leftovers: Tensors = {}
    scales = np.zeros(len(tensors), np.float32)
    for k, (name, a) in enumerate(tensors.items()):
        d = np.asarray(a - reference[name])
        if residual is not None and name in residual:
            d = np.asarray(d + residual[name])
        scales[k] = np.abs(d).max(initial=0) / LEVELS
        if not np.isfinite(scales[k]):
            raise DataError(
                f"{name}: trained values must be finite, but got {d[~np.isfinite(d)][0]}."
            )
        scale = scales[k] or np.float32(1)
        q = np.asarray(np.clip(np.rint(d / scale), -LEVELS, LEVELS), np.int8)
        payload[name] = q
        leftovers[name] = np.asarray(d - q * scale)
    if residual is not None:
        residual.update(leftovers)
    return payload | {SCALES: scales}


@checked_arguments
def decode(
    payload: Mapping[str, Array],
    reference: Tensors,
    kind: str = "float32",
    client: str = "client",
) -> Tensors:
    """Returns the tensors of a client's payload, on the server.

    Args:
        payload: result of `encode` on the client.
        reference: the exact tensors of the server, to which differences are added.
        kind: one of PAYLOADS.
        client: name of the client, for messages.

    Raises:
        OptionError: if there is no such kind.
        DataError: if the payload does not match `reference` or has a value that is not finite.
    """
    if check_kind(kind) == "float32":
        check_tensors(payload, reference, client)
        return {name: payload[name] for name in reference}
    dtype = np.float16 if kind == "float16" else np.int8
    expected = _zeros(reference, dtype)
    if kind == "int8":
        expected[SCALES] = np.zeros(len(reference), np.float32)
    check_tensors(payload, expected, client)
    if kind == "float16":
        return {n: np.asarray(a + payload[n].astype(a.dtype)) for n, a in reference.items()}
    scales = payload[SCALES]
    if (scales < 0).any():
        raise DataError(
            f"{client}: scales must be at least 0, but got {scales[scales < 0][0]}. {REFUSED}"
        )
    with np.errstate(over="ignore"):  # check_update refuses infinity
        return {
            n: np.asarray(a + payload[n] * a.dtype.type(s))
            for (n, a), s in zip(reference.items(), scales, strict=True)
        }


def check_kind(kind: str) -> str:
    """Returns the kind of a payload.

    Args:
        kind: the kind to check.

    Raises:
        OptionError: if there is no such kind.
    """
    if kind not in PAYLOADS:
        raise OptionError("payload", f"must be one of {', '.join(PAYLOADS)}", kind)
    return kind


def nbytes_of(payload: Mapping[str, Array]) -> int:
    """Returns the bytes of the arrays of a payload, without names and framing.

    Args:
        payload: result of `broadcast` or `encode`.
    """
    return sum(a.nbytes for a in payload.values())


def _zeros(tensors: Tensors, dtype: Any = None) -> Tensors:
    """Returns zeros of these shapes, in one dtype or their own; broadcast, they take no memory."""
    return {n: np.broadcast_to(np.zeros((), dtype or a.dtype), a.shape) for n, a in tensors.items()}
