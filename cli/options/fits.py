"""Checks that all options of `odt gen-datafile` have an effect on the source of the data.

An option without effect would be ignored in silence, so it is refused. datafile.py declares with
each option which sources it fits, by the formats below; only this module compares that with a
source.
"""

from collections.abc import Collection

import click
from click.core import ParameterSource

from odt.cli.options.sections import Option
from odt.datasets.published import PUBLISHED as PUBLISHED_NAMES
from odt.datasets.source import Source
from odt.errors import OdtError
from odt.text import quantity

PUBLISHED = "published"  # format of the data sets that NAME names
BUILT = "built"  # format of the data sets that TensorFlow Datasets has under NAME
# Formats that the same options fit.
TEXTS = ("csv", "tsv", "text", "tables")
TABULAR = (*TEXTS, "parquet")
FILES = ("images", "wav")
NAMED = ("npz", "hdf5")
ARRAYS = ("npy", *NAMED, "raw")
BUILDERS = ("tfds", "huggingface")
TOKENS = "language"  # format of texts for language models
NUMBERS = (*FILES, *TABULAR, "arff", "ts", *ARRAYS, "callable", *BUILDERS)
LOCAL = (*NUMBERS, TOKENS)  # what --source opens
QUANTITIES = (*NUMBERS, PUBLISHED, BUILT)  # whose values have a meaning as numbers
# Format of a source → what it is, in messages; other formats by their name.
NOUNS = {
    "images": "images", "wav": "sounds", "csv": "a table", "tsv": "a table", "text": "a table",
    "tables": "a folder of tables", "parquet": "a Parquet table", "arff": "an .arff table",
    "ts": "a .ts file of series",
    "npy": "a NumPy array", "npz": "NumPy arrays by name", "hdf5": "HDF5 arrays",
    "raw": "a raw file", "callable": "a function", "tfds": "a data set of TensorFlow Datasets",
    "huggingface": "a Hugging Face data set", PUBLISHED: "a published data set",
    BUILT: "a data set of TensorFlow Datasets", TOKENS: "text",
}  # fmt: skip
KINDS = {"image": "images", "sound": "sounds", "features": "numbers"}


def command_line_options() -> dict[str, Option]:
    """Returns the options on the command line, by parameter, in the order of the help.

    Switches that turn off the handling of classes, such as --no-stratify, are left out: they need
    no classes.
    """
    context = click.get_current_context()
    return {
        name: option
        for name, option in _options().items()
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT
        and not (option.fits.needs_classes and context.params[name] is False)
    }


def _options() -> dict[str, Option]:
    """Returns all options by parameter."""
    parameters = click.get_current_context().command.params
    return {str(p.name): p for p in parameters if isinstance(p, Option)}


def check_format(name: str, form: str) -> None:
    """Checks the options against the format of a source and against each other.

    Args:
        name: the source in messages.
        form: name of its format, or PUBLISHED.

    Raises:
        OdtError: for options without effect.
    """
    options = command_line_options()
    wrong = [o for o in options.values() if o.fits.formats and form not in o.fits.formats]
    if wrong and form in NOUNS:  # a format without a noun is new: any option may fit it
        raise _without_effect(name, NOUNS[form], wrong)
    for option in options.values():
        fits = option.fits
        text = _name(option)
        excluded = [_name(options[n]) for n in fits.without if n in options]
        if excluded:
            raise OdtError(
                f"{text}: must be given without {', '.join(excluded)}, but got both. Leave one out."
            )
        if fits.needs and not any(n in options for n in fits.needs):
            companions = " or ".join(_name(_options()[n]) for n in fits.needs)
            raise OdtError(
                f"{text}: is for {fits.purpose}, but {companions} is not given. Give {companions}, "
                f"or leave {text} out."
            )


def check_samples(source: Source, augmented: Collection[str]) -> None:
    """Checks the options against the samples of a source.

    Args:
        source: the source.
        augmented: words of --augment that move values: flip, shift, crop.

    Raises:
        OdtError: for options without effect.
    """
    options = command_line_options()
    wrong = [o for o in options.values() if o.fits.kinds and source.kind not in o.fits.kinds]
    if wrong:
        raise _without_effect(source.name, KINDS[source.kind], wrong)
    wrong = [o for o in options.values() if o.fits.needs_classes]
    if "masks" in options or "boxes" in options:  # whose values --classes names
        wrong = [o for o in wrong if o.name != "classes"]
    if wrong and not source.classes:
        raise _without_effect(source.name, "without classes", wrong)
    if augmented:
        _check_augmentation(source, augmented)


def _check_augmentation(source: Source, augmented: Collection[str]) -> None:
    """Raises OdtError if a sample has fewer axes than augmentations move."""
    least = {"flip": 3, "crop": 3, "shift": 1 if source.kind == "sound" else 2}
    rank = _rank(source)
    bad = [word for word in augmented if rank < least[word]]
    if bad:
        raise OdtError(
            f"--augment: {', '.join(bad)} is for images, and shift also for series, but a sample "
            f"of {source.name} has {quantity(rank, 'axis', 'axes')}. Give noise alone."
        )


def refuse_decided() -> None:
    """Refuses options that a record decides.

    Raises:
        OdtError: for options without effect beside --as.
    """
    wrong = [_name(o) for o in command_line_options().values() if not o.fits.recorded]
    context = click.get_current_context()
    if context.params.get("name"):
        wrong.insert(0, "NAME")
    if wrong:
        raise OdtError(
            f"{', '.join(wrong)}: must be given without --as, whose record decides them."
        )


def _rank(source: Source) -> int:
    """Returns the number of axes of a sample."""
    if source.kind != "features":
        return 3 if source.kind == "image" else 1
    part = next(iter(source.parts.values()))
    return part.read(0).inputs[0].ndim


def _without_effect(name: str, noun: str, options: list[Option]) -> OdtError:
    """Returns the error for options without effect; its message tells what each is for."""
    purposes: dict[str, list[str]] = {}
    for option in options:
        purposes.setdefault(option.fits.purpose, []).append(_name(option))
    texts = "; ".join(f"{', '.join(names)} (for {p})" for p, names in purposes.items())
    remedy = ", or give your own data with --source" if name in PUBLISHED_NAMES else ""
    verb, pronoun = ("has", "it") if len(options) == 1 else ("have", "them")
    return OdtError(
        f"{texts}: {verb} no effect, because {name} is {noun}. Leave {pronoun} out{remedy}."
    )


def _name(option: Option) -> str:
    """Returns the name of an option as the command line has it."""
    value = click.get_current_context().params.get(str(option.name))
    names = option.secondary_opts if value is False else option.opts
    return (names or option.opts)[0]
