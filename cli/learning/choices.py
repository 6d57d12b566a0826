"""Chooses how `odt learn` makes a model: preparation of the data, network, and training."""

from dataclasses import replace
from pathlib import Path

from odt.cli.learning.recipe import DATA, HEAD, NEW, QUANTIZE, TRAIN, Options, Recipe
from odt.datasets.open_source import format_of, open_source
from odt.datasets.source import Source
from odt.datasets.source_format import Opening
from odt.datasets.splits import length_of
from odt.datasets.tables import TableOptions, TextColumnsError
from odt.errors import DataError, OdtError
from odt.models.bases import find_base

BASES = {"image": "mobilenet", "sound": "keywords"}  # kind of inputs → network of odt-models
TABLES = ("csv", "tsv", "text")
VALIDATION = 0.15  # of all samples, or of the training part of a source that has a test part
TEST = 0.2  # of all samples
MAX_CLASSES = 20  # of a target of whole numbers; more different numbers are values
SMALL = 2000  # rows; smaller tables get a smaller network


def choose(path: str, target: str | None, base: str | None, seed: int) -> Recipe:
    """Returns the commands that make a model of a source.

    Args:
        path: folder or archive of photos or sounds, or a table.
        target: the target's column of a table; None for the last one.
        base: name or path of the network whose last layer is replaced; None to choose.
        seed: random seed of all commands.

    Raises:
        OdtError: if the source is of another kind, or there is no network for it.
    """
    opening = Opening(path)
    form = format_of(Path(path), opening)
    if form in TABLES:
        if base is not None:
            raise OdtError(
                f"--base: must be left out for a table, which has no base, but got {base}."
            )
        return _for_table(path, "-1" if target is None else target, seed)
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
            f"classes, or a table, but has {len(source.classes)} classes of {form}."
        )
    return _for_media(path, source, base or BASES[source.kind], seed)


def _for_media(path: str, source: Source, base: str, seed: int) -> Recipe:
    """Returns the commands that train a new last layer of a network for photos or sounds."""
    head: Options = {"model": base, "classes": len(source.classes), "seed": seed}
    if (after := find_base(base).after) is not None:
        head["after"] = after
    data: Options = {"split": _splits(source), "seed": seed}
    if source.kind == "image":
        data["dtype"] = "uint8"  # a quarter of the disk; the scale is applied when they are read
    train: Options = {
        "epochs": 100,
        "patience": 10,
        "keep-best": True,
        "num-of-trainable-ops": 2,
        "cache-frozen": "ram",
        "metric": "accuracy",
        "seed": seed,
    }
    return Recipe(path, {HEAD: head, DATA: data, TRAIN: train, QUANTIZE: {}})


def _for_table(path: str, target: str, seed: int) -> Recipe:
    """Returns the commands that train a network of dense layers on the rows of a table."""
    source, encodings = _open_table(path, target)
    if len(source.classes) == 1:
        raise DataError(
            f"{path}: the target must have at least two classes, but has only {source.classes[0]}."
        )
    regression = not source.classes
    data: Options = {"label-column": target, "missing": "median", "missing-target": "drop"}
    data |= encodings
    data["regression" if regression else "classification"] = True
    data |= {"split": _splits(source), "seed": seed}
    rows = sum(map(length_of, source.parts.values()))
    hidden = "16" if rows < SMALL else "64,64"
    new: Options = {"kind": "mlp", "normalize": True, "hidden": hidden, "seed": seed}
    train: Options = {"epochs": 300, "patience": 30, "keep-best": True, "seed": seed}
    # Normalization reads columns of very different ranges, which int8 cannot hold together.
    quantize: Options = {"keep-float": ["SUB", "MUL"]}
    if regression:
        train |= {"metric": "r2", "loss": "mean-squared-error"}
        quantize["keep-float"].append("ADD")  # of the last layers, which invert normalization
    else:
        train["metric"] = "accuracy"
    return Recipe(path, {DATA: data, NEW: new, TRAIN: train, QUANTIZE: quantize})


def _open_table(path: str, target: str) -> tuple[Source, Options]:
    """Opens a table; returns it with the options of gen-datafile for its columns of text."""
    table = TableOptions(label=target, drop_targets=True)
    try:
        return _with_targets(path, table), {}
    except TextColumnsError as e:
        columns: dict[str, list[str]] = {"one_hot": [], "date": [], "leave_out": []}
        for name, encoding in e.options.items():
            columns[encoding].append(name)
    table = replace(
        table,
        one_hot=tuple(columns["one_hot"]),
        dates=tuple(columns["date"]),
        leave_out=tuple(columns["leave_out"]),
    )
    options = {name.replace("_", "-"): names for name, names in columns.items() if names}
    return _with_targets(path, table), options


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
