"""The source of `odt gen-datafile` from its options."""

import difflib
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import click
from click.core import ParameterSource

from odt.cli.options.datafile import PROFILES, DatafileOptions
from odt.cli.options.datafile_steps import shape
from odt.cli.options.fits import BUILT, check_format
from odt.cli.options.fits import PUBLISHED as BY_NAME
from odt.cli.output.progress import Progress
from odt.datasets.arrays import ArrayOptions
from odt.datasets.download import download
from odt.datasets.folders import Naming
from odt.datasets.labels import class_names
from odt.datasets.model_signature import ModelSignature
from odt.datasets.open_source import SOURCE_FORMATS, format_of, open_source
from odt.datasets.pictures import Resize
from odt.datasets.preprocess import numbers
from odt.datasets.published import PUBLISHED, open_published
from odt.datasets.sounds import Sound, parse_sound
from odt.datasets.source import Source
from odt.datasets.source_format import Opening
from odt.datasets.tables import TableOptions
from odt.datasets.two_files import with_test_source
from odt.errors import DataError, OdtError

SOUND_SETTINGS = ("rate", "seconds", "mel", "mfcc", "frame", "hop", "frames", "mel_range")
DEFAULT = "fashion_mnist"  # as in ONE's tool


def opened(o: DatafileOptions, resize: Resize | None, size: Resize | None = None) -> Source:
    """Opens the data source that the options select.

    Args:
        o: the options.
        resize: size that decoding gives images; None if other steps come before.
        size: size that images get at last, which masks get too.
    """
    form = check_source(o)
    if o.source:
        how = replace(opening(o.source, o, resize), masks=o.masks, mask_resize=size)
        source = open_source(how, form)
        if not o.test_source:
            return source
        return with_test_source(source, replace(how, text=o.test_source))
    if o.fetch and not (o.name or o.dataset_name):
        raise OdtError("--download: must be given with the NAME of a data set, but got none.")
    name = published_name(o.name or o.dataset_name or DEFAULT)
    if o.model and name not in PROFILES[o.model][0]:
        raise DataError(f"{name} does not fit {PROFILES[o.model][1]}.")
    if name not in PUBLISHED:
        return open_source(Opening(name, "tfds", data_dir=o.data_dir))
    if o.fetch:
        with closing(Progress("B")) as bar:
            download(PUBLISHED[name].files, o.data_dir, bar)
    return open_published(name, o.data_dir, o.variant)


def like_sounds(o: DatafileOptions, like: ModelSignature | None) -> DatafileOptions:
    """The options with the settings of sounds that --like gives and the command line does not.

    A model that was trained on sounds holds them in its preprocessing record; of another model that
    reads a waveform, the number of samples is the length of a clip.
    """
    if like is None:
        return o
    shape = [n for n in like.inputs[0].shape if n > 1]
    if like.record is not None and like.record.sound:
        sound = parse_sound(like.record.sound)
        alike = replace(
            o,
            rate=sound.rate,
            seconds=sound.seconds,
            mel=sound.mel,
            mfcc=sound.mfcc,
            frame=sound.frame,
            hop=sound.hop,
            frames=sound.frames,
            mel_range=f"{sound.low},{sound.high}",
        )
    elif len(shape) == 1 and not o.mel and o.rate:
        alike = replace(o, seconds=shape[0] / o.rate)
    else:
        return o
    source = click.get_current_context().get_parameter_source
    names = (n for n in SOUND_SETTINGS if source(n) is not ParameterSource.DEFAULT)
    return replace(alike, **{name: getattr(o, name) for name in names})


def check_source(o: DatafileOptions) -> str:
    """Returns the format of the source.

    Raises:
        OdtError: for options that do not fit it.
    """
    if o.source:
        form = format_of(Path(o.source), Opening(o.source, o.form))
        if Path(o.source).exists() or not SOURCE_FORMATS[form].is_path:
            check_format(o.source, form)
        return form
    if o.name and o.dataset_name:
        raise OdtError("--dataset-name: must be given without NAME, but got both. Leave one out.")
    name = published_name(o.name or o.dataset_name or DEFAULT)
    form = BY_NAME if name in PUBLISHED else BUILT
    check_format(name, form)
    return form


def opening(path: str, o: DatafileOptions, resize: Resize | None) -> Opening:
    """Returns how --source, which is `path`, is opened.

    Raises:
        OdtError: if options contradict each other.
    """
    if o.name:
        raise OdtError("--source: must be given without NAME, but got both. Leave one of them out.")
    rate = o.rate
    usual = min(8000.0, rate / 2) if rate else 8000.0
    low, high = (*numbers(o.mel_range, "mel_range"), 300.0, usual)[:2]
    sound = Sound(
        rate,
        o.seconds,
        o.mel,
        o.frame,
        o.hop,
        o.frames,
        low,
        high,
        mfcc=o.mfcc,
    )
    classes = class_names(o.classes) if o.classes else ()
    table = TableOptions(
        label="none" if o.unlabelled else o.label_column, header=o.header,
        delimiter=o.delimiter, leave_out=o.leave_out, one_hot=o.one_hot,
        regression=o.regression, drop=o.missing == "drop", skip=o.on_error == "skip",
        window=o.window or 0, stride=o.stride, horizon=o.horizon,
        series=o.group_by if o.window else "", dates=o.date,
        drop_targets=o.missing_target == "drop", groups=o.group_by,
    )  # fmt: skip
    arrays = ArrayOptions(
        o.x, o.y, classes, o.regression, shape(o.shape, "--shape"),
        o.source_dtype, o.unlabelled, o.unlabelled,
    )  # fmt: skip
    return Opening(
        path, o.form, o.target_source, _data_dir(o), table, arrays, sound,
        o.on_error == "skip", resize, Naming(o.label_pattern, o.unlabelled),
    )  # fmt: skip


def _data_dir(o: DatafileOptions) -> Path | None:
    """--data-dir for a builder: its own folder, unless one is given."""
    source = click.get_current_context().get_parameter_source("data_dir")
    return None if source is ParameterSource.DEFAULT else o.data_dir


def published_name(text: str) -> str:
    """Returns the name of a published data set in odt's spelling, or unchanged for a builder.

    Raises:
        OdtError: if the text is a file or another name.
    """
    name = text.lower().replace("-", "_")
    if name in PUBLISHED:
        return name
    if Path(text).exists() or Path(text).suffix:
        raise OdtError(
            f"{text}: must be the name of a published data set ({', '.join(PUBLISHED)}). "
            f"For your own data give --source {text}."
        )
    if close := difflib.get_close_matches(name, PUBLISHED, 1, 0.8):
        raise OdtError(
            f"{text}: must be one of {', '.join(PUBLISHED)}. Did you mean {close[0]}? For "
            f"TensorFlow Datasets give --source tfds:{text}."
        )
    return text
