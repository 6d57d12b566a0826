"""The options of `odt gen-datafile`."""

from pathlib import Path

import click

from odt.cli.options.shared import stack
from odt.core.data.sidecar import DTYPES
from odt.core.datasets.open_source import FORMATS
from odt.core.datasets.outputs import OUTPUTS
from odt.core.datasets.pictures import FITS, METHODS
from odt.core.datasets.preprocess import COLOURS, MISSING, SCALES
from odt.core.datasets.sounds import MOST_RATE

# tf_dataset_converter's profiles: the sets it allows, and its name for messages.
PROFILES = {
    "mnist": (("fashion_mnist", "mnist"), "Mnist"),
    "mobilenetv2": (("imagenet_a",), "MobileNetV2"),
}
ONES_LENGTHS = (1000, 100)  # of tf_dataset_converter's splits, train and test
FOLDER = click.Path(path_type=Path)

source_options = stack(
    click.argument("name", required=False),
    click.option("--dataset-name", "-d", help="The same as NAME."),
    click.option("--data-dir", type=FOLDER, default="data", show_default=True, metavar="FOLDER",
                 help="Folder or archive with the set's files."),
    click.option("--variant", default="", help="Of emnist: balanced, letters, …; of cifar100: "
                 "fine, coarse."),
    click.option("--download", "fetch", is_flag=True, help="Fetch the set into --data-dir."),
    click.option("--source", metavar="PATH", help="Your own data: a folder or archive of pictures "
                 "or WAV files, a table, arrays, module:function, tfds:NAME, hf:NAME."),
    click.option("--target-source", type=FOLDER, help="A second file, with the targets."),
    click.option("--format", "form", type=click.Choice(FORMATS), default="auto",
                 show_default=True, help="Of --source."),
    click.option("--show-datasets", "-s", is_flag=True, help="List what NAME may be."),
)  # fmt: skip

reading_options = stack(
    click.option("--label-column", default="-1", show_default=True,
                 help="Of a table: name or number of the target's column; none makes inputs "
                 "alone."),
    click.option("--header/--no-header", default=None, help="Whether the first line has names."),
    click.option("--delimiter", default="", help="Between cells, if not found."),
    click.option("--leave-out", multiple=True, help="A column that is no input."),
    click.option("--regression/--classification", default=None,
                 help="Whether targets are values or classes."),
    click.option("--x", default="", help="Of arrays: names of the inputs, commas between."),
    click.option("--y", default="", help="Of arrays: names of the targets."),
    click.option("--shape", default="", help="Of a sample in a raw file, such as 28x28x1."),
    click.option("--source-dtype", default="float32", help="Of a raw file.",
                 type=click.Choice(sorted(DTYPES))),
    click.option("--classes", default="", help="Names of the classes, commas between."),
    click.option("--rate", type=click.IntRange(0, MOST_RATE), default=16000, show_default=True,
                 help="Of WAV files, samples a second; 0 for any."),
    click.option("--seconds", type=click.FloatRange(0), default=1.0, show_default=True,
                 help="To which sounds are cut or filled."),
    click.option("--mel", type=click.IntRange(0), default=0, help="Log-mel with so many bands."),
    click.option("--frame", type=click.IntRange(1), default=512, show_default=True,
                 help="Samples of a frame."),
    click.option("--hop", type=click.IntRange(1), default=256, show_default=True,
                 help="Samples from one frame to the next."),
    click.option("--frames", type=click.IntRange(0), default=0, help="At most so many."),
    click.option("--mel-range", default="300,8000", show_default=True, help="In Hz."),
)  # fmt: skip

step_options = stack(
    click.option("--like", type=click.Path(), metavar="MODEL",
                 help="Take shape, channels and dtype from a model, and check them."),
    click.option("--model", "-m", type=click.Choice(list(PROFILES)),
                 help="tf_dataset_converter's preprocessing, and its --length 1000 100."),
    click.option("--missing", type=click.Choice(MISSING), default="error", show_default=True,
                 help="What becomes of a value that is not there."),
    click.option("--color", "--colour", type=click.Choice(COLOURS), help="Of pictures."),
    click.option("--size", help="Of pictures, HEIGHTxWIDTH."),
    click.option("--resize", type=click.Choice(METHODS), default="bilinear", show_default=True,
                 help="How pictures are scaled."),
    click.option("--fit", type=click.Choice(FITS), default="stretch", show_default=True,
                 help="What becomes of another aspect."),
    click.option("--scale", type=click.Choice(SCALES), help="[default: 0..1 for pictures]"),
    click.option("--mean", default="", help="By channel or feature, commas between."),
    click.option("--std", default="", help="Likewise."),
    click.option("--flatten", is_flag=True, help="To one axis."),
    click.option("--dtype", type=click.Choice(sorted(DTYPES)),
                 help="Of the inputs in the file.  [default: float32]"),
    click.option("--labels", type=click.Choice(["one-hot", "sparse"]), default="one-hot",
                 show_default=True, help="How classes stand in the file."),
    click.option("--label-map", help="OLD=NEW,… or a JSON file: renames and merges classes."),
    click.option("--augment", default="", help="flip, shift=PIXELS, crop=SHARE, noise=STD."),
    click.option("--augment-factor", type=click.IntRange(2), default=2, show_default=True,
                 help="How often each training sample is there."),
)  # fmt: skip

split_options = stack(
    click.option("--split", multiple=True,
                 help="Splits: names, or NAME=SHARE to divide anew.  [default: train test]"),
    click.option("--length", type=click.IntRange(1), multiple=True, help="Samples of each split."),
    click.option("--train-length", "-l", type=click.IntRange(1),
                 help="ONE's former option: samples of train, 1000 if only the next is given."),
    click.option("--test-length", "-t", type=click.IntRange(1),
                 help="Likewise of test: 100 if only the one before is given."),
    click.option("--fold", help="K/N: test on the K-th of N parts."),
    click.option("--stratify/--no-stratify", default=None, help="Divide each class by itself."),
    click.option("--group-by", default="", help="What stays in one split: a column left out, or a "
                 "pattern for file names."),
    click.option("--shuffle/--no-shuffle", default=None,
                 help="[default: what is divided, or comes class by class]"),
    click.option("--seed", type=click.IntRange(0), default=0, show_default=True,
                 help="Of shuffling and augmentation."),
)  # fmt: skip

output_options = stack(
    click.option("--out-dir", "-o", type=FOLDER, default="out", show_default=True,
                 help="Where the files go."),
    click.option("--prefix-name", "-p", default="", help="Begins the names of the files."),
    click.option("--output-format", type=click.Choice(list(OUTPUTS)), default="raw",
                 show_default=True, help="Raw as onert_train reads it, HDF5 or NPZ."),
    click.option("--on-error", type=click.Choice(["stop", "skip"]), default="stop",
                 show_default=True, help="At a sample that cannot be read."),
    click.option("--workers", type=click.IntRange(1), help="Threads.  [default: all cores]"),
)  # fmt: skip
