"""Checkpoints in onert's format: weights, Adam's moments, step.

The format is little-endian and packed:

    u16 magic 429, u8 schema 1, u8 reserved
    u32 offset of the first moments, u32 of the second (0 if none), u32 of the footer
    u32 number of tensors, their offsets, their bytes
    likewise the moments, one after the other; tensors that do not train have none
    u32 step, u32 epoch

Tensors have no names; `onert_order` determines their order.
"""

import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from odt.core.checkpoints.onert_order import checkpoint_order
from odt.core.formats.file_kinds import other_kind
from odt.core.model.graph import Graph, first_of_buffer
from odt.core.runtime.arena import overwrite
from odt.core.runtime.parameters import Parameters
from odt.core.storage.mapped_files import mapped_files
from odt.core.storage.reading import listed
from odt.errors import ModelError
from odt.kernels.rows.opdef import Array

MAGIC, SCHEMA = 429, 1
HEADER = struct.Struct("<HBBIIII")
FOOTER = struct.Struct("<II")
LARGEST = 2**32 - 1  # sizes and steps have 32 bits
MOMENTS = ("m", "v")


def encode(graph: Graph, parameters: Parameters) -> Iterator[bytes | memoryview]:
    """Encodes a checkpoint, piece by piece.

    Args:
        graph: graph as in the file.
        parameters: trained weights; the other constants come from the graph.

    Raises:
        ModelError: if the format cannot hold the optimizer's state or the sizes.
        LostFileError: if the model's file became shorter.
    """
    _check_state(graph, parameters)
    slots = tuple(parameters.slots)
    order = checkpoint_order(graph)
    sections = [[_weight(graph, parameters, i) for i in order]]
    none = np.empty(0, np.float32)  # of a tensor that does not train
    sections += [[parameters.slots[s].get(i, none) for i in order] for s in slots]
    starts = [HEADER.size]
    for arrays in sections:
        starts.append(starts[-1] + 4 * len(order) + sum(a.nbytes for a in arrays))
    if starts[-1] > LARGEST:
        raise ModelError(
            f"checkpoint: onert's format holds at most {LARGEST} bytes, but got {starts[-1]}"
        )
    first = starts[1]
    second = starts[2] if slots else 0
    yield HEADER.pack(MAGIC, SCHEMA, 0, first, second, starts[-1], len(order))
    # The first section's table follows the header, whose last field is its length.
    for start, arrays in zip(starts[:-1], sections, strict=True):
        at = start + 4 * len(order)
        for a in arrays:
            yield struct.pack("<I", at)
            at += a.nbytes
        for a in arrays:
            yield np.ascontiguousarray(a).reshape(-1).view(np.uint8).data
    yield FOOTER.pack(parameters.step, 0)
    for file in mapped_files(tensor.data for tensor in graph.tensors):
        file.check()  # constants that do not train are read from it


def _check_state(graph: Graph, parameters: Parameters) -> None:
    """Raises ModelError for a state of training that the format cannot hold."""
    slots = tuple(parameters.slots)
    if parameters.average.arrays:
        slots += ("ema",)
    if parameters.ranges.ends:
        slots += ("ranges of activations",)
    if slots not in ((), MOMENTS):
        raise ModelError(
            "checkpoint: onert's format holds the state of sgd or adam, but got "
            f"{', '.join(slots)}. Give a name that ends in .odt."
        )
    if parameters.step > LARGEST:
        raise ModelError(
            f"checkpoint: onert's format holds at most {LARGEST} steps, but got {parameters.step}"
        )
    parts = [i for i, a in parameters.trained.items() if a.shape != parameters.tensors[i].shape]
    if parts:
        raise ModelError(
            "checkpoint: onert's format holds the state of whole tensors, but only some channels "
            f"of {graph.label(parts[0])} train. Give a name that ends in .odt."
        )


def decode(data: bytes, where: str, graph: Graph, parameters: Parameters) -> None:
    """Restores parameters from a checkpoint; nothing changes unless the whole checkpoint matches.

    The order of the tensors may differ from that of this build of onert if their sizes identify
    them.

    Args:
        data: bytes of the checkpoint.
        where: the checkpoint's name in messages.
        graph: graph as in the model's file.
        parameters: parameters to restore.

    Raises:
        ModelError: if the checkpoint is damaged or belongs to another model.
    """
    first, second, footer, count = _header(data, where)
    order = checkpoint_order(graph)
    adam = second != 0
    slots = tuple(parameters.slots)
    if (slots == MOMENTS) != adam or slots not in ((), MOMENTS):
        raise ModelError(
            f"{where}: the optimizer must be the one in training, {_optimizer(parameters)}, "
            f"but got the state of {'adam' if adam else 'sgd'}"
        )
    _check_count(where, count, len(order))
    weights = _section(data, where, HEADER.size, first, count)
    order = _identify(where, graph, order, [len(w) for w in weights])
    sections = [("", weights)]
    if adam:
        sections.append(("m", _section(data, where, first, second, count)))
        sections.append(("v", _section(data, where, second, footer, count)))
    updates: list[tuple[Array, bytes]] = []  # made when all sections have been checked
    sharing = _trained_as_first(graph, parameters, order, sections[-1][1]) if adam else {}
    for slot, blobs in sections:
        values = dict(zip(order, blobs, strict=True))
        for i in order:
            blob = values[sharing.get(i, i)]
            if i not in parameters.tensors:
                if not slot and blob != _weight(graph, parameters, i).tobytes():
                    raise ModelError(
                        f"{where}: {graph.label(i)}: must have the model's values, because it "
                        "does not train now, but it has been trained. Select all weights that "
                        "were trainable, or export a model from the checkpoint and train that "
                        "model."
                    )
                continue
            target = parameters.slots[slot][i] if slot else parameters.tensors[i]
            if len(blob) != target.nbytes:
                raise ModelError(
                    f"{where}: {slot or 'weights'} of {graph.label(i)}: must have {target.nbytes} "
                    f"bytes, but got {len(blob)}. It was written with fewer trainable operators."
                )
            updates.append((target, blob))
    for target, blob in updates:
        overwrite(target, np.frombuffer(blob, target.dtype))
    parameters.step = FOOTER.unpack_from(data, footer)[0]


def _trained_as_first(
    graph: Graph, parameters: Parameters, order: Sequence[int], moments: Sequence[bytes]
) -> dict[int, int]:
    """Maps each tensor without moments to the first tensor with moments that shares its buffer.

    Earlier versions of odt trained tensors of one buffer as one weight, with the state of the
    first.
    """
    first = first_of_buffer(graph)
    trained = {i for i, m in zip(order, moments, strict=True) if m}
    return {
        i: first[i]
        for i in parameters.tensors
        if i not in trained and first.get(i) in trained.intersection(parameters.tensors)
    }


def with_weights(data: bytes, where: str, graph: Graph) -> Graph:
    """Replaces all constants of a graph, even those that do not train, with a checkpoint's weights.

    Raises:
        ModelError: if the checkpoint is damaged or belongs to another model.
    """
    first, _, _, count = _header(data, where)
    order = checkpoint_order(graph)
    _check_count(where, count, len(order))
    weights = _section(data, where, HEADER.size, first, count)
    tensors = list(graph.tensors)
    order = _identify(where, graph, order, [len(w) for w in weights])
    for i, blob in zip(order, weights, strict=True):
        spec, old = tensors[i].spec, tensors[i].real
        if old is not None and blob != old.tobytes():
            tensors[i] = replace(
                tensors[i], data=np.frombuffer(blob, spec.dtype).reshape(spec.shape)
            )
    return replace(graph, tensors=tuple(tensors))


def _check_count(where: str, count: int, expected_count: int) -> None:
    """Raises ModelError if a checkpoint has another number of tensors than the model."""
    if count != expected_count:
        raise ModelError(
            f"{where}: must hold the model's {expected_count} constants, but got {count} tensors"
        )


def contents(data: bytes, where: str) -> tuple[int, dict[str, list[int]]]:
    """Returns the step, and the tensor sizes of each section: weights, and Adam's m and v.

    Raises:
        ModelError: if the checkpoint is damaged.
    """
    first, second, footer, count = _header(data, where)
    starts = {"weight": HEADER.size} | ({"m": first, "v": second} if second else {})
    stops = [first, second, footer]
    sizes = {
        name: [len(blob) for blob in _section(data, where, start, stop, count)]
        for (name, start), stop in zip(starts.items(), stops, strict=False)  # sgd: weights alone
    }
    return FOOTER.unpack_from(data, footer)[0], sizes


def _weight(graph: Graph, parameters: Parameters, i: int) -> Array:
    """Returns a weight as it is now: trained, or that of the model's file."""
    data = parameters.tensors.get(i, graph.tensors[i].real)
    assert data is not None
    return data


def _optimizer(parameters: Parameters) -> str:
    return parameters.optimizer.rule.name if parameters.optimizer else "none"


def _header(data: bytes, where: str) -> tuple[int, int, int, int]:
    """Reads and checks the offsets of the sections and the number of tensors."""
    size = len(data)
    if (kind := other_kind(memoryview(data))) is not None:
        raise ModelError(f"{where}: must be a checkpoint of odt or onert, but is {kind.name}.")
    least = HEADER.size + FOOTER.size
    if size < least:
        raise ModelError(f"{where}: must have {least} bytes or more, but got {size}")
    magic, schema, _, first, second, footer, count = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise ModelError(
            f"{where}: must be a checkpoint of odt or onert, but is none: the magic number must be "
            f"{MAGIC}, but got {magic}."
        )
    if schema != SCHEMA:
        raise ModelError(f"{where}: the schema must be {SCHEMA}, but got {schema}")
    if footer != size - FOOTER.size:
        raise ModelError(
            f"{where}: the footer must begin at {size - FOOTER.size}, the last "
            f"{FOOTER.size} bytes, but got {footer}. The file is damaged or truncated."
        )
    table = 4 * count
    if second:
        ends, least_sizes = [HEADER.size, first, second, footer], [table, table, table]
    else:
        ends, least_sizes = [HEADER.size, first, footer], [table, 0]
    for (start, stop), least_size in zip(pairwise(ends), least_sizes, strict=True):
        if stop - start < least_size:
            raise ModelError(
                f"{where}: sections must be in order and hold {count} offsets each, "
                f"but got offsets {ends}. The file is damaged or truncated."
            )
    if not second and first != footer:
        raise ModelError(
            f"{where}: a file without second moments must have no first moments, but got offset "
            f"{first}"
        )
    return first, second, footer, count


def _section(data: bytes, where: str, start: int, stop: int, count: int) -> list[bytes]:
    """Returns the bytes of each tensor of a section, by the table at its start."""
    offsets = [*struct.unpack_from(f"<{count}I", data, start), stop]
    low = start + 4 * count
    if any(a > b for a, b in pairwise([low, *offsets])):
        raise ModelError(
            f"{where}: offsets of the section at {start} must rise from {low} to {stop}, "
            f"but got [{listed(offsets[:-1])}]. The file is damaged or truncated."
        )
    return [data[a:b] for a, b in pairwise(offsets)]


def _identify(where: str, graph: Graph, order: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Returns the tensor of each blob."""
    expected = [_nbytes(graph, i) for i in order]
    if list(sizes) == expected:
        return list(order)
    by_size: Mapping[int, set[int]] = {
        n: {i for i in order if _nbytes(graph, i) == n} for n in set(expected)
    }
    if Counter(sizes) == Counter(expected) and all(len(s) == 1 for s in by_size.values()):
        return [next(iter(by_size[n])) for n in sizes]
    raise ModelError(
        f"{where}: its tensors must be the model's, of [{listed(expected, 60)}] bytes in this "
        f"order (or in another, if all sizes differ), but got [{listed(sizes, 60)}]"
    )


def _nbytes(graph: Graph, i: int) -> int:
    return graph.tensors[i].spec.nbytes
