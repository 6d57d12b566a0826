"""Opens `.npy`, `.npz`, HDF5 and raw files as a source, memory-mapped."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from odt.core.data.array_files import map_arrays
from odt.core.formats.file_kinds import HDF5, NPY, START, ZIP
from odt.core.storage.mapped_files import MappedFile, mapped_files
from odt.core.storage.reading import listed, open_input, reading
from odt.dataclass import dataclass
from odt.datasets.source import ArrayPart, Kind, Part, Source, check_labels
from odt.errors import DataError
from odt.kernels.rows.opdef import Array

INPUTS = ("x", "inputs", "input", "data", "images", "image", "features")
TARGETS = ("y", "targets", "target", "labels", "label", "output")
MAGIC = {HDF5: "hdf5", NPY: "npy", ZIP: "npz"}  # first bytes → format
# Part of an array's name → part of the source.
PARTS = {
    "": "all",
    "train": "train",
    "test": "test",
    "validation": "validation",
    "val": "validation",
}
MAX_CLASSES = 100_000


@dataclass(frozen=True, slots=True)
class ArrayOptions:
    """Options for files of arrays.

    Attributes:
        x, y: names of the arrays with inputs and targets, separated by commas; in the file, the
            name of the part may stand before or after them, joined by _. Empty for usual names.
        classes: class names; empty to use numbers.
        regression: whether targets are values; None if targets that are not integers are values.
        shape, dtype: shape and dtype of a sample in a raw file.
        unlabelled: whether targets may be absent.
        format: format that the file must have, or raw; empty for any.
        inputs_only: whether targets are left out, if there are any.
    """

    x: str = ""
    y: str = ""
    classes: tuple[str, ...] = ()
    regression: bool | None = None
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    unlabelled: bool = False
    inputs_only: bool = False
    format: str = ""


def open_arrays(path: Path, options: ArrayOptions, targets_path: Path | None = None) -> Source:
    """Opens inputs and targets from one file, or from two.

    Raises:
        DataError: if the files do not hold these arrays.
    """
    arrays = _arrays(path, options)
    if targets_path is not None:
        x = _only(path, arrays)
        y = _only(targets_path, _arrays(targets_path, ArrayOptions(dtype=options.dtype)))
        return _source(path, {"all": ([x], [y])}, options)
    if len(arrays) == 1 and not options.unlabelled:
        raise DataError(
            f"{path}: must come with targets, but holds only one array. Give them with "
            "`target_source=`, or give `unlabelled=True`."
        )
    parts: dict[str, tuple[list[Array], list[Array]]] = {}
    for split, name in PARTS.items():
        inputs = _pick(path, arrays, options.x, INPUTS, split)
        if not inputs:
            continue
        targets = [] if options.inputs_only else _pick(path, arrays, options.y, TARGETS, split)
        if not targets and not (options.unlabelled or options.inputs_only):
            raise DataError(
                f"{path}: must have targets for {listed(inputs)}, but has "
                f"{listed(arrays)}. Name them with `y=`, or give `target_source=`."
            )
        parts[name] = ([arrays[n] for n in inputs], [arrays[n] for n in targets])
    if not parts and len(arrays) == 1 and not options.x:
        parts["all"] = ([*arrays.values()], [])
    if not parts:
        usual = "x" if options.unlabelled else "x and y, or x_train, y_train, …"
        rule = f"arrays called {options.x or usual}"
        raise DataError(
            f"{path}: must have {rule}, but has {listed(arrays)}. Name them with `x=` and `y=`."
        )
    if not all(targets for _, targets in parts.values()):
        return _inputs_alone(path, {name: inputs for name, (inputs, _) in parts.items()})
    return _source(path, parts, options)


def _inputs_alone(path: Path, inputs: Mapping[str, list[Array]]) -> Source:
    """Returns a source without targets: inputs by part."""
    for arrays in inputs.values():
        _check_lengths(path, arrays)
    parts: dict[str, Part] = {
        name: ArrayPart(arrays, [], has_classes=False, name=str(path))
        for name, arrays in inputs.items()
    }
    kind = _kind(next(iter(inputs.values())))
    files = mapped_files(a for arrays in inputs.values() for a in arrays)
    return Source(str(path), kind, parts, files=files)


def _check_lengths(path: Path, arrays: Sequence[Array]) -> None:
    """Raises DataError unless all arrays have the same number of samples, at least one."""
    lengths = {len(a) if a.shape else -1 for a in arrays}
    if len(lengths) != 1 or lengths == {-1}:
        raise DataError(
            f"{path}: inputs and targets must have the same length, but got "
            f"{listed([a.shape for a in arrays])}."
        )
    if lengths == {0}:
        raise DataError(f"{path}: must have samples, but has none.")


def _arrays(path: Path, options: ArrayOptions) -> Mapping[str, Array]:
    """Maps the arrays of a file by name; that of a raw file is "0"."""
    with open_input(path) as f, reading(str(path), "must be a readable file"):
        start = f.read(START)
    kind = next((name for magic, name in MAGIC.items() if start.startswith(magic)), "raw")
    if options.format not in ("", kind):
        raise DataError(
            f"{path}: must be a file of the format {options.format}, but is {kind}. Leave "
            "`format=` out."
        )
    if kind != "raw":
        return map_arrays(str(path))
    if not options.shape:
        raise DataError(
            f"{path}: the shape of raw bytes must be given. Give "
            '`shape="28x28x1"`, for example, and `source_dtype=`.'
        )
    dtype = np.dtype(options.dtype)
    nbytes = path.stat().st_size
    size = int(np.prod(options.shape))
    length, rest = divmod(nbytes, size * dtype.itemsize)
    if not length or rest:
        raise DataError(
            f"{path}: must be samples of {size} {options.dtype} {options.shape}, but has "
            f"{nbytes / dtype.itemsize:g} values."
        )
    with open_input(path) as f, reading(str(path), "must be a readable file"):
        return {"0": np.ndarray((length, *options.shape), dtype, MappedFile(f.fileno(), path))}


def _only(path: Path, arrays: Mapping[str, Array]) -> Array:
    """Returns the only array of a file; raises DataError if it holds others."""
    if len(arrays) != 1:
        raise DataError(f"{path}: must hold one array, but has {listed(arrays)}.")
    (array,) = arrays.values()
    return array


def _pick(
    path: Path, arrays: Mapping[str, Array], names: str, usual: Sequence[str], split: str
) -> list[str]:
    """Returns the names of the arrays with inputs or targets of a split.

    Args:
        path: the file, for messages.
        arrays: the arrays of the file.
        names: names that the user gives, separated by commas; empty for the first usual one.
        usual: usual names.
        split: name of the split before or after them; empty for none.

    Returns:
        Names in the spelling of the file; none if it has none of them.

    Raises:
        DataError: if the file has only some of the names that the user gives.
    """
    by_lower = {name.lower(): name for name in arrays}
    spellings = by_lower | {name: name for name in arrays}  # x and X may be two arrays
    bases = [name.strip() for name in names.split(",")] if names else usual
    for base in bases:
        for form in ("{}_" + split, split + "_{}") if split else ("{}",):
            if form.format(base).lower() not in by_lower:
                continue
            # All names of the user have the form of the first that the file has.
            texts = [form.format(name) for name in (bases if names else [base])]
            if lacking := [text for text in texts if text.lower() not in by_lower]:
                raise DataError(
                    f"{path}: must have the arrays {listed(texts)}, but lacks {listed(lacking)}: "
                    f"it has {listed(arrays)}."
                )
            return [spellings.get(text, by_lower[text.lower()]) for text in texts]
    return []


def _source(
    path: Path, parts: Mapping[str, tuple[list[Array], list[Array]]], options: ArrayOptions
) -> Source:
    """Returns the source of arrays: inputs and targets by part."""
    for x, y in parts.values():
        _check_lengths(path, (*x, *y))
    targets = [np.asarray(y[0]) for _, y in parts.values()]
    several = any(len(y) > 1 for _, y in parts.values())
    regression = options.regression
    if regression is None:
        regression = several or any(_are_values(t) for t in targets)
    classes: tuple[str, ...] = ()
    targets_of_parts = [y for _, y in parts.values()]
    if not regression:
        if several:
            raise DataError(f"{path}: classes must be in one array, but `y=` names several.")
        labels = [_labels(path, target) for target in targets]
        classes = options.classes or _classes(path, labels)
        for numbers in labels:
            check_labels(str(path), numbers, len(classes))
        targets_of_parts = [[numbers] for numbers in labels]
    parts_by_name: dict[str, Part] = {
        name: ArrayPart(x, y, bool(classes), str(path))
        for (name, (x, _)), y in zip(parts.items(), targets_of_parts, strict=True)
    }
    files = mapped_files(a for x, y in parts.values() for a in (*x, *y))
    return Source(
        str(path), _kind([x[0] for x, _ in parts.values()]), parts_by_name, classes, files=files
    )


def _are_values(target: Array) -> bool:
    """Whether targets are values, not class numbers: they are floats, or several per sample."""
    return target.dtype.kind not in "iub" or int(np.prod(target.shape[1:])) != 1


def _labels(path: Path, target: Array) -> Array:
    """Returns class numbers (N,); raises DataError for other targets."""
    if target.size != len(target):
        raise DataError(
            f"{path}: classes must be one number for each sample, but got {target.shape}."
        )
    if target.dtype.kind == "f":
        if not (target == np.rint(target)).all():
            raise DataError(f"{path}: classes must be whole numbers, but got {target.dtype}.")
        target = target.astype(np.int64)
    return target.reshape(-1)


def _classes(path: Path, targets: Sequence[Array]) -> tuple[str, ...]:
    """Returns the numbers of all classes as names.

    Raises:
        DataError: for a number below 0 or above MAX_CLASSES.
    """
    least = min(int(t.min()) for t in targets)
    most = max(int(t.max()) for t in targets)
    if least < 0 or most > MAX_CLASSES:
        raise DataError(
            f"{path}: class numbers must be 0 … {MAX_CLASSES}, but got {least} … {most}. "
            "Give `regression=True` if they are numbers to predict."
        )
    return tuple(str(k) for k in range(most + 1))


def _kind(inputs: Sequence[Any]) -> Kind:
    """Returns the kind of the inputs: unsigned bytes with two or three axes are images."""
    x = inputs[0]
    channels = x.ndim == 3 or (x.ndim == 4 and x.shape[3] in (1, 2, 3, 4))
    return "image" if x.dtype == np.uint8 and channels else "features"
