"""Streams of samples: Python functions, TensorFlow Datasets, Hugging Face datasets.

Samples are not stored; a second pass calls the function again, which must yield the same samples.
"""

import importlib
import inspect
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from odt.core.storage.reading import listed, printable, reason
from odt.datasets.source import EndOfSamplesError, Kind, Part, Sample, Source
from odt.errors import DataError, MissingPackageError
from odt.kernels.rows.opdef import Array

IMAGE_KEYS = ("image", "img", "images", "x", "input")
LABEL_KEYS = ("label", "labels", "fine_label", "y", "target")
END = object()  # no sample: the stream has ended


@contextmanager
def running(name: str, rule: str) -> Iterator[None]:
    """Runs user code in a `with` block and reports its exceptions.

    Raises:
        DataError: if the code raises an exception.
    """
    try:
        yield
    except DataError:
        raise
    except (Exception, SystemExit) as e:
        last = traceback.extract_tb(e.__traceback__)[-1]
        place = f"{os.path.basename(last.filename)}, line {last.lineno}"
        what = f"{type(e).__name__}: {reason(e).removeprefix(f'{type(e).__name__}: ')}"
        raise DataError(f"{name}: {rule}, but got: {what} ({printable(place)}).") from e


class StreamPart(Part):
    """Samples in the order in which a function yields them."""

    sequential = True

    def __init__(
        self, name: str, start: Callable[[], Iterable[Any]], length: int | None = None
    ) -> None:
        self.length = length
        self._name = name
        self._start = start
        self._next = 0
        self._samples: Iterator[Any] = iter(())
        self._lock = threading.Lock()

    def read(self, k: int) -> Sample:
        with self._lock, running(self._name, "must yield samples"):
            if k < self._next or self._next == 0:
                self._samples = iter(self._start())
                self._next = 0
            while self._next <= k:
                sample = next(self._samples, END)
                if sample is END:
                    break
                self._next += 1
            else:
                return as_sample(f"{self._name}: sample {k}", sample)
        raise EndOfSamplesError


def as_sample(where: str, sample: Any) -> Sample:
    """Converts (x, y) or {"image": x, "label": y} to a sample; x and y may be tuples of arrays.

    Raises:
        DataError: for anything else.
    """
    if isinstance(sample, Mapping):
        x = next((sample[k] for k in IMAGE_KEYS if k in sample), None)
        y = next((sample[k] for k in LABEL_KEYS if k in sample), None)
        if x is None or y is None:
            raise DataError(
                f"{where}: must have one of {', '.join(IMAGE_KEYS)} and one of "
                f"{', '.join(LABEL_KEYS)}, but has {listed(sample)}."
            )
    elif isinstance(sample, tuple | list) and len(sample) == 2:
        x, y = sample
    else:
        raise DataError(f"{where}: must be (x, y), but got {type(sample).__name__}.")
    return Sample(_arrays(where, x), _arrays(where, y))


def _arrays(where: str, value: Any) -> tuple[Array, ...]:
    values = value if isinstance(value, tuple) else (value,)
    arrays = tuple(np.array(v) for v in values)  # the function may reuse its array
    for a in arrays:
        if a.dtype.kind not in "biuf":
            raise DataError(f"{where}: must be numbers, but got {a.dtype}.")
    return arrays


def open_callable(text: str, classes: tuple[str, ...]) -> Source:
    """Opens the samples of `module:function`.

    A function without arguments yields all samples; a function with an argument gets the name of
    the part, train or test.

    Raises:
        DataError: if there is no such function.
    """
    module_name, _, function_name = text.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    with running(text, "must be a function in a module of the current folder"):
        function = getattr(importlib.import_module(module_name), function_name)
        if not callable(function):
            raise DataError(f"{text}: must be a function, but is {type(function).__name__}.")
        by_part = any(
            p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
            for p in inspect.signature(function).parameters.values()
        )
        classes = classes or tuple(map(str, getattr(function, "classes", ())))
    parts: dict[str, Part] = {"all": StreamPart(text, function)}
    if by_part:
        parts = {
            name: StreamPart(f"{text}({name})", partial(function, name))
            for name in ("train", "test", "validation")
        }
    return Source(text, kind=_kind(parts), parts=parts, classes=classes)


def _kind(parts: Mapping[str, Part]) -> Kind:
    """Returns the kind of the inputs: unsigned bytes with three axes are images."""
    try:
        x = next(iter(parts.values())).read(0).inputs[0]
    except EndOfSamplesError:
        return "features"
    return "image" if x.dtype == np.uint8 and x.ndim == 3 else "features"


def open_tfds(name: str, data_dir: str | None) -> Source:
    """Opens a data set of TensorFlow Datasets.

    Raises:
        DataError: if it has no such data set.
        MissingPackageError: if that package is not installed.
    """
    try:
        import tensorflow_datasets as tfds
    except ImportError as e:
        raise MissingPackageError(
            f"{name}: odt has no data set of this name, and TensorFlow Datasets, which may have "
            "it, is not installed. List odt's with `show_datasets=True`, give your own data with "
            "`source=`, or install it: pip install 'odt[tfds]'."
        ) from e
    try:
        builder = tfds.builder(name, data_dir=data_dir)
        builder.download_and_prepare()
    except Exception as e:
        raise DataError(f"{name}: TensorFlow Datasets says: {reason(e)}.") from e
    info = builder.info
    parts: dict[str, Part] = {
        split: StreamPart(
            f"{name} {split}",
            partial(_rows, tfds, builder, split),
            info.splits[split].num_examples,
        )
        for split in info.splits
    }
    classes = _class_names(info.features)
    return Source(name, _kind(parts), parts, classes, origin={"builder": "tensorflow_datasets"})


def _class_names(features: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the names of the classes of the first feature that is a label; none without one."""
    label = next((key for key in LABEL_KEYS if key in features), None)
    return tuple(getattr(features[label], "names", ())) if label else ()


def _rows(tfds: Any, builder: Any, split: str) -> Iterable[Any]:
    rows: Iterable[Any] = tfds.as_numpy(builder.as_dataset(split=split))
    return rows


def open_hugging_face(name: str, data_dir: str | None) -> Source:
    """Opens a data set of Hugging Face's `datasets`.

    Raises:
        DataError: if it has no such data set.
        MissingPackageError: if that package is not installed.
    """
    try:
        import datasets
    except ImportError as e:
        raise MissingPackageError(
            f"{name}: this data set needs Hugging Face datasets, which is not installed. "
            "Install it: pip install 'odt[huggingface]'."
        ) from e
    try:
        loaded = datasets.load_dataset(name, cache_dir=data_dir)
    except Exception as e:
        raise DataError(f"{name}: Hugging Face datasets says: {reason(e)}.") from e
    first = next(iter(loaded.values()))
    parts: dict[str, Part] = {
        split: StreamPart(f"{name} {split}", partial(iter, rows), len(rows))
        for split, rows in loaded.items()
    }
    classes = _class_names(first.features)
    return Source(name, _kind(parts), parts, classes, origin={"builder": "datasets"})
