"""Chooses how `odt learn` makes a model: preparation of the data, network, and training."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from odt.cli.learning.recipe import DATA, HEAD, NEW, QUANTIZE, TRAIN, Options, Recipe
from odt.core.storage.reading import listed, printable
from odt.datasets.folders import Naming
from odt.datasets.open_source import format_of, open_source
from odt.datasets.source import Source
from odt.datasets.source_format import Opening
from odt.datasets.splits import length_of
from odt.datasets.tables import TableOptions, TextColumnsError
from odt.errors import DataError, OdtError
from odt.kernels.rows.opdef import Array
from odt.models.bases import find_base

Show: TypeAlias = Callable[[str], object]

BASES = {"image": "mobilenet", "sound": "keywords"}  # kind of inputs → network of odt-models
TABLES = ("csv", "tsv", "text", "parquet")
VALIDATION = 0.15  # of all samples, or of the training part of a source that has a test part
TEST = 0.2  # of all samples
MAX_CLASSES = 20  # of a target of whole numbers; more different numbers are values
SMALL = 2000  # rows; smaller tables get a smaller network
# Training on few rows: averaged weights and strong decay against overfitting.
FEW_ROWS: Options = {"batch-size": 16, "optimizer": "adamw", "weight-decay": 1, "ema": 0.98}
RATE = 0.001  # stated, so that no epoch is undone: losses of weighted classes may rise at first
USUAL = 0.1, 1e4  # standard deviations of targets whose loss needs no weight
UNEQUAL = 2  # samples of the largest class to those of the smallest, from which classes get weights
MIN_SAMPLES = 5  # of a class, so that each split gets some
MIN_ROWS = 10  # of a table
IDENTIFIER = re.compile(r"(?i)(^|[\W_])(id|idx|index|nr|no|number|rownames|row|key)$|[a-z](Id|ID)$")


def choose(
    path: str,
    target: str | None,
    base: str | None,
    seed: int,
    columns: Mapping[str, str],
    show: Show,
    pattern: str = "",
) -> Recipe:
    """Returns the commands that make a model of a source.

    Args:
        path: folder or archive of photos or sounds, or a table.
        target: the target's column of a table; None for the last one.
        base: name or path of the network whose last layer is replaced; None to choose.
        seed: random seed of all commands.
        columns: columns of a table that the user encodes or leaves out: option of gen-datafile →
            columns, separated by commas.
        show: called with notes for the user.
        pattern: pattern of the classes in names of files; empty if folders are the classes.

    Raises:
        OdtError: if the source is of another kind, or there is no network for it.
    """
    opening = Opening(path, naming=Naming(pattern))
    form = format_of(Path(path), opening)
    if form in TABLES:
        if base is not None:
            raise OdtError(
                f"--base: must be left out for a table, which has no base, but got {base}."
            )
        return _for_table(path, "-1" if target is None else target, seed, columns, show)
    if form == "tables":
        raise DataError(
            f"{path}: must be a single table, or a folder of photos or sounds, but is a folder or "
            "an archive of tables. Give one of its tables."
        )
    if target is not None:
        raise OdtError(f"--target: must be given with a table, but {path} holds {form}.")
    source = open_source(opening, form)
    if source.kind not in BASES or len(source.classes) < 2:
        raise DataError(
            f"{path}: must be a folder with a folder of photos or sounds for each of at least two "
            f"classes, or a table, but has {form} of {listed(source.classes) or 'no class'} alone."
        )
    counts = _counts(source)
    if counts.size and counts.min() < MIN_SAMPLES:
        few = [f"{source.classes[k]} ({counts[k]})" for k in np.flatnonzero(counts < MIN_SAMPLES)]
        raise DataError(
            f"{path}: each class must have at least {MIN_SAMPLES} samples, for training, "
            f"validation and test, but these have fewer: {listed(few)}. Add samples, or leave "
            "the classes out."
        )
    return _for_media(path, source, base or BASES[source.kind], seed, pattern)


def _for_media(path: str, source: Source, base: str, seed: int, pattern: str) -> Recipe:
    """Returns the commands that train a new last layer of a network for photos or sounds."""
    head: Options = {"model": base, "classes": len(source.classes), "seed": seed}
    if (after := find_base(base).after) is not None:
        head["after"] = after
    data: Options = {"split": _splits(source), "seed": seed, "on-error": "skip"}
    if pattern:
        data["label-pattern"] = pattern
    if source.kind == "image":
        data["dtype"] = "uint8"  # a quarter of the disk; the scale is applied when they are read
    train: Options = {
        "epochs": 100,
        "learning-rate": RATE,
        "patience": 10,
        "keep-best": True,
        "num-of-trainable-ops": 2,
        "cache-frozen": "ram",
        "metric": "accuracy",
        **_class_weight(source),
        "seed": seed,
    }
    return Recipe(path, {HEAD: head, DATA: data, TRAIN: train, QUANTIZE: {}})


def _for_table(path: str, target: str, seed: int, columns: Mapping[str, str], show: Show) -> Recipe:
    """Returns the commands that train a network of dense layers on the rows of a table."""
    source, column_options = _open_table(path, target, columns, show)
    if len(source.classes) == 1:
        raise DataError(
            f"{path}: the target must have at least two classes or values, but is "
            f"{source.classes[0]} in all rows."
        )
    regression = not source.classes
    data: Options = {"label-column": target, "missing": "median", "missing-target": "drop"}
    data |= column_options
    data["regression" if regression else "classification"] = True
    data |= {"split": _splits(source), "seed": seed}
    rows = sum(map(length_of, source.parts.values()))
    if rows < MIN_ROWS:
        raise DataError(
            f"{path}: must have at least {MIN_ROWS} rows with a target, but has {rows}."
        )
    is_small = rows < SMALL
    hidden = "32" if is_small else "64,64"
    new: Options = {"kind": "mlp", "normalize": True, "hidden": hidden, "seed": seed}
    train: Options = {
        "epochs": 300,
        "learning-rate": RATE,
        "patience": 30,
        "keep-best": True,
        **(FEW_ROWS if is_small else {}),
    }
    # Normalization reads columns of very different ranges, which int8 cannot hold together.
    quantize: Options = {"keep-float": ["SUB", "MUL"]}
    if regression:
        train |= {"metric": "r2", "loss": "mean-squared-error", **_loss_weight(source)}
        train["seed"] = seed
        quantize["keep-float"].append("ADD")  # of the last layers, which invert normalization
    else:
        train |= {"metric": "accuracy", **_class_weight(source), "seed": seed}
    return Recipe(path, {DATA: data, NEW: new, TRAIN: train, QUANTIZE: quantize})


def _loss_weight(source: Source) -> Options:
    """Returns the option that gives very small or large targets gradients of a usual size.

    The gradients grow with the square of the targets' deviation. Adam neglects those near its
    epsilon, and the squares of very large ones exceed float32.
    """
    deviation = float(np.std(_targets(source)))
    if USUAL[0] <= deviation <= USUAL[1] or not deviation:
        return {}
    return {"loss-weight": f"0={10.0 ** -round(2 * math.log10(deviation)):g}"}


def _targets(source: Source) -> Array:
    """Returns the targets of all rows of a regression."""
    parts = source.parts.values()
    return np.array([float(p.read(k).targets[0]) for p in parts for k in range(length_of(p))])


def _class_weight(source: Source) -> Options:
    """Returns the option that balances classes of very different numbers of samples."""
    counts = _counts(source)
    unequal = counts.size and counts.max() >= UNEQUAL * counts.min()
    return {"class-weight": "balanced"} if unequal else {}


def _counts(source: Source) -> Array:
    """Returns the number of samples of each class; empty if the source does not know them yet."""
    labels = [part.labels for part in source.parts.values() if part.labels is not None]
    if not labels:
        return np.empty(0, np.int64)
    return np.bincount(np.concatenate(labels), minlength=len(source.classes))


def _open_table(
    path: str, target: str, columns: Mapping[str, str], show: Show
) -> tuple[Source, Options]:
    """Opens a table; returns it with the options of gen-datafile for its columns.

    Columns of text are encoded or left out, columns that number the rows are left out, and so are
    a few lines whose cells do not fit their columns.
    """
    lists = {key: (names,) for key, names in columns.items()}
    leave_out = lists.get("leave-out", ())
    table = TableOptions(
        label=target,
        drop_targets=True,
        one_hot=lists.get("one-hot", ()),
        dates=lists.get("date", ()),
        leave_out=leave_out,
    )
    is_encoded = False
    fault: DataError | None = None
    while True:  # at most once more with encoded text, and once more without faulty lines
        try:
            source = _with_targets(path, table)
            break
        except TextColumnsError as e:
            if is_encoded:
                raise
            is_encoded = True
            table = _with_text(table, e)
        except DataError as e:
            if table.skip:  # too many lines are faulty: the first error names their faults
                raise fault or e from None
            fault = e
            table = replace(table, skip=True)
    rows = _rows(source)
    if numbering := _numbering(source, rows):
        table = replace(table, leave_out=(*table.leave_out, *numbering))
        source = _with_targets(path, table)
    if useless := table.leave_out[len(leave_out) :]:
        names = ", ".join(map(printable, useless))
        show(
            f"note: {path}: columns that number the rows or have many different words are left "
            f"out: {names}."
        )
    encoded = {"one-hot": table.one_hot, "date": table.dates, "leave-out": table.leave_out}
    options: Options = {name: list(names) for name, names in encoded.items() if names}
    if table.skip or np.isinf(rows).any():
        options["on-error"] = "skip"
    return source, options


def _with_text(table: TableOptions, error: TextColumnsError) -> TableOptions:
    """Returns the options with those that the columns of text need."""
    columns: dict[str, list[str]] = {"one_hot": [], "date": [], "leave_out": []}
    for name, encoding in error.options.items():
        columns[encoding].append(name)
    return replace(
        table,
        one_hot=(*table.one_hot, *columns["one_hot"]),
        dates=(*table.dates, *columns["date"]),
        leave_out=(*table.leave_out, *columns["leave_out"]),
    )


def _rows(source: Source) -> Array:
    """Returns the inputs of all rows of a table."""
    parts = source.parts.values()
    return np.array([p.read(k).inputs[0] for p in parts for k in range(length_of(p))])


def _numbering(source: Source, rows: Array) -> list[str]:
    """Returns the columns that number the rows: counters, and identifiers by their names.

    Empty if there are no others.
    """
    # Without the numbers of words and dates, of which a column has several.
    columns = {column["name"] for column in source.table["columns"]}
    names = [
        name
        for name, values in zip(source.columns, rows.T, strict=True)
        if name in columns and _numbers_rows(name, values)
    ]
    return names if len(names) < len(source.columns) else []


def _numbers_rows(name: str, values: Array) -> bool:
    """Whether a column has distinct whole numbers that count up by 1 or are identifiers by name."""
    whole = bool(np.all(np.isfinite(values)) and np.all(values == np.round(values)))
    if not whole or len(values) < MIN_ROWS or len(np.unique(values)) < len(values):
        return False
    return bool(np.all(np.diff(values) == 1)) or IDENTIFIER.search(name.strip()) is not None


def _with_targets(path: str, table: TableOptions) -> Source:
    """Opens a table whose targets are values, or classes if they are words or few whole numbers."""
    as_classes = Opening(path, table=replace(table, regression=False))
    try:
        source = open_source(Opening(path, table=replace(table, regression=True)))
    except TextColumnsError:
        raise
    except DataError:  # the targets are words, or opening it again reports the fault
        return open_source(as_classes)
    targets = set()
    for part in source.parts.values():
        targets |= {float(part.read(k).targets[0]) for k in range(length_of(part))}
    is_numbered = len(targets) <= MAX_CLASSES and all(map(float.is_integer, targets))
    return open_source(as_classes) if is_numbered else source


def _splits(source: Source) -> list[str]:
    """Returns the splits: those of the source if it has a training and a test part."""
    if {"train", "test"} <= source.parts.keys():
        validation = "validation" if "validation" in source.parts else f"validation={VALIDATION}"
        return ["train", validation, "test"]
    return [f"train={1 - VALIDATION - TEST:g}", f"validation={VALIDATION}", f"test={TEST}"]
