"""Options of `odt gen-datafile`."""

from pathlib import Path

import click

from odt.cli.options.completion import complete_lists
from odt.cli.options.fits import (
    ARRAYS,
    BUILDERS,
    BUILT,
    FILES,
    LOCAL,
    NAMED,
    PUBLISHED,
    QUANTITIES,
    TABULAR,
    TEXTS,
    TOKENS,
)
from odt.cli.options.rows import declare
from odt.cli.options.sections import Fits
from odt.core.data.sidecar import DTYPES
from odt.dataclass import dataclass
from odt.datasets.data_writers import OUTPUTS
from odt.datasets.open_source import FORMATS
from odt.datasets.pictures import FITS, METHODS
from odt.datasets.preprocess import COLORS, MISSING, SCALES
from odt.datasets.wave_files import MAX_RATE

# Profiles of ONE's tf_dataset_converter: the data sets it accepts, and its name for messages.
PROFILES = {
    "mnist": (("fashion_mnist", "mnist"), "Mnist"),
    "mobilenetv2": (("imagenet_a",), "MobileNetV2"),
}
ONES_LENGTHS = (1000, 100)  # tf_dataset_converter's samples for training and for test
FOLDER = click.Path(path_type=Path)
# Sections of the help.
SOURCE, TABLES, SOUNDS = "Source", "Tables and arrays", "Sounds"
STEPS, SPLITS, OUTPUT = "Preprocessing", "Splits", "Output"
# What options are for, in messages.
TABLE, TEXT, SERIES = "columns of tables", "tables of text", "time series in tables"
SOUND, BANDS = "sounds", "the bands of sounds"
PICTURE, RESIZED, CLASS = "images", "images that are resized", "targets that are classes"


# fmt: off
@dataclass(frozen=True, slots=True)
class DatafileOptions:
    """The options of `odt gen-datafile`, in the order of the help, and its argument NAME."""

    name: str | None = None
    source: str | None = declare(SOURCE, "--source", common=True, metavar="PATH",
           help="Your own data: a folder or archive of images or sounds, a table, arrays, "
           "module:function, tfds:NAME, hf:NAME.")
    target_source: Path | None = declare(SOURCE, "--target-source", common=True,
           fits=Fits("targets in a second file", (*FILES, "csv", "tsv", "text", *ARRAYS),
                     without=("masks", "test_source", "label_pattern", "unlabelled", "label_column",
                     "x", "y"), recorded=True),
           type=FOLDER, help="Second file, with the targets: of "
           "images or sounds a table of file names with a class, tags or values.")
    masks: Path | None = declare(SOURCE, "--masks",
           fits=Fits("masks of images", ("images",), without=("label_pattern", "unlabelled",
                     "regression", "labels", "label_map")),
           type=FOLDER, metavar="FOLDER",
           help="Segmentation: masks as targets, each an image with the name of the source's "
           "image. Pixels above 0 are the object; with --classes they are class numbers.")
    boxes: Path | None = declare(SOURCE, "--boxes", common=True,
           fits=Fits("boxes of objects in images", ("images",), without=("target_source", "masks",
                     "label_pattern", "unlabelled", "regression", "labels", "label_map",
                     "stratify", "test_source")),
           type=FOLDER, metavar="ANNOTATIONS",
           help="Object detection: boxes as targets, from a file, folder or archive in the format "
           "of Pascal VOC, COCO, YOLO, CSV, Edge Impulse or CreateML.")
    test_source: str | None = declare(SOURCE, "--test-source",
           fits=Fits("test samples in a second file", LOCAL),
           metavar="PATH",
           help="Second file or folder, with the test samples; all samples of --source are for "
           "training.")
    as_record: str | None = declare(SOURCE, "--as", common=True, type=click.Path(),
           metavar="RECORD|MODEL",
           help="Prepare new data like the training data of this JSON file or model: with the "
           "same steps and classes, in the order of the source; labels are optional.")
    tokenizer: str | None = declare(SOURCE, "--tokenizer", common=True,
           fits=Fits("texts for language models", (TOKENS,)),
           type=click.Path(), metavar="MODEL",
           help="Language model from odt convert: --source is a text, a folder of texts, or lines "
           "of JSON with texts or chats, and becomes windows of its tokens.")
    unlabelled: bool = declare(SOURCE, "--unlabelled",
           fits=Fits("data without targets", (*FILES, *TABULAR, "arff", *ARRAYS),
                     without=("label_pattern", "label_column", "regression", "classes", "labels",
                     "label_map", "stratify", "y")),
           is_flag=True,
           help="Inputs without targets: all images or sounds of a folder, a table without a "
           "target, or one array.")
    label_pattern: str = declare(SOURCE, "--label-pattern",
           fits=Fits("classes in the names of files", (*FILES, "tables"),
                     without=("label_column",)),
           default="", metavar="REGEX",
           help="Take the class from file names: the first group of the pattern, such as "
           "'^(\\d)_' for 7_ann_3.wav.")
    form: str = declare(SOURCE, "--format",
           fits=Fits("the format of --source", LOCAL, recorded=True),
           type=click.Choice(FORMATS), default="auto",
           show_default=True, help="Format of --source.")
    dataset_name: str | None = declare(SOURCE, "--dataset-name", "-d",
           fits=Fits("published data sets", (PUBLISHED, BUILT)),
           help="Same as NAME.")
    data_dir: Path = declare(SOURCE, "--data-dir", common=True,
           fits=Fits("published data sets", (PUBLISHED, BUILT, *BUILDERS), recorded=True),
           type=FOLDER, default="data", show_default=True, metavar="FOLDER",
           help="Folder or archive with the files of the published data set.")
    variant: str = declare(SOURCE, "--variant",
           fits=Fits("published data sets", (PUBLISHED,)),
           default="",
           help="Variant of the data set: balanced, letters, … for emnist; fine, coarse for "
           "cifar100.")
    fetch: bool = declare(SOURCE, "--download", common=True,
           fits=Fits("published data sets", (PUBLISHED,)),
           is_flag=True,
           help="Download the data set into --data-dir.")
    show_datasets: bool = declare(SOURCE, "--show-datasets", "-s", common=True,
           fits=Fits(),
           is_flag=True, help="List the published data sets.")
    label_column: str = declare(TABLES, "--label-column", common=True,
           fits=Fits(TABLE, (*TABULAR, "arff")),
           default="-1", show_default=True,
           help="Name or number of the target column; several columns are separated by commas or "
           "a range, such as 20-29; none for a table without targets.")
    one_hot: tuple[str, ...] = declare(TABLES, "--one-hot",
           fits=Fits("columns of words in tables", (*TABULAR, "arff")),
           multiple=True, metavar="COLUMN",
           help="One-hot encoding: replace a column of words by one column of 0 and 1 for each "
           "word. Repeatable.")
    date: tuple[str, ...] = declare(TABLES, "--date",
           fits=Fits("columns of dates in tables", TABULAR),
           multiple=True, metavar="COLUMN[=FORMAT]",
           help="Replace a column of dates by sine and cosine of the weekday, the time of year and "
           "the time of day. FORMAT is that of strptime, if it is not clear. Repeatable.")
    window: int | None = declare(TABLES, "--window", common=True,
           fits=Fits(SERIES, (*TABULAR, "arff")),
           type=click.IntRange(1), metavar="ROWS",
           help="Time series: make a sample of each window of this many rows.")
    stride: int = declare(TABLES, "--stride",
           fits=Fits(SERIES, (*TABULAR, "arff"), needs=("window",)),
           type=click.IntRange(1), default=1, show_default=True,
           help="Distance of the windows in rows.")
    horizon: int = declare(TABLES, "--horizon",
           fits=Fits(SERIES, (*TABULAR, "arff"), needs=("window",)),
           type=click.IntRange(0), default=0, show_default=True,
           help="Distance in rows from the last row of a window to the row of its target. If it "
           "is above 0, the target column is also an input.")
    leave_out: tuple[str, ...] = declare(TABLES, "--leave-out",
           fits=Fits(TABLE, (*TABULAR, "arff")),
           multiple=True, help="Column that is not an input. Repeatable.")
    header: bool | None = declare(TABLES, "--header/--no-header",
           fits=Fits(TEXT, TEXTS, recorded=True),
           default=None,
           help="Whether the first line holds the column names.")
    delimiter: str = declare(TABLES, "--delimiter",
           fits=Fits(TEXT, TEXTS, recorded=True),
           default="", help="Delimiter between cells, if not detected.")
    regression: bool | None = declare(TABLES, "--regression/--classification",
           fits=Fits("targets of tables and arrays, and folders or files named by numbers", (*FILES,
                     *TABULAR, "arff", *ARRAYS), without=("classes",)),
           default=None,
           help="Whether targets are values or classes, which may have names of several words.")
    x: str = declare(TABLES, "--x",
           fits=Fits("arrays with names", NAMED, without=("target_source",), recorded=True),
           default="", help="Names of the input arrays, separated by commas.")
    y: str = declare(TABLES, "--y",
           fits=Fits("arrays with names", NAMED, recorded=True),
           default="", help="Names of the target arrays, separated by commas.")
    shape: str = declare(TABLES, "--shape",
           fits=Fits("raw files", ("raw",), recorded=True),
           default="", help="Sample shape in a raw file, such as 28x28x1.")
    source_dtype: str = declare(TABLES, "--source-dtype",
           fits=Fits("raw files", ("raw",), recorded=True),
           default="float32", show_default=True,
           type=click.Choice(sorted(DTYPES)), help="dtype of a raw file.")
    classes: str = declare(TABLES, "--classes",
           fits=Fits(CLASS, needs_classes=True),
           default="",
           help="Class names in the order of the model's outputs, separated by commas: names of "
           "class numbers, or the classes of any source, also those without samples.")
    rate: int = declare(SOUNDS, "--rate",
           fits=Fits(SOUND, ("wav",)),
           type=click.IntRange(0, MAX_RATE), default=16000, show_default=True,
           help="Sample rate in Hz, to which sounds of other rates are resampled; 0 keeps "
           "their own.")
    seconds: float = declare(SOUNDS, "--seconds", common=True,
           fits=Fits(SOUND, ("wav",)),
           type=click.FloatRange(0), default=1.0, show_default=True,
           help="Length in seconds to which clips are trimmed or padded.")
    mel: int = declare(SOUNDS, "--mel", common=True,
           fits=Fits(SOUND, ("wav",)),
           type=click.IntRange(0), default=0,
           help="Number of log-mel bands; 0 for the waveform.")
    mfcc: int = declare(SOUNDS, "--mfcc",
           fits=Fits(BANDS, ("wav",), needs=("mel",)),
           type=click.IntRange(0), default=0,
           help="Number of MFCCs of the --mel bands, as in MLPerf Tiny; 0 for the bands.")
    frame: int = declare(SOUNDS, "--frame",
           fits=Fits(BANDS, ("wav",), needs=("mel",)),
           type=click.IntRange(1), default=512, show_default=True,
           help="Frame length in samples.")
    hop: int = declare(SOUNDS, "--hop",
           fits=Fits(BANDS, ("wav",), needs=("mel",)),
           type=click.IntRange(1), default=256, show_default=True,
           help="Hop length in samples.")
    frames: int = declare(SOUNDS, "--frames",
           fits=Fits(BANDS, ("wav",), needs=("mel",)),
           type=click.IntRange(0), default=0,
           help="Maximum number of frames.")
    mel_range: str = declare(SOUNDS, "--mel-range",
           fits=Fits(BANDS, ("wav",), needs=("mel",)),
           default="", metavar="LOW,HIGH",
           help="Frequency range of the mel bands in Hz.  [default: 300,8000, at most half of "
           "--rate]")
    like: str | None = declare(STEPS, "--like", common=True,
           fits=Fits("numbers", QUANTITIES),
           type=click.Path(), metavar="MODEL",
           help="Take shape, channels and dtype from the inputs of MODEL, and check the data "
           "against it.")
    size: str | None = declare(STEPS, "--size", common=True,
           fits=Fits(PICTURE, kinds=("image",)),
           help="Image size, HEIGHTxWIDTH.")
    resize: str = declare(STEPS, "--resize",
           fits=Fits(RESIZED, kinds=("image",), needs=("size", "like", "model")),
           type=click.Choice(METHODS), default="bilinear", show_default=True,
           help="Interpolation when images are resized.")
    fit: str = declare(STEPS, "--fit",
           fits=Fits(RESIZED, kinds=("image",), needs=("size", "like", "model")),
           type=click.Choice(FITS), default="stretch", show_default=True,
           help="Handling of images with another aspect ratio.")
    color: str | None = declare(STEPS, "--color", "--colour", common=True,
           fits=Fits(PICTURE, kinds=("image",)),
           type=click.Choice(COLORS), help="Image color mode.")
    scale: str | None = declare(STEPS, "--scale", common=True,
           fits=Fits("numbers", QUANTITIES),
           type=click.Choice(SCALES),
           help="Scaling of the values.  [default: 0..1 for images]")
    mean: str = declare(STEPS, "--mean",
           fits=Fits("numbers", QUANTITIES),
           default="",
           help="Mean to subtract, per channel or feature, separated by commas.")
    std: str = declare(STEPS, "--std",
           fits=Fits("numbers", QUANTITIES),
           default="",
           help="Standard deviation to divide by, per channel or feature, separated by commas.")
    missing: str = declare(STEPS, "--missing",
           fits=Fits("missing numbers", QUANTITIES, kinds=("features",)),
           type=click.Choice(MISSING), default="error", show_default=True,
           help="Handling of missing values of the inputs.")
    missing_target: str = declare(STEPS, "--missing-target",
           fits=Fits("missing targets", (*TABULAR, "arff", *ARRAYS, "callable", *BUILDERS),
                     kinds=("features",), without=("unlabelled",)),
           type=click.Choice(["error", "drop"]), default="error", show_default=True,
           help="Handling of missing targets; --missing drop drops them too.")
    flatten: bool = declare(STEPS, "--flatten",
           fits=Fits("samples of several axes", QUANTITIES, without=("like",)),
           is_flag=True, help="Flatten each sample to one axis.")
    dtype: str | None = declare(STEPS, "--dtype",
           fits=Fits("numbers", QUANTITIES),
           type=click.Choice(sorted(DTYPES)),
           help="dtype of the input file.  [default: float32]")
    labels: str = declare(STEPS, "--labels",
           fits=Fits(CLASS, needs_classes=True, recorded=True),
           type=click.Choice(["one-hot", "sparse"]), default="one-hot",
           show_default=True, help="Encoding of the class labels.")
    label_map: str | None = declare(STEPS, "--label-map",
           fits=Fits(CLASS, needs_classes=True),
           help="Rename and merge classes: OLD=NEW,… or a JSON file.")
    augment: str = declare(STEPS, "--augment", common=True,
           fits=Fits("numbers", QUANTITIES),
           default="", shell_complete=complete_lists(("flip", "shift=", "crop=", "noise=")),
           help="Data augmentation: flip, shift=PIXELS, crop=FRACTION, noise=STD.")
    augment_factor: int = declare(STEPS, "--augment-factor",
           fits=Fits("copies of samples", needs=("augment",)),
           type=click.IntRange(2), default=2, show_default=True,
           help="Number of copies of each training sample, including the original.")
    model: str | None = declare(STEPS, "--model", "-m",
           fits=Fits("the data sets of ONE's tool", (PUBLISHED, BUILT), without=("size", "fit")),
           type=click.Choice(list(PROFILES)),
           help="Preprocessing of ONE's tf_dataset_converter, with its --length 1000 100.")
    split: tuple[str, ...] = declare(SPLITS, "--split", common=True, multiple=True,
           help="Splits: names of the source's splits, or NAME=FRACTION to split the whole data "
           "set.  "
           "[default: those of the source, of a function train and test, or train test=0.2; "
           "without targets new=1.0]")
    length: tuple[int, ...] = declare(SPLITS, "--length", type=click.IntRange(1), multiple=True,
           help="Number of samples of each split.")
    shuffle: bool | None = declare(SPLITS, "--shuffle/--no-shuffle", default=None,
           help="Shuffle the samples.  [default: if odt splits the data set, or if it is sorted "
           "by class]")
    seed: int = declare(SPLITS, "--seed", common=True, type=click.IntRange(0), default=0,
           show_default=True,
           help="Random seed of shuffling and augmentation.")
    stratify: bool | None = declare(SPLITS, "--stratify/--no-stratify",
           fits=Fits(CLASS, needs_classes=True, without=("group_by",)),
           default=None,
           help="Keep the class proportions in each split.")
    fold: str | None = declare(SPLITS, "--fold",
           fits=Fits(),
           metavar="K/N",
           help="Cross-validation: test on the K-th of N folds, train on the others.")
    group_by: str = declare(SPLITS, "--group-by",
           fits=Fits(),
           default="",
           help="Keep each group in one split. Groups are the values of a column, which is then "
           "not an input, or the matches of a regular expression in file names.")
    train_length: int | None = declare(SPLITS, "--train-length", "-l",
           fits=Fits(),
           type=click.IntRange(1),
           help="ONE's earlier option: number of training samples; 1000 if only --test-length is "
           "given.")
    test_length: int | None = declare(SPLITS, "--test-length", "-t",
           fits=Fits(),
           type=click.IntRange(1),
           help="ONE's earlier option: number of test samples; 100 if only --train-length is "
           "given.")
    out_dir: Path = declare(OUTPUT, "--out-dir", "-o", common=True, type=FOLDER, default="out",
           show_default=True,
           help="Output folder.")
    prefix_name: str = declare(OUTPUT, "--prefix-name", "-p", default="",
           help="Prefix of the file names.")
    output_format: str = declare(OUTPUT, "--output-format", common=True,
           type=click.Choice(list(OUTPUTS)), default="raw",
           show_default=True, help="File format: raw for onert_train, HDF5 or NPZ.")
    on_error: str = declare(OUTPUT, "--on-error", type=click.Choice(["stop", "skip"]),
           default="stop",
           show_default=True, help="Handling of samples that cannot be read.")
    workers: int | None = declare(OUTPUT, "--workers", type=click.IntRange(1),
           help="Number of threads.  [default: all cores]")
# fmt: on
