"""Every option of gen-datafile on every kind of source: it has an effect, or it is refused."""

import gzip
import json
import re
import shutil
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pytest
from click.testing import CliRunner
from support.box_files import voc, voc_object
from support.datafiles import jpeg, wav
from support.gguf_files import tiny_llama
from support.idx import idx

import odt
from odt.cli.commands import gen_datafile
from odt.cli.main import main
from odt.cli.options.fits import NOUNS
from odt.cli.options.sections import Option


class Case(NamedTuple):
    """What an option is tried with.

    Attributes:
        args: the option with its value; {x} is a file of that name in the folder of sources.
        beside: options that it needs, which the run without the option has too.
        says: pattern of what a refusal may say in place of the option's name.
        instead: source → args, where these differ.
    """

    args: str
    beside: str = ""
    says: str = ""
    instead: Mapping[str, str] = {}


# Source → the arguments that select it. Words have no blanks.
SOURCES = {
    "images": "--source {images}",
    "wav": "--source {wav} --rate 8000 --seconds 0.05",
    "csv": "--source {t.csv}",
    "tsv": "--source {t.tsv}",
    "text": "--source {t.txt}",
    "tables": "--source {tables}",
    "arff": "--source {t.arff}",
    "ts": "--source {t.ts}",
    "npy": "--source {x.npy} --target-source {y.npy}",
    "npz": "--source {a.npz}",
    "hdf5": "--source {a.h5}",
    "raw": "--source {x.bin} --target-source {y.npy} --shape 4",
    "callable": "--source odd_samples:samples",
    "tfds": "--source tfds:odd --split train",
    "huggingface": "--source hf:odd --split train",
    "mnist": "mnist --data-dir {mnist}",
    "emnist": "emnist --data-dir {emnist}",
    "language": "--source {talks.jsonl} --tokenizer {language.circle}",
}
WITHOUT = {"--target-source": ("npy", "raw"), "--shape": ("raw",), "--rate": ("wav",),
           "--seconds": ("wav",), "--split": ("tfds", "huggingface"),
           "--tokenizer": ("language",)}  # fmt: skip
PUBLISHED = {"mnist", "emnist"}
GRAY = (*PUBLISHED, "tfds", "huggingface")
TABLES = ("csv", "tsv", "text", "arff", "tables")
DIVIDED = ("images", "wav", *TABLES, "ts", "npy", "npz", "hdf5", "raw", "callable", "language")
SECOND = {"csv": "{t2.csv}", "tsv": "{t2.tsv}", "text": "{t2.txt}", "arff": "{t2.arff}",
        "ts": "{t2.ts}", "images": "{images2}", "wav": "{wav2}", "callable": "odd_samples:more",
        "tfds": "tfds:odd", "huggingface": "hf:odd", "language": "{talks2.jsonl}"}  # fmt: skip
CASES = {
    "--target-source": Case("--target-source {y2.npy}", says="must hold one array", instead={
        "images": "--target-source {images.csv}", "wav": "--target-source {wav.csv}",
        "csv": "--target-source {y.csv}", "tsv": "--target-source {y.csv}",
        "text": "--target-source {y.csv}"}),
    "--masks": Case("--masks {masks}"),
    "--boxes": Case("--boxes {boxes}"),
    "--test-source": Case("--test-source {t2.csv}", says="must ", instead={
        s: f"--test-source {v}" for s, v in SECOND.items()}),
    "--as": Case("--as {record.json}", says="must "),
    "--tokenizer": Case("--tokenizer {language.circle}", says="must |not found|is text"),
    "--unlabelled": Case("--unlabelled"),
    "--label-pattern": Case("--label-pattern (.)\\.(png|wav|csv)$"),
    "--format": Case("--format auto"),
    "--dataset-name": Case("--dataset-name kmnist"),
    "--data-dir": Case("--data-dir {mnist}", says="the builder got",
                       instead={"mnist": "--data-dir {emnist}"}),
    "--variant": Case("--variant letters"),
    "--download": Case("--download", says="would be downloaded"),
    "--label-column": Case("--label-column 1"),
    "--one-hot": Case("--one-hot 0"),
    "--date": Case("--date 0=%H", says="2 columns hold|must hold dates"),
    "--window": Case("--window 2"),
    "--stride": Case("--stride 2", "--window 2"),
    "--horizon": Case("--horizon 1", "--window 2 --split train=0.6 test=0.4"),
    "--leave-out": Case("--leave-out 0"),
    "--header": Case("--header", says="must have the columns of"),
    "--delimiter": Case("--delimiter |", says="must have a column beside the target"),
    "--regression": Case("--regression"),
    "--x": Case("--x z"),
    "--y": Case("--y z"),
    "--shape": Case("--shape 2x2"),
    "--source-dtype": Case("--source-dtype int32"),
    "--classes": Case("--classes 1,0", instead={"callable": "--classes p,q"}),
    "--rate": Case("--rate 16000", says="samples per second"),
    "--seconds": Case("--seconds 0.01"),
    "--mel": Case("--mel 4 --frame 64 --hop 32"),
    "--mfcc": Case("--mfcc 2", "--mel 4 --frame 64"),
    "--frame": Case("--frame 128", "--mel 4"),
    "--hop": Case("--hop 32", "--mel 4 --frame 64"),
    "--frames": Case("--frames 1", "--mel 4 --frame 64 --hop 32"),
    "--mel-range": Case("--mel-range 100,2000", "--mel 4 --frame 64"),
    "--like": Case("--like {model}", says="must become|its output has"),
    "--size": Case("--size 3x3"),
    "--resize": Case("--resize nearest", "--size 5x3"),
    "--fit": Case("--fit pad", "--size 5x3"),
    "--color": Case("--color grayscale", instead=dict.fromkeys(GRAY, "--color rgb")),
    "--scale": Case("--scale -1..1"),
    "--mean": Case("--mean 3"),
    "--std": Case("--std 3"),
    "--missing": Case("--missing zero"),
    "--missing-target": Case("--missing-target drop"),
    "--flatten": Case("--flatten"),
    "--dtype": Case("--dtype float64"),
    "--labels": Case("--labels sparse"),
    "--label-map": Case("--label-map 1=one"),
    "--augment": Case("--augment noise=0.1"),
    "--augment-factor": Case("--augment-factor 3", "--augment noise=0.1", says="is text"),
    "--model": Case("--model mnist", says="does not fit|but got 1000"),
    "--split": Case("--split train=0.5 test=0.5"),
    "--length": Case("--length 3 1", says="should have the same count"),
    "--shuffle": Case("--shuffle", instead=dict.fromkeys(DIVIDED, "--no-shuffle")),
    "--seed": Case("--seed 5"),
    "--stratify": Case("--no-stratify", "--seed 2",
                       instead=dict.fromkeys((*GRAY, "callable", "language"), "--stratify")),
    "--fold": Case("--fold 2/3"),
    "--group-by": Case("--group-by \\d+", instead=dict.fromkeys(TABLES, "--group-by 2")),
    "--train-length": Case("--train-length 3 --test-length 1"),
    "--test-length": Case("--test-length 1 --train-length 3"),
    "--prefix-name": Case("--prefix-name p"),
    "--output-format": Case("--output-format npz"),
}  # fmt: skip
# The source itself, how any run goes (folder of the files, handling of faults, threads), and an
# option that only prints.
RUN = {"--source", "--out-dir", "--on-error", "--workers", "--show-datasets"}

FUNCTION = """
import numpy as np
def samples():
    for k in range(10):
        yield np.full((4, 3, 3), 20 * k + np.arange(3), np.uint8), k % 2
samples.classes = ("0", "1")
def more():
    yield from list(samples())[:4]
more.classes = samples.classes
"""


class Rows(list[Any]):
    """Stands in for a data set of Hugging Face."""

    features = types.SimpleNamespace()


def rows() -> Rows:
    random = np.random.default_rng(0)
    found = Rows({"image": random.integers(0, 256, (4, 3, 1), np.uint8), "label": k % 2}
                 for k in range(10))  # fmt: skip
    features: Any = {"image": None, "label": types.SimpleNamespace(names=["0", "1"])}
    found.features = features
    return found


def table(path: Path, delimiter: str, first: int, count: int) -> None:
    lines = [delimiter.join(("3", str(first + k), str(k / 2), str(k % 3), str(k % 2)))
             for k in range(count)]  # fmt: skip
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small source of each kind."""
    root = tmp_path_factory.mktemp("sources")
    random = np.random.default_rng(1)
    write_folders(root, random)
    write_tables(root)
    x, y = random.uniform(0, 9, (12, 4)).astype(np.float32), np.arange(12) % 2
    np.save(root / "x.npy", x)
    x.tofile(root / "x.bin")
    np.save(root / "y.npy", y)
    np.save(root / "y2.npy", y[::-1].copy())
    np.savez(root / "a.npz", x=x, y=y, z=x[:, 0].astype(np.int32))
    with h5py.File(root / "a.h5", "w") as file:
        for name, array in (("x", x), ("y", y), ("z", x[:, 0].astype(np.int32))):
            file[name] = array
    write_published(root, random)
    (root / "odd_samples.py").write_text(FUNCTION)
    (root / "m.gguf").write_bytes(tiny_llama("floats"))
    odt.convert_gguf(root / "m.gguf", root / "language.circle", 8)
    for name, words in (("talks", "abcdefghij"), ("talks2", "xyz")):
        lines = [json.dumps({"text": f"hello {word}"}) for word in words]
        (root / f"{name}.jsonl").write_text("\n".join(lines))
    return root


def write_folders(root: Path, random: np.random.Generator) -> None:
    """Images, masks and sounds, two classes each, and tables of their classes."""
    for name in ("images", "images2", "masks"):
        for c in "01":
            (root / name / c).mkdir(parents=True)
            for k in range(5):
                pixels = random.integers(0, 256, (4, 6, 3), np.uint8)
                pixels = pixels[..., 0] if name == "masks" else pixels
                (root / name / c / f"{c}{k % 2}_{k}.png").write_bytes(jpeg(pixels))
    for name in ("wav", "wav2"):
        for c in "01":
            (root / name / c).mkdir(parents=True)
            for k in range(5):
                (root / name / c / f"{c}_{k}.wav").write_bytes(
                    wav(random.uniform(-1, 1, 400), 8000)
                )
    (root / "boxes").mkdir()
    (root / "boxes/00_0.xml").write_text(voc("00_0.png", 6, 4, voc_object("x", 1, 1, 3, 2)))
    for kind in ("images", "wav"):
        names = sorted((root / kind).rglob("*_*"))
        lines = [f"{p.relative_to(root / kind)},{k % 2}" for k, p in enumerate(names)]
        (root / f"{kind}.csv").write_text("\n".join(["file,class", *lines]) + "\n")


def write_tables(root: Path) -> None:
    """Tables with columns of which one is constant, and series."""
    for suffix, delimiter in ((".csv", ","), (".tsv", "\t"), (".txt", " ")):
        table(root / f"t{suffix}", delimiter, 0, 12)
        table(root / f"t2{suffix}", delimiter, 50, 4)
    for c in "01":
        (root / f"tables/{c}").mkdir(parents=True)
        for k in range(2):
            table(root / f"tables/{c}/{c}{k}.csv", ",", 10 * k, 8)
    (root / "y.csv").write_text("y\n" + "".join(f"{k // 2 % 2}\n" for k in range(12)))
    head = "@relation r\n@attribute a real\n@attribute b real\n@attribute k {0,1}\n@data\n"
    head2 = "@classLabel true 0 1\n@data\n"
    for name, first in (("t", 0), ("t2", 7)):
        values = range(first, first + 12)
        (root / f"{name}.arff").write_text(head + "".join(f"{v},{v % 3},{v % 2}\n" for v in values))
        (root / f"{name}.ts").write_text(
            head2 + "".join(f"{v},{v % 3}:1,2:{v % 2}\n" for v in values)
        )


def write_published(root: Path, random: np.random.Generator) -> None:
    """The files of MNIST and of two variants of EMNIST."""
    for letters in ("balanced", "letters"):
        for part in ("train", "test"):
            begin = f"emnist-{letters}-{part}"
            (root / "emnist").mkdir(exist_ok=True)
            pixels = random.integers(0, 256, (6, 5, 5), np.uint8)
            for end, array in (("images-idx3", pixels), ("labels-idx1", np.arange(1, 7))):
                data = gzip.compress(idx(array.astype(np.uint8)))
                (root / f"emnist/{begin}-{end}-ubyte.gz").write_bytes(data)
    (root / "mnist").mkdir()
    for begin in ("train", "t10k"):
        (root / f"mnist/{begin}-images-idx3-ubyte").write_bytes(
            idx(random.integers(0, 256, (6, 5, 5), np.uint8))
        )
        (root / f"mnist/{begin}-labels-idx1-ubyte").write_bytes(idx(np.arange(6) % 2))


@pytest.fixture
def root(sources: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sources, with stand-ins for the packages of data sets, and no network."""
    splits = {"train": types.SimpleNamespace(num_examples=10)}
    builder = types.SimpleNamespace(
        download_and_prepare=lambda: None,
        info=types.SimpleNamespace(features=rows().features, splits=splits),
        as_dataset=lambda split: rows(),
    )
    tfds: Any = types.ModuleType("tensorflow_datasets")
    tfds.builder, tfds.as_numpy = lambda name, data_dir: _builder(builder, data_dir), lambda ds: ds
    hugging: Any = types.ModuleType("datasets")
    hugging.load_dataset = lambda name, cache_dir: _builder({"train": rows()}, cache_dir)
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", tfds)
    monkeypatch.setitem(sys.modules, "datasets", hugging)
    monkeypatch.setattr("odt.cli.options.datafile_source.download", _no_network)
    monkeypatch.chdir(sources)
    monkeypatch.syspath_prepend(str(sources))
    return sources


def _builder(found: Any, folder: str | None) -> Any:
    assert folder is None, f"the builder got {folder}"
    return found


def _no_network(*args: Any) -> None:
    raise AssertionError("the data set would be downloaded")


def outcome(root: Path, words: str) -> tuple[str, dict[str, bytes]]:
    """Runs gen-datafile: its error, empty if there is none, and its files."""
    out = root / "out"
    shutil.rmtree(out, ignore_errors=True)
    text = words.replace("{model}", str(Path(__file__).parents[1] / "models/mtcnn-rnet.tflite"))
    args = [str(root / a[1:-1]) if a[0] == "{" else a for a in text.split()]
    result = CliRunner().invoke(main, ["gen-datafile", *args, "-o", str(out)])
    if isinstance(result.exception, AssertionError):
        return str(result.exception), {}
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    found = {p.name: p.read_bytes() for p in out.iterdir()} if out.exists() else {}
    assert result.exit_code == 0 or not found, "files are left of a run that failed"
    return result.stderr if result.exit_code else "", found


OPTIONS = {p.opts[0]: p for p in gen_datafile.command.params if isinstance(p, Option)}


def test_the_tables_are_complete() -> None:
    """A new option gets a case, and a format with a noun a source."""
    assert CASES.keys() | RUN == OPTIONS.keys()
    # Parquet, whose reader is large, is in tests/accept/test_accept_tables.py.
    assert NOUNS.keys() - {"published", "built", "parquet"} == SOURCES.keys() - PUBLISHED


@pytest.mark.parametrize("source", SOURCES)
def test_every_option_has_an_effect_or_is_refused(root: Path, source: str) -> None:
    silent, untold = [], []
    plain: dict[str, tuple[str, dict[str, bytes]]] = {}
    selected = SOURCES[source]
    for option, case in CASES.items():
        if source in WITHOUT.get(option, ()) and option != "--data-dir":
            continue  # the source is given by it
        if case.beside not in plain:
            plain[case.beside] = outcome(root, f"{selected} {case.beside}")
        args = case.instead.get(source, case.args)
        error, found = outcome(root, f"{selected} {case.beside} {args}")
        if error:
            names = {option, *OPTIONS[option].secondary_opts, args.split()[0]}
            told = any(n in error for n in names) or (case.says and re.search(case.says, error))
            if error.count("\n") > 1 or not told:
                untold.append((option, error))
        elif found == plain[case.beside][1] and args not in (
            "--format auto",
            "--no-stratify --seed 2",
        ):
            silent.append(option)
    assert untold == []
    assert silent == []


# Options that say how new data are read, written and split; the record decides about all others.
RECORDED = {"--target-source", "--format", "--header", "--delimiter", "--x", "--y", "--shape",
            "--source-dtype", "--data-dir", "--labels", "--split", "--length", "--shuffle",
            "--seed", "--prefix-name", "--output-format"}  # fmt: skip


@pytest.mark.parametrize("source", ["images", "wav", "csv", "npy"])
def test_options_beside_a_record_have_an_effect_or_are_refused(root: Path, source: str) -> None:
    error, found = outcome(root, SOURCES[source])
    assert not error
    record = next(name for name in sorted(found) if name.endswith("train.input.bin.json"))
    (root / "kept").mkdir(exist_ok=True)
    (root / "kept" / record).write_bytes(found[record])
    (root / "kept" / record.removesuffix(".json")).write_bytes(b"")
    path = SOURCES[source].split(" --target-source")[0].split(" --rate")[0]
    selected = f"{path} --as {root / 'kept' / record}"
    plain = outcome(root, selected)
    assert not plain[0]
    silent, untold = [], []
    for option, case in CASES.items():
        args = case.instead.get(source, case.args).split()
        if option == "--as" or args[0] == "--no-stratify":
            continue  # the record itself, and what is not done anyway
        words = (
            "train" if option == "--split" else "2" if option == "--length" else " ".join(args[1:])
        )
        error, files = outcome(root, f"{selected} {args[0]} {words}")
        if error and option not in error and "columns of the training data" not in error:
            untold.append((option, error))
        elif not error and option not in RECORDED:
            untold.append((option, "is taken"))
        elif not error and files == plain[1]:
            silent.append(option)
    assert untold == []
    assert {*silent} <= {"--format", "--shuffle"}  # those that are already so
