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
from odt.progress import Progress

SOUND_SETTINGS = ("rate", "seconds", "mel", "mfcc", "frame", "hop", "frames", "mel_range")
DEFAULT = "fashion_mnist"  # as in ONE's tool


def open_selected(
    options: DatafileOptions, resize: Resize | None, mask_resize: Resize | None = None
) -> Source:
    """Opens the data source that the options select.

    Args:
        options: the options.
        resize: size that decoding gives images; None if other steps come before.
        mask_resize: final size of the images, which masks get too.
    """
    form = check_source(options)
    if options.source:
        training = replace(
            opening(options.source, options, resize),
            masks=options.masks,
            mask_resize=mask_resize,
            boxes=options.boxes,
        )
        source = open_source(training, form)
        if not options.test_source:
            return source
        return with_test_source(source, replace(training, text=options.test_source))
    if options.fetch and not (options.name or options.dataset_name):
        raise OdtError("--download: must be given with the NAME of a data set, but got none.")
    name = published_name(options.name or options.dataset_name or DEFAULT)
    if options.model:
        names, model = PROFILES[options.model]
        if name not in names:
            raise DataError(f"{name} does not fit {model}.")
    if name not in PUBLISHED:
        return open_source(Opening(name, "tfds", data_dir=options.data_dir))
    if options.fetch:
        with closing(Progress("B")) as bar:
            download(PUBLISHED[name].files, options.data_dir, bar)
    return open_published(name, options.data_dir, options.variant)


def like_sounds(options: DatafileOptions, like: ModelSignature | None) -> DatafileOptions:
    """Returns the options with the settings of sounds from --like; the command line overrides them.

    A model that was trained on sounds holds the settings in its preprocessing record. For another
    model that reads a waveform, the number of its input values determines the length of a clip.
    """
    if like is None:
        return options
    axes = [n for n in like.inputs[0].shape if n > 1]
    if like.record is not None and like.record.sound:
        sound = parse_sound(like.record.sound)
        alike = replace(
            options,
            rate=sound.rate,
            seconds=sound.seconds,
            mel=sound.mel,
            mfcc=sound.mfcc,
            frame=sound.frame,
            hop=sound.hop,
            frames=sound.frames,
            mel_range=f"{sound.low},{sound.high}",
        )
    elif len(axes) == 1 and not options.mel and options.rate:
        alike = replace(options, seconds=axes[0] / options.rate)
    else:
        return options
    source = click.get_current_context().get_parameter_source
    names = (n for n in SOUND_SETTINGS if source(n) is not ParameterSource.DEFAULT)
    return replace(alike, **{name: getattr(options, name) for name in names})


def check_source(options: DatafileOptions) -> str:
    """Returns the format of the source.

    Raises:
        OdtError: for options that do not fit it.
    """
    if options.source:
        opening_of_name = Opening(options.source, options.form, tokenizer=options.tokenizer)
        form = format_of(Path(options.source), opening_of_name)
        if Path(options.source).exists() or not SOURCE_FORMATS[form].is_path:
            check_format(options.source, form)
        return form
    if options.name and options.dataset_name:
        raise OdtError("--dataset-name: must be given without NAME, but got both. Leave one out.")
    name = published_name(options.name or options.dataset_name or DEFAULT)
    form = BY_NAME if name in PUBLISHED else BUILT
    check_format(name, form)
    return form


def opening(path: str, options: DatafileOptions, resize: Resize | None) -> Opening:
    """Returns how --source, which is `path`, is opened.

    Raises:
        OdtError: if options contradict each other.
    """
    if options.name:
        raise OdtError("--source: must be given without NAME, but got both. Leave one of them out.")
    low, high = _mel_range(options)
    sound = Sound(
        rate=options.rate, seconds=options.seconds, mel=options.mel, mfcc=options.mfcc,
        frame=options.frame, hop=options.hop, frames=options.frames, low=low, high=high,
    )  # fmt: skip
    classes = class_names(options.classes) if options.classes else ()
    table = TableOptions(
        label="none" if options.unlabelled else options.label_column, header=options.header,
        delimiter=options.delimiter, leave_out=options.leave_out, one_hot=options.one_hot,
        regression=options.regression,
        drop=options.missing == "drop", skip=options.on_error == "skip",
        window=options.window or 0, stride=options.stride, horizon=options.horizon,
        series=options.group_by if options.window else "", dates=options.date,
        drop_targets=options.missing_target == "drop", groups=options.group_by,
    )  # fmt: skip
    arrays = ArrayOptions(
        x=options.x, y=options.y, classes=classes, regression=options.regression,
        shape=shape(options.shape, "--shape"), dtype=options.source_dtype,
        unlabelled=options.unlabelled, inputs_only=options.unlabelled,
    )  # fmt: skip
    return Opening(
        path, format=options.form, targets=options.target_source, data_dir=_data_dir(options),
        table=table, arrays=arrays, sound=sound, skip=options.on_error == "skip",
        resize=resize, naming=Naming(options.label_pattern, options.unlabelled),
        tokenizer=options.tokenizer,
    )  # fmt: skip


def _mel_range(options: DatafileOptions) -> tuple[float, float]:
    """Parses --mel-range; the default ends at 8 kHz, or at half of a lower sample rate.

    Raises:
        OdtError: if there are not two numbers.
    """
    if not options.mel_range:
        return 300.0, min(8000.0, options.rate / 2) if options.rate else 8000.0
    bounds = numbers(options.mel_range, "mel_range")
    if len(bounds) != 2:
        raise OdtError(
            f"--mel-range: must be LOW,HIGH in Hz, such as 300,8000, but got {options.mel_range}."
        )
    low, high = bounds
    return low, high


def _data_dir(options: DatafileOptions) -> Path | None:
    """Returns --data-dir for a builder; None, for its own folder, if the option is left out."""
    source = click.get_current_context().get_parameter_source("data_dir")
    return None if source is ParameterSource.DEFAULT else options.data_dir


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
