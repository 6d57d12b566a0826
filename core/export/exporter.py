"""Exports trained models: patches new weights into the original bytes and keeps all others."""

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from odt.core.export.float_weights import removed_operators, with_float_weights
from odt.core.export.format_edit import format_edit
from odt.core.export.int4_filters import with_int4_filters
from odt.core.export.own_activations import (
    needs_own_activations,
    new_positions,
    renumber,
    with_own_activations,
)
from odt.core.export.read_back import (
    AT_ONCE,
    ExportContents,
    PageReader,
    bits_of,
    have_same_bits,
    stored_entry,
)
from odt.core.export.record_metadata import record_entries
from odt.core.export.shared_weights import (
    SharedWeights,
    has_other_subgraphs,
    readers_of,
    shared_weights,
    signatures_of,
)
from odt.core.export.version_patches import version_patches
from odt.core.formats.flatbuffer.appended_zip import offset_patches, shift_archive
from odt.core.formats.flatbuffer.flatbuffer import IDENTIFIERS, FlatBuffer
from odt.core.formats.flatbuffer.flatbuffer_edit import (
    NewBuffer,
    Patch,
    patched,
)
from odt.core.formats.flatbuffer.metadata_edit import Edit, edit_metadata
from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.formats.flatbuffer.slots import ModelSlot, SubGraphSlot, TensorSlot
from odt.core.formats.flatbuffer.training_info_buffer import encode_training_info
from odt.core.integers.real_graph import real_graph
from odt.core.integers.stored_values import stored_values
from odt.core.lowering.normalize.inline import inline
from odt.core.lowering.streaming.unroll import one_step
from odt.core.model.graph import Tensor
from odt.core.model.model import ONNX, Model
from odt.core.model.packed_integers import int2_filters
from odt.core.model.quantization_rules import is_same_quantization
from odt.core.model.record import Record
from odt.core.model.training_info import METADATA_NAME, TrainingInfo
from odt.core.storage.atomic_files import write_atomically
from odt.errors import OptionError, UnsupportedError, warn
from odt.kernels.geometry.quantize import Quantization
from odt.kernels.rows.opdef import Array

MAX_NAMED = 4  # constants in a message


def export_model(
    model: Model,
    weights: Mapping[int, Array],
    path: str | os.PathLike[str],
    file_format: str | None = None,
    info: TrainingInfo | None = None,
    *,
    float_weights: bool = False,
    record: Record | None = None,
    quantizations: Mapping[int, Quantization] | None = None,
    merged: Collection[int] = (),
) -> None:
    """Writes a model with new weights atomically. The file may replace the model's.

    Args:
        model: the model.
        weights: tensor index in the graph of `real_graph` → new values in float32, even for
            weights stored as float16 or int8, which get new scales, or sparse, and the numbers of
            ranges that moved. If tensors that share a buffer get different values, each gets a
            separate buffer.
        path: the file to write.
        file_format: circle or tflite; None for the model's format.
        info: training info to store in a circle+; None keeps the training info of the model.
        float_weights: whether to store float16, integer and sparse weights as float32; activations
            of integers become float32 too.
        record: preprocessing record to store; None leaves metadata as it is.
        quantizations: tensor index → new scales and zero points, with weights that are integers as
            the file stores them.
        merged: weights into which adapters are merged: a float export does not round them as
            training rounds weights of few bits.

    Raises:
        ModelError: if the format cannot hold the model, the file cannot be written, or the file
            that was read back differs.
        UnsupportedError: if the model cannot be converted, or odt cannot store its weights so.
        OptionError: if a circle+ cannot store the training info.
        LostFileError: if the model's file became shorter.
    """
    check_format(model, file_format, float_weights=float_weights, info=info)
    if model.format == ONNX:
        _export_onnx(model, weights, path, file_format or ONNX, record)
        return
    source = model
    source.check_file()
    model = inline(model)
    if not float_weights and (filters := int2_filters(model)):
        model = inline(with_int4_filters(model, filters))
    shared: list[SharedWeights] = []
    stored = weights
    scales = dict(quantizations or {})
    if not float_weights or has_other_subgraphs(model):
        stored, scales = _as_stored(model, weights, scales)
        shared = _shared(model, weights, stored, scales)
    if float_weights:
        model, weights, info = _in_float(model, weights, info, merged)
        scales = {}
    else:
        weights = stored
    file_format = file_format or ("circle" if info else model.format)
    assert info is None or file_format == "circle", (
        "must be circle, because training info is stored in circle files"
    )
    if needs_own_activations(model):
        model, weights, scales, info = _with_own_activations(model, weights, scales, info)
    name = os.fspath(path)
    contents = [ExportContents(name, model, weights, scales)]
    contents += _other_contents(name, model, shared)
    entries, archive = _entries(model, file_format, record, info)
    patches, new_buffers = _place_values(contents)
    for each in contents:
        patches += _quantization_patches(each.model, each.quantizations)
    patches += version_patches(model)
    edit = format_edit(model, file_format, new_buffers, entries)
    contents[0] = replace(contents[0], entries=entries)

    def check(file: str) -> None:
        for each in contents:
            each.check(file)

    write_atomically(path, _chunks(model, edit, patches, source, archive), check=check)


def _with_own_activations(
    model: Model,
    weights: Mapping[int, Array],
    quantizations: Mapping[int, Quantization],
    info: TrainingInfo | None,
) -> tuple[Model, dict[int, Array], dict[int, Quantization], TrainingInfo | None]:
    """Returns a model without fused TANHs; renumbers the others for its tensors and operators."""
    new, positions = with_own_activations(model)
    new = inline(new)
    if info is not None and info.trainable_ops is not None:
        info = replace(info, trainable_ops=new_positions(info.trainable_ops, positions))
    return new, renumber(model, new, weights), renumber(model, new, quantizations), info


def _entries(
    model: Model,
    file_format: str,
    record: Record | None,
    info: TrainingInfo | None,
) -> tuple[dict[str, bytes | None], bytes]:
    """Returns the new metadata entries, none if the file has all of them, and the archive."""
    entries: dict[str, bytes | None] = {}
    archive = b""
    if record is not None:
        recorded = record_entries(model, record, file_format)
        entries, archive = dict(recorded.entries), recorded.archive
    if info is not None:
        entries[METADATA_NAME] = encode_training_info(info, _operator_count(model))
    if all(stored_entry(model, name) == data for name, data in entries.items()):
        entries = {}
    return entries, archive


def _operator_count(model: Model) -> int:
    """Counts the operators of the graph in the file."""
    root = FlatBuffer(model.path, model.data).root()
    graph = list(root.tables(ModelSlot.SUBGRAPHS, "subgraph"))[model.subgraph]
    _, count = graph.vector(SubGraphSlot.OPERATORS, 4, "operators")
    return count


def _export_onnx(
    model: Model,
    weights: Mapping[int, Array],
    path: str | os.PathLike[str],
    file_format: str,
    record: Record | None,
) -> None:
    """Writes an ONNX model as such, or converted; a record is stored if the format can hold it."""
    if file_format == ONNX:
        from odt.core.export.onnx_file import export_onnx

        export_onnx(model, weights, path)
        return
    from odt.core.export.onnx_conversion import convert_onnx

    data = convert_onnx(model, weights, file_format)
    export_model(parse_model(memoryview(data), os.fspath(path)), {}, path, record=record)


def check_format(
    model: Model,
    file_format: str | None,
    *,
    float_weights: bool = False,
    info: TrainingInfo | None = None,
) -> None:
    """Checks that a model can be exported in a format; only ONNX models are written as ONNX.

    Args:
        model: the model.
        file_format, float_weights, info: as for `export_model`.

    Raises:
        OptionError: if it has no place for the training info, or no other type of weights.
        UnsupportedError: if it cannot be converted.
    """
    if file_format == ONNX != model.format:
        raise UnsupportedError(
            f"{model.path}: must be an ONNX model to be written as ONNX, but got {model.format}"
        )
    if model.format == ONNX and (float_weights or info is not None):
        field = "float_weights" if float_weights else "training_info"
        raise OptionError(field, f"must be left out for {model.path}, an ONNX model", True)


def check_conversion(model: Model, file_format: str) -> None:
    """Checks that a format can hold a model with weights in their types.

    Args:
        model: a model of TFLite's tables.
        file_format: circle or tflite.

    Raises:
        ModelError: if it cannot.
    """
    model = inline(model)
    if filters := int2_filters(model):
        model = inline(with_int4_filters(model, filters))
    format_edit(model, file_format)


def check_shared_ranges(model: Model, weights: Mapping[int, Array]) -> None:
    """Checks that ranges of activations do not move with weights that other signatures read.

    Args:
        model: the model.
        weights: as for `export_model`.

    Raises:
        UnsupportedError: if they do.
    """
    model = inline(model)
    if not has_other_subgraphs(model):
        return
    dequantized = real_graph(one_step(model))
    if not dequantized.ranges.keys().isdisjoint(weights):
        stored = {dequantized.stored.get(i, i) for i in weights.keys() - dequantized.ranges.keys()}
        if names := readers_of(model, stored):
            raise _moved_ranges_error(model, names)


def _moved_ranges_error(model: Model, names: Sequence[str]) -> UnsupportedError:
    return UnsupportedError(
        f"{model.path}: ranges of activations must stay if other signatures read the trained "
        f"weights, because their biases depend on these ranges, but got {', '.join(names)}. Leave "
        "`quant_ranges=` out."
    )


def _as_stored(
    model: Model, weights: Mapping[int, Array], quantizations: Mapping[int, Quantization]
) -> tuple[Mapping[int, Array], dict[int, Quantization]]:
    """Returns weights as the file stores them, and the quantizations of those of integers."""
    scales = dict(quantizations)
    if any(not _is_stored_as(model, i, a) for i, a in weights.items()):
        weights, new = stored_values(model, real_graph(one_step(model)), weights)
        scales |= new
    other_forms = dict(_with_sparse(model, weights, scales))
    return {**weights, **other_forms}, scales


def _shared(
    model: Model,
    weights: Mapping[int, Array],
    stored: Mapping[int, Array],
    quantizations: Mapping[int, Quantization],
) -> list[SharedWeights]:
    """Returns the new values in other subgraphs; warns of constants that may be changed weights.

    Args:
        model: the model.
        weights: new values in float32, and the numbers of ranges that moved.
        stored: new values as the file stores them.
        quantizations: their quantizations.

    Raises:
        UnsupportedError: if ranges moved, on which biases of other subgraphs depend.
    """
    new: dict[int, tuple[Array, Quantization | None]] = {}
    reader = PageReader(model)
    for i, values in stored.items():
        data = model.graph.tensors[i].data
        old = model.quantization.get(i)
        scales = quantizations.get(i, old)
        same = is_same_quantization(old, scales)
        if data is None or not same or not have_same_bits(data, values, reader):
            new[i] = values, scales
    shared = list(shared_weights(model, new)) if new else []
    for changes in shared:
        if changes.unknown:
            warn(
                f"{model.path}: signature {signatures_of(model, [changes.subgraph])[0]} keeps the "
                f"values of {', '.join(changes.unknown[:MAX_NAMED])}, because several weights that "
                "had these values now differ."
            )
    shared = [changes for changes in shared if changes.values]
    if shared and not real_graph(one_step(model)).ranges.keys().isdisjoint(weights):
        raise _moved_ranges_error(model, signatures_of(model, [s.subgraph for s in shared]))
    return shared


def _other_contents(
    path: str, model: Model, shared: Sequence[SharedWeights]
) -> Iterator[ExportContents]:
    """Yields the expected contents of other subgraphs, by tensor of these."""
    for weights in shared:
        other = inline(parse_model(model.data, model.path, subgraph=weights.subgraph))
        number = {other.place(i): i for i in range(len(other.graph.tensors))}
        values = {number[place]: values for place, (values, _) in weights.values.items()}
        scales = {number[place]: scales for place, (_, scales) in weights.values.items() if scales}
        yield ExportContents(path, other, values, scales)


def _with_sparse(
    model: Model, weights: Mapping[int, Array], quantizations: dict[int, Quantization]
) -> Iterator[tuple[int, Array]]:
    """Yields the sparse form of dense weights of integers, and the dense form of sparse ones.

    Both get the same entry in `quantizations`, which is changed.
    """
    for y, x in model.sparse.items():
        sparsity = model.sparsity[x]
        if y in weights:
            yield x, sparsity.stored(weights[y])
        elif x in weights:
            yield y, sparsity.dense(weights[x], model.graph.tensors[y].spec.shape)
        for i, j in ((x, y), (y, x)):
            if i in quantizations:
                quantizations[j] = quantizations[i]


def _is_stored_as(model: Model, i: int, a: Array) -> bool:
    """Whether the file stores a tensor in the type of its new values."""
    tensors = model.graph.tensors
    data = tensors[i].data if i < len(tensors) else None
    return data is not None and data.dtype == a.dtype


def _in_float(
    model: Model,
    weights: Mapping[int, Array],
    info: TrainingInfo | None,
    merged: Collection[int],
) -> tuple[Model, Mapping[int, Array], TrainingInfo | None]:
    """Returns the model with float32 weights; renumbers new weights and info for its operators."""
    dequantized = real_graph(model)
    if not dequantized.stored:
        return model, weights, info
    tensors = dequantized.graph.tensors
    real = {
        i: a if i in merged else _round(tensors[i], a)
        for i, a in weights.items()
        if i not in dequantized.ranges
    }
    stored = {i: dequantized.stored.get(i, i) for i in real}
    numbers = {model.sparse.get(stored[i], stored[i]): a for i, a in real.items()}
    if info is not None and info.trainable_ops is not None:
        removals = removed_operators(model, dequantized)
        operators_left = [k for k in info.trainable_ops if k not in removals]
        info = replace(
            info, trainable_ops=tuple(k - sum(g < k for g in removals) for k in operators_left)
        )
    new = inline(with_float_weights(model, dequantized))
    places = {place: i for i, place in new.places.items()}  # removed operators shift tensors
    weights = {places.get(model.place(i), i): a for i, a in numbers.items()}
    return new, weights, info


def _round(tensor: Tensor, weights: Array) -> Array:
    """Returns weights as training reads them: rounded, if they train with fake quantization."""
    if tensor.quantization is None:
        return weights
    rounded = np.empty_like(weights)
    tensor.quantization.fake_quantize(weights, rounded)
    return rounded


def add_training_info(model: Model, info: TrainingInfo, path: str | os.PathLike[str]) -> None:
    """Writes the model as a circle+ with new training info."""
    model.check_flatbuffer("training info")
    export_model(model, {}, path, "circle", info)


def remove_training_info(model: Model, path: str | os.PathLike[str]) -> None:
    """Writes the model without training info."""
    model.check_flatbuffer("training info")
    edit = edit_metadata(model, {METADATA_NAME: None}, IDENTIFIERS[model.format])
    expected = ExportContents(os.fspath(path), model)
    write_atomically(path, _chunks(model, edit, [], model), check=expected.check)


def _chunks(
    model: Model, edit: Edit, weights: list[Patch], source: Model, archive: bytes = b""
) -> Iterator[bytes | memoryview]:
    """Yields the bytes of the new file in pieces, and releases the pages that they take.

    Raises:
        LostFileError: if the model's file became shorter.
    """
    shift = len(edit.front) - edit.begin
    patches = [*edit.patches, *weights, *offset_patches(model.data, shift)]
    yield edit.front
    reader = PageReader(model)
    for chunk in patched(model.data, patches, edit.begin):
        for start in range(0, len(chunk), AT_ONCE):
            piece = chunk[start : start + AT_ONCE]
            yield piece
            reader.count(len(piece))
    yield shift_archive(archive, len(model.data) + shift)
    source.check_file()


def _place_values(written: Sequence[ExportContents]) -> tuple[list[Patch], list[NewBuffer]]:
    """Places new values in the bytes of the old ones, or in new buffers if those are shared."""
    patches: list[Patch] = []
    new_buffers: list[NewBuffer] = []
    together: dict[tuple[int, int], dict[tuple[int, int], Array]] = {}
    for contents in written:
        model = contents.model
        for i, new in contents.weights.items():
            if i not in model.sparse:
                span = model.spans[model.graph.tensors[i].buffer]
                together.setdefault(span, {})[model.place(i)] = new
    model = written[0].model
    readers = _readers(model)
    reader = PageReader(model)
    for (offset, size), tensors in together.items():
        different: list[tuple[Array, list[tuple[int, int]]]] = []  # values, and tensors with them
        for place, new in tensors.items():
            values = _bytes_of(new, size)
            places = next((p for v, p in different if have_same_bits(v, values)), None)
            if places is None:
                different.append((values, [place]))
            else:
                places.append(place)
        old = np.frombuffer(model.data[offset : offset + size], np.uint8)
        changed = [(v, p) for v, p in different if not have_same_bits(v, old, reader)]
        if len(changed) == len(different) and readers[offset, size] == len(tensors):
            values, _ = changed.pop(0)
            patches.append((offset, values.data))
        new_buffers += [NewBuffer(tuple(places), values.tobytes()) for values, places in changed]
    return patches, new_buffers


def _readers(model: Model) -> Counter[tuple[int, int]]:
    """Counts the tensors of all subgraphs, and metadata entries, that refer to each span."""
    counts = Counter(model.spans[buffer] for buffer in model.metadata.values())
    for graph in FlatBuffer(model.path, model.data).root().tables(ModelSlot.SUBGRAPHS, "subgraph"):
        for table in graph.tables(SubGraphSlot.TENSORS, "tensor", f"{graph.where}, "):
            buffer = table.number(TensorSlot.BUFFER, "I")
            if buffer < len(model.spans):  # only tensors of subgraph 0 have been checked
                counts[model.spans[buffer]] += 1
    return counts


def _bytes_of(values: Array, size: int) -> Array:
    """Returns values as bytes of the file."""
    assert values.nbytes == size, f"its buffer has {size} bytes, not {values.nbytes}"
    return bits_of(values.astype(values.dtype.newbyteorder("<"), copy=False))


def _quantization_patches(
    model: Model, quantizations: Mapping[int, Quantization]
) -> Iterator[Patch]:
    """Yields patches for scales, and for zero points that differ from those of the file.

    Raises:
        UnsupportedError: if the file has no place for a zero point other than 0.
    """
    for i, new in quantizations.items():
        old = model.quantization.get(i)
        if old is None:
            continue  # a bias without scales
        yield _place_of(model, old.scale), new.scale.data
        if not np.array_equal(old.zero_point, new.zero_point):
            place = _place_of(model, old.zero_point)
            if not 0 <= place < len(model.data):
                raise UnsupportedError(
                    f"{model.path}: {model.graph.label(i)}: there must be a zero point in the file "
                    "to store new weights, but got none. Give `float_weights=True`."
                )
            yield place, new.zero_point.astype("<i8").data


def _place_of(model: Model, values: Array) -> int:
    """Returns the offset in the file of an array that is a view of the file."""
    return values.ctypes.data - np.frombuffer(model.data, np.uint8).ctypes.data
