"""Kinds of files that are neither models nor samples, by their first bytes, with advice.

A raw data file has no header, so any file could be mistaken for one. Random bytes begin like one of
these formats with a probability below 1 in a million, and 32-bit numbers are not text.
"""

import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from odt.core.formats.protobuf import BYTES, ProtobufError, Span, read_fields
from odt.core.storage.reading import listed, open_input
from odt.dataclass import dataclass

TEXT_BYTES = 256  # that are read as text
LEAST_TEXT = 8  # characters; fewer are no table
MAX_MEMBERS = 200  # of a zip archive that are read
MAX_FIELDS = 200  # of a protocol buffer that are read
MAX_VERSION = 100  # above the version of a model in protocol buffers
MAX_NAME = 99  # characters of a name or operator that are read
# Numbers of fields: the graph and the last one of an ONNX model, and Core ML's kinds of models.
ONNX_GRAPH, ONNX_LAST, CORE_ML_FIRST = 7, 40, 200
# First bytes of formats of arrays.
HDF5, NPY, ZIP = b"\x89HDF\r\n\x1a\n", b"\x93NUMPY", b"PK\x03\x04"
MODEL_BYTES = 1 << 16  # in which Keras' attribute of an HDF5 file is, or an array in C source
# Records of a zip archive: signatures, and bytes without names and comments.
ZIP_END, ZIP_ENTRY = b"PK\x05\x06", b"PK\x01\x02"
ZIP_END_BYTES, ZIP_ENTRY_BYTES, ZIP_LOCAL_BYTES = 22, 46, 30
MAX_ZIP_COMMENT = 65535  # bytes


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file that is neither a model nor samples.

    Attributes:
        name: name with an article, for messages.
        model: advice on how to get a model; {path} stands for the file, {name} for its name alone.
        data: advice on how to get samples; likewise.
    """

    name: str
    model: str = "Give a .tflite, .circle or .onnx file."
    data: str = "Give raw values, .npy, .npz or HDF5."

    def instead_of_model(self, path: str) -> str:
        """Returns the end of a message about a file that is no model: its kind and advice."""
        advice = self.model.replace("{name}", os.path.basename(path))
        return f"{self.name}. {advice.replace('{path}', path)}"

    def instead_of_data(self, path: str) -> str:
        """Returns the end of a message about a file that holds no samples."""
        return f"{self.name}. {self.data.replace('{path}', path)}"


def _pointer(name: str, advice: str) -> FileKind:
    """Returns the kind of a file that stands for another, which has the same advice for both."""
    return FileKind(name, advice, advice)


_FROM_KERAS = (
    "Convert it with TensorFlow: tf.lite.TFLiteConverter.from_keras_model("
    'tf.keras.models.load_model("{path}")).convert().'
)
_FROM_SAVED = (
    'Convert it with TensorFlow: tf.lite.TFLiteConverter.from_saved_model("{path}").convert().'
)
_FROM_GGUF = "Convert it, if it is a language model: odt convert {path} model.circle."
_FROM_TORCH = (
    "Convert its module with PyTorch: pip install tico; "
    'tico.convert(module.eval(), example_inputs).save("model.circle").'
)
_CONVERTED = "Convert the model from which it was made."
_GET_FILE = "It stands for the file: {command} in its repository gets the file."
_UNPACK = "Unpack it first."
_DATA = "It holds data: give it as samples, beside a model."
_CONVERT = "Convert it to data files: odt gen-datafile `source={path}`."
_FOLDER = (
    "Put such files into one folder per class, and convert them: odt gen-datafile `source=FOLDER`."
)
_C_ARRAY = (
    'Give its .tflite file, or restore it in its folder: python3 -c "import re; open('
    "'model.tflite', 'wb').write(bytes.fromhex(''.join(re.findall(r'0x(\\w\\w)\\b', "
    "open('{name}').read()))))\"."
)

_PICTURE, _SOUND = FileKind("an image", _DATA, _FOLDER), FileKind("a sound", _DATA, _FOLDER)
_MODEL = FileKind("a model", data="See its tensors with: odt inspect {path}.")
_EXECUTORCH = FileKind("an ExecuTorch program", _CONVERTED)
_NUMPY = FileKind("a NumPy file", _DATA)
_TEXT = FileKind("a text file", data=_CONVERT)
_NO_MODEL = "It holds weights or data. If they are weights, convert their model from its framework."
_WEIGHTS = "It holds weights without operators. Convert the model from its framework."
_SIGNATURES = (  # offset, bytes, kind
    (4, b"TFL3", _MODEL),
    (4, b"CIR0", _MODEL),
    (4, b"ET12", _EXECUTORCH),
    (8, b"eh00", _EXECUTORCH),
    (
        4,
        b"ORTM",
        FileKind("an ONNX Runtime file", "Give the .onnx file from which it was made."),
    ),
    (0, b"\xff\xd8\xff", _PICTURE),
    (0, b"\x89PNG\r\n\x1a\n", _PICTURE),
    (0, b"GIF8", _PICTURE),
    (8, b"WEBP", _PICTURE),
    (0, b"II*\0", _PICTURE),
    (0, b"MM\0*", _PICTURE),
    (4, b"ftypheic", _PICTURE),
    (4, b"ftypmif1", _PICTURE),
    (4, b"ftypavif", _PICTURE),
    (8, b"WAVEfmt", _SOUND),
    (0, b"fLaC", _SOUND),
    (0, b"OggS", _SOUND),
    (0, b"ID3", _SOUND),
    (4, b"ftypM4A", _SOUND),
    (4, b"ftyp", FileKind("a video", _DATA)),
    (0, b"\x1aE\xdf\xa3", FileKind("a video", _DATA)),
    (0, b"\x1f\x8b\x08", FileKind("a gzip archive", _UNPACK, _CONVERT)),
    (257, b"ustar", FileKind("a tar archive", _UNPACK, _CONVERT)),
    (0, b"BZh", FileKind("a bzip2 archive", _UNPACK, _CONVERT)),
    (0, b"\xfd7zXZ\0", FileKind("an xz archive", _UNPACK, _CONVERT)),
    (0, b"\x28\xb5\x2f\xfd", FileKind("a Zstandard archive", _UNPACK, _UNPACK)),
    (0, b"Rar!\x1a\x07", FileKind("a RAR archive", _UNPACK, _UNPACK)),
    (0, b"7z\xbc\xaf\x27\x1c", FileKind("a 7-Zip archive", _UNPACK, _UNPACK)),
    (0, b"odt ckpt", FileKind("a checkpoint", "Give the model, and the file by `checkpoint=`.")),
    (0, b"%PDF-", FileKind("a PDF document")),
    (
        0,
        b"PAR1",
        FileKind("a Parquet file", _DATA, "Export it as CSV, and convert that to data files."),
    ),
    (0, b"GGUF", FileKind("a GGUF file", _FROM_GGUF)),
    (0, b"\x7fELF", FileKind("a program or library")),
    (0, b"MZ\x90\0", FileKind("a program or library")),
    (0, NPY, _NUMPY),
    (0, HDF5, FileKind("an HDF5 file", _NO_MODEL)),
    (0, b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20", FileKind("a PyTorch file", _FROM_TORCH)),
    (0, ZIP, FileKind("a zip archive", _UNPACK, _CONVERT)),
    (0, ZIP_END, FileKind("an empty zip archive")),
)
_BINARY_PICKLES = tuple(b"\x80%c" % version for version in range(2, 6))
_PICKLE = FileKind(
    "a Python pickle", "odt reads no pickles, which run code. Convert the model from its framework."
)
_WEB_PAGE = _pointer("a web page", "Download the file itself, not the page that shows it.")
# Beginnings of texts without white space, in lower case.
_TEXTS = (
    (
        "version https://git-lfs.github.com/",
        _pointer("a pointer of Git LFS", _GET_FILE.format(command="git lfs pull")),
    ),
    (
        "/annex/objects/",
        _pointer("a pointer of git-annex", _GET_FILE.format(command="git annex get")),
    ),
    *((start, _WEB_PAGE) for start in ("<!doctype html", "<html", "<head", "<body")),
)
_C_WORDS = ("unsigned char ", "uint8_t ", "#include", "#ifndef", "#pragma once", "alignas(")
_ZIP_MARKS = (  # names of members, kind
    ({"model.weights.h5", "config.json"}, FileKind("a Keras model", _FROM_KERAS)),
    ({"archive_format"}, FileKind("a PyTorch program of torch.export", _FROM_TORCH)),
    (
        {"serialized_exported_program.json"},
        FileKind("a PyTorch program of torch.export", _FROM_TORCH),
    ),
    ({"data.pkl"}, FileKind("a PyTorch file", _FROM_TORCH)),
    ({"saved_model.pb"}, FileKind("an archive of a TensorFlow SavedModel", _UNPACK)),
)
_TFJS = FileKind("a TensorFlow.js model", _CONVERTED)
START = max(TEXT_BYTES, *(offset + len(magic) for offset, magic, _ in _SIGNATURES))


def file_kind(start: bytes, itemsize: int) -> FileKind | None:
    """Returns the kind of a file that holds no samples; None if it may hold raw values.

    Args:
        start: the first START bytes of the file, or all of a shorter file.
        itemsize: bytes of a raw value. Single bytes, such as gray pixels, can look like text.
    """
    for offset, magic, kind in _SIGNATURES:
        if start.startswith(magic, offset):
            return kind
    text = _text(start[:TEXT_BYTES])
    if text is None:
        return None
    return _text_kind(text) or (_TEXT if itemsize > 1 else None)


def stand_in(path: str | os.PathLike[str]) -> FileKind | None:
    """Returns the kind of a file that stands for another, such as a pointer of Git LFS; or None."""
    with open_input(path) as file:
        text = _text(file.read(TEXT_BYTES))
    return None if text is None else _kind_by_start(text)


def other_kind(data: memoryview) -> FileKind | None:
    """Returns the kind of a whole file; None if it is unknown.

    Args:
        data: all bytes of the file.
    """
    start = bytes(data[: max(START, MODEL_BYTES)])
    if start.startswith(ZIP):
        return zip_kind(_members(data))
    if start.startswith(HDF5) and b"model_config" in start:
        return FileKind("a Keras model in HDF5", _FROM_KERAS)
    if start[8:10] in (b'{"', b"{ ") and struct.unpack("<Q", start[:8])[0] <= len(data):
        return FileKind("a safetensors file", _WEIGHTS)
    if start.startswith(_BINARY_PICKLES) and file_kind(start[:START], 4) is None:
        return _PICKLE
    text = _text(start)
    return (text and _text_kind(text)) or file_kind(start[:START], 4) or _protocol_buffer(data)


def folder_kind(path: str) -> FileKind | None:
    """Returns the kind of a folder that is no nnpackage; None if it is unknown."""
    try:
        names = sorted(os.listdir(path))
    except OSError:
        return None
    if {"saved_model.pb", "saved_model.pbtxt"} & set(names):
        return FileKind("a TensorFlow SavedModel", _FROM_SAVED)
    if "Manifest.json" in names and "Data" in names:
        return FileKind("a Core ML package", _CONVERTED)
    models = [name for name in names if name.endswith((".tflite", ".circle", ".onnx"))]
    if models:
        return FileKind(f"a folder with {listed(models)}", "Give one file.")
    others = [name for name in names if name.endswith((".safetensors", ".gguf"))]
    return FileKind(f"a folder with {listed(others)}", _CONVERTED) if others else None


def _text(start: bytes) -> str | None:
    """Returns printable text, of which the last character may be incomplete; None for others."""
    for cut in range(4):
        try:
            text = start[: len(start) - cut].decode("utf-8-sig")
        except UnicodeDecodeError:
            continue
        printable = all(c.isprintable() or c in "\t\r\n" for c in text)
        return text if len(text) >= LEAST_TEXT and printable else None
    return None


def _text_kind(text: str) -> FileKind | None:
    """Returns the kind of a text that is no table; None if it may be one."""
    if (kind := _kind_by_start(text)) is not None:
        return kind
    text = text.strip().lower()
    if any(word in text for word in _C_WORDS):
        return FileKind("C source", _C_ARRAY)
    if text.startswith("{") and '"modeltopology"' in text.replace(" ", ""):
        return _TFJS
    return None


def _kind_by_start(text: str) -> FileKind | None:
    text = text.strip().lower()
    return next((kind for start, kind in _TEXTS if text.startswith(start)), None)


def zip_kind(names: Sequence[str]) -> FileKind:
    """Returns the kind of a zip archive from the names of its members."""
    files = {os.path.basename(name) for name in names}
    for marks, kind in _ZIP_MARKS:
        if marks <= files:
            return kind
    if names and all(name.endswith(".npy") for name in names):
        return _NUMPY
    models = [name for name in names if name.endswith((".tflite", ".circle"))]
    shown = listed(models or names[:MAX_MEMBERS])
    if models:
        name = f"a zip bundle, such as MediaPipe's .task, with {shown}"
        return FileKind(name, "Unpack it, and give one of these.", _UNPACK)
    return FileKind(f"a zip archive with {shown}" if names else "a zip archive", _UNPACK, _CONVERT)


def _members(data: memoryview) -> list[str]:
    """Returns the first names in a zip archive, which may be damaged."""
    names: list[str] = []
    end = bytes(data[-(ZIP_END_BYTES + MAX_ZIP_COMMENT) :])
    at = end.rfind(ZIP_END)
    if 0 <= at <= len(end) - ZIP_END_BYTES:
        (position,) = struct.unpack_from("<I", end, at + 16)  # of the first entry
        while len(names) < MAX_MEMBERS:
            entry = bytes(data[position : position + ZIP_ENTRY_BYTES])
            if not entry.startswith(ZIP_ENTRY) or len(entry) < ZIP_ENTRY_BYTES:
                break
            length, extra, comment = struct.unpack_from("<3H", entry, 28)
            position += ZIP_ENTRY_BYTES
            names.append(bytes(data[position : position + length]).decode(errors="replace"))
            position += length + extra + comment
    if not names and len(data) >= ZIP_LOCAL_BYTES:  # a large or truncated archive: the first member
        (length,) = struct.unpack_from("<H", data, 26)
        name = data[ZIP_LOCAL_BYTES : ZIP_LOCAL_BYTES + length]
        names.append(bytes(name).decode(errors="replace"))
    return names


def _protocol_buffer(data: memoryview) -> FileKind | None:
    """Returns the kind of a file in protocol buffers: ONNX, Core ML or TensorFlow."""
    fields = list(_fields(data))
    numbers = {number for number, _ in fields}
    if not fields:
        return None
    first, value = fields[0]
    if first == 1 and isinstance(value, int) and 0 < value < MAX_VERSION:
        graph = dict(fields).get(ONNX_GRAPH)
        if isinstance(graph, memoryview) and max(numbers) <= ONNX_LAST:
            return FileKind("an ONNX file")
        if max(numbers) >= CORE_ML_FIRST:
            return FileKind("a Core ML model", _CONVERTED)
        if numbers == {1, 2} and value == 1:
            return FileKind(
                "a saved_model.pb",
                "Give the folder of the SavedModel to TensorFlow's "
                "converter: tf.lite.TFLiteConverter.from_saved_model(FOLDER).convert().",
            )
    if first == 1 and isinstance(value, memoryview):  # a GraphDef: name and operator of a node
        node = dict(_fields(value))
        texts = [node.get(k) for k in (1, 2)]
        if all(isinstance(t, memoryview) and bytes(t[:MAX_NAME]).isascii() and t for t in texts):
            return FileKind(
                "a TensorFlow graph",
                'Convert it: tf.compat.v1.lite.TFLiteConverter.from_frozen_graph("{path}", inputs, '
                "outputs).convert().",
            )
    return None


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yields number and value of the first fields of a message; nothing from the first error on."""
    with suppress(ProtobufError):
        for number, wire, value in islice(read_fields(data, Span(0, len(data))), MAX_FIELDS):
            if isinstance(value, int):
                yield number, value
            elif wire == BYTES:
                yield number, data[value.offset : value.end]
            else:
                yield number, 0  # floats, which no rule reads
