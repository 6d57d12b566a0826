"""Splits of `odt gen-datafile` from its options."""

from collections.abc import Sequence
from dataclasses import replace

from odt.cli.options.datafile import ONES_LENGTHS, DatafileOptions
from odt.core.storage.reading import whole_number
from odt.datasets.preprocess import numbers
from odt.datasets.source import Source
from odt.datasets.splits import Division, RequestedSplit, divides_again
from odt.errors import OdtError

# Number of splits → their usual names.
NAMES = {2: ("train", "test"), 3: ("train", "validation", "test")}


def lengths(options: DatafileOptions) -> tuple[int, ...]:
    """Returns the length of each split: --length, ONE's earlier options, or ONE's defaults."""
    former = (options.train_length, options.test_length)
    if any(former):
        if options.length or options.split not in ((), ("train", "test")):
            raise OdtError(
                "--train-length, --test-length: must be given without --split and --length, but "
                "got both. Give --split and --length."
            )
        return tuple(n or usual for n, usual in zip(former, ONES_LENGTHS, strict=True))
    names = [s for s in options.split if "=" not in s]
    if options.model and not options.length and len(options.split) == len(names) in (0, 2):
        return ONES_LENGTHS
    return tuple(options.length)


def parse_splits(splits: Sequence[str], lengths: Sequence[int]) -> tuple[RequestedSplit, ...]:
    """Parses splits with their lengths and fractions; none for no splits.

    Raises:
        OdtError: if the counts differ, or a fraction is not a number.
    """
    splits = [text for argument in splits for text in _several(argument)]
    if not splits:
        return ()
    if lengths and len(lengths) != len(splits):
        raise OdtError(
            f"length and split should have the same count, but got {len(lengths)} and "
            f"{len(splits)}."
        )
    unnamed = [text for text in splits if _is_number(text)]
    if unnamed:
        names = NAMES.get(len(unnamed), ("NAME",) * len(unnamed))
        example = " ".join(f"{n}={text}" for n, text in zip(names, unnamed, strict=True))
        raise OdtError(
            f"--split: must name each part, such as --split {example}, but got {' '.join(splits)}."
        )
    counts: Sequence[int | None] = lengths or [None] * len(splits)
    return tuple(_parse_split(text, n) for text, n in zip(splits, counts, strict=True))


def _several(text: str) -> Sequence[str]:
    """Returns the splits of an argument such as train=0.7,test=0.3; of another one, itself."""
    return text.split(",") if text.count("=") > 1 else (text,)


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()


def _parse_split(text: str, length: int | None) -> RequestedSplit:
    """Parses NAME, NAME=FRACTION or NAME=SAMPLES; raises OdtError for other texts."""
    name, equals, fraction = text.partition("=")
    value: float | None = None
    if equals:
        value = next(iter(numbers(fraction, "split")), 0.0)
        if not value > 0 or ("." in fraction and value > 1):
            raise OdtError(
                "--split: must be NAME=FRACTION, such as test=0.2, or NAME=SAMPLES, such as "
                f"test=500, but got {text}."
            )
        if fraction == "1":
            raise OdtError(
                f"--split: {text} would be one sample. Give {name}=1.0, or {name} alone, for all."
            )
        value = value if "." in fraction else int(value)
    return RequestedSplit(name, length, value)


def default_splits(
    source: Source, lengths: Sequence[int], options: DatafileOptions
) -> tuple[RequestedSplit, ...]:
    """Returns the splits without --split: those of the source, or train and test.

    A function has no list of its splits: most know the names train and test only, and give test
    samples for any other name. Data without targets become one split, new: they are for
    predictions, one for each sample.

    Args:
        source: the data.
        lengths: --length, for ONE's two splits.
        options: the options.
    """
    divides = lengths or options.fold or options.group_by
    if unlabelled(options) and not divides and "all" in source.parts:
        return (RequestedSplit("new", fraction=1.0),)
    names: Sequence[str] = ("train", "test")
    is_function = any(part.sequential and part.length is None for part in source.parts.values())
    if not (lengths or options.fold or is_function):
        names = [n for n in ("train", "validation", "test") if n in source.parts] or names
    return parse_splits(names, lengths)


def checked_splits(
    source: Source, splits: Sequence[RequestedSplit], division: Division, options: DatafileOptions
) -> Source:
    """Returns the source, with a note if its own splits are divided again.

    Raises:
        OdtError: if groups are to stay together, but the splits of the source are kept.
    """
    parts = ", ".join(f"{name} {part.length or '?'}" for name, part in source.parts.items())
    if divides_again(source, splits, division):
        note = f"note: {source.name}: its own splits ({parts}) are joined and divided again."
        return replace(source, notes=(*source.notes, note)) if len(source.parts) > 1 else source
    fractions = any(split.fraction is not None for split in splits)
    if options.group_by and not (options.window or fractions or "all" in source.parts):
        raise OdtError(
            f"--group-by: {source.name} has splits of its own ({', '.join(source.parts)}), which "
            "are kept. Leave --group-by out, or give fractions: --split train test=0.2."
        )
    return source


def unlabelled(options: DatafileOptions) -> bool:
    """Whether the options say that the data have no targets."""
    return bool(options.unlabelled) or options.label_column == "none"


def fold(text: str | None, splits: Sequence[RequestedSplit]) -> tuple[int, int] | None:
    """Parses the K/N of --fold, which decides the fractions of the splits."""
    if text is None:
        return None
    if any(split.fraction is not None for split in splits):
        raise OdtError("--fold: must be given without fractions of --split, but got both.")
    k, _, n = text.partition("/")
    number, count = whole_number(k), whole_number(n)
    if number is None or count is None:
        raise OdtError(f"--fold: must be K/N, such as 1/5, but got {text}.")
    return number, count
