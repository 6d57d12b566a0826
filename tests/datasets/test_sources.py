"""Sources of one's own: folders, archives, tables, arrays, sounds, functions, builders."""

import gzip
import io
import sys
import tarfile
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from support.datafiles import (
    files,
    jpeg,
    made,
    odt,
    picture_folder,
    plain_picture,
    refused,
    samples,
    sidecar,
    wav,
)
from support.paths import MODELS, ROOT

from odt import Trainer
from odt.core.model.record import Record
from odt.datasets.arrays import ArrayOptions, open_arrays
from odt.datasets.new_data import open_new
from odt.datasets.picture_files import decode_picture
from odt.datasets.sounds import Sound
from odt.datasets.source_format import Opening
from odt.errors import DataError

KWS = MODELS / "mlperf-tiny-kws-dscnn-int8.tflite"
EXAMPLES = ROOT / "examples" / "data"
RAW = ("--scale", "none", "--no-shuffle", "--no-stratify")


def grays(path: Path) -> list[int]:
    """Each picture's one value."""
    x = samples(path)
    assert (x == x[:, :1, :1, :1]).all()
    return [int(v) for v in x[:, 0, 0, 0]]


@pytest.mark.parametrize("kind", ["folder", "zip", "tar", "tar.gz"])
def test_folders_of_classes_may_be_archived(tmp_path: Path, kind: str) -> None:
    root = picture_folder(tmp_path / "set")
    path = root if kind == "folder" else tmp_path / f"set.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for file in root.rglob("*.png"):
                archive.write(file, file.relative_to(tmp_path))
    elif kind.startswith("tar"):
        with tarfile.open(path, "w:gz" if kind == "tar.gz" else "w") as tar:
            tar.add(root, "set")
    made("--source", path, *RAW, "-o", tmp_path / "o", "--workers", 2)
    train = grays(tmp_path / "o/train.input.bin")
    assert train == [0, 1, 2, 3, 4, 100, 101, 102]
    assert grays(tmp_path / "o/test.input.bin") == [103, 104]
    assert samples(tmp_path / "o/train.output.bin").argmax(axis=1).tolist() == [0] * 5 + [1] * 3
    assert sidecar(tmp_path / "o/train.input.bin")["classes"] == ["a", "b"]


def test_train_and_test_folders_are_kept_and_shuffled(tmp_path: Path) -> None:
    picture_folder(tmp_path / "s/train", 20)
    picture_folder(tmp_path / "s/test", 2)
    made("--source", tmp_path / "s", "--scale", "none", "-o", tmp_path / "o")
    train = grays(tmp_path / "o/train.input.bin")
    assert sorted(train) == [*range(20), *range(100, 120)] != train
    labels = samples(tmp_path / "o/train.output.bin").argmax(axis=1)
    assert labels.tolist() == [int(g >= 100) for g in train]


def test_workers_do_not_change_a_byte(tmp_path: Path) -> None:
    picture_folder(tmp_path / "s", 30)
    for workers in (1, 3):
        made("--source", tmp_path / "s", "--augment", "flip,noise=0.1", "--workers", workers,
             "-o", tmp_path / str(workers))  # fmt: skip
    one, other = ({p.name: p.read_bytes() for p in (tmp_path / k).iterdir()} for k in ("1", "3"))
    assert one == other


def test_pictures_of_any_mode_become_rgb_and_upright(tmp_path: Path) -> None:
    from PIL import Image

    folder = tmp_path / "s/a"
    folder.mkdir(parents=True)
    for mode, value in (("L", 7), ("RGBA", (7, 7, 7, 9)), ("P", 7), ("LA", (7, 9)), ("1", 0)):
        Image.new(mode, (6, 4), value).save(folder / f"{mode}.png")
    turned = Image.new("RGB", (4, 6), (7, 7, 7))
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera lay on its side
    turned.save(folder / "turned.jpg", exif=exif)
    # 16 bits are rounded to 8: 257 · 7 ± 128 is 7; a PGM file scales its largest value to 65535.
    wide = np.full((6, 4), 257 * 7 + 128, np.uint16)
    wide[0, 0], wide[0, 1] = 65535, 257 * 7 - 128
    Image.fromarray(wide).save(folder / "wide.png", exif=exif)
    (folder / "wide.pgm").write_bytes(b"P5 6 4 4095\n" + bytes((0, 112)) * 24)  # 112 / 4095 · 255
    said = made("--source", tmp_path / "s", "--split", "train=1.0", *RAW, "-o", tmp_path / "o")
    assert "s: 2 of 8 files: rounded from 16 to 8 bits per channel." in said.stderr
    x = samples(tmp_path / "o/train.input.bin")
    assert x.shape == (8, 4, 6, 3)
    white = x == 255
    assert [int(sample.sum()) for sample in white] == [0] * 7 + [3]  # the corner of wide.png
    assert white[-1, 0, 5].all(), "turned"
    assert sorted({*x[~white].tolist()}) == [0, 7]
    assert [int(sample.max()) for sample in x[:-1]] == [0, 7, 7, 0, 7, 7, 7]  # P has no palette


def test_a_tiff_image_of_16_bits_is_refused_with_what_to_do(tmp_path: Path) -> None:
    from PIL import Image

    picture = io.BytesIO()
    Image.fromarray(np.full((6, 4), 300, np.uint16)).save(picture, "TIFF")
    with pytest.raises(DataError, match=r"mode I;16\. Convert it, or give its"):
        decode_picture(picture.getvalue())


def test_groups_of_file_names_stay_together(tmp_path: Path) -> None:
    for c in "ab":
        (tmp_path / "s" / c).mkdir(parents=True)
        for k in range(12):
            (tmp_path / f"s/{c}/person{k % 4}_{k}.png").write_bytes(plain_picture(k % 4))
    made("--source", tmp_path / "s", "--scale", "none", "--group-by", r"person(\d)",
         "--split", "train", "test=0.25", "-o", tmp_path / "o")  # fmt: skip
    train = set(grays(tmp_path / "o/train.input.bin"))
    assert not train & set(grays(tmp_path / "o/test.input.bin"))


CSV = "size,color,weight,kind\n1,red,0.5,cat\n2,blue,,dog\n3,red,1.5,cat\n4,blue,2.5,dog\n"


def test_a_table_has_names_words_and_missing_values(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(CSV)
    args = ("--source", tmp_path / "t.csv", "--leave-out", "color", "--no-shuffle", "-o",
            tmp_path / "o", "--split", "train=1.0", "--no-stratify")  # fmt: skip
    made(*args, "--missing", "mean")
    x = samples(tmp_path / "o/train.input.bin")
    assert x.tolist() == [[1, 0.5], [2, 1.5], [3, 1.5], [4, 2.5]]
    assert samples(tmp_path / "o/train.output.bin").argmax(axis=1).tolist() == [0, 1, 0, 1]
    assert sidecar(tmp_path / "o/train.input.bin")["classes"] == ["cat", "dog"]
    assert "t.csv" in refused(*args)
    made(*args, "--missing", "drop")
    assert sidecar(tmp_path / "o/train.input.bin")["source"]["left out"] == {"a missing value": 1}
    assert samples(tmp_path / "o/train.input.bin").shape == (3, 2)


@pytest.mark.parametrize("name", ["t.tsv", "t.csv", "t.txt", "t.csv.gz"])
def test_tables_of_other_shapes(tmp_path: Path, name: str) -> None:
    delimiter = {"t.tsv": "\t", "t.csv": ";", "t.txt": "  "}.get(name, ",")
    text = (
        "\n".join(delimiter.join(row.split()) for row in ("1 0.5 7", "0 1.5 8", "1 2.5 9")) + "\n"
    )
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    made("--source", tmp_path / name, "--label-column", 0, "--split", "train=1.0", *RAW,
         "-o", tmp_path / "o")  # fmt: skip
    assert samples(tmp_path / "o/train.input.bin").tolist() == [[0.5, 7], [1.5, 8], [2.5, 9]]
    assert samples(tmp_path / "o/train.output.bin").argmax(axis=1).tolist() == [1, 0, 1]


def test_a_table_without_targets_makes_inputs_alone(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{k},{k}.5\n" for k in range(10)))
    args = ("--source", tmp_path / "t.csv", "--label-column", "none", "--split", "train",
            "test=2", *RAW, "-o", tmp_path / "o")  # fmt: skip
    made(*args)
    names = [f"{split}.input.bin" for split in ("test", "train")]
    assert files(tmp_path / "o") == sorted([*names, *(f"{name}.json" for name in names)])
    assert samples(tmp_path / "o/train.input.bin").shape == (8, 2)
    said = sidecar(tmp_path / "o/train.input.bin")
    assert said["files"] == {"input": "train.input.bin"}
    assert said["targets"] == "none"
    shown = ("data", "show", tmp_path / "o/train.input.bin", "--sheet", tmp_path / "s.png")
    assert odt(*shown).exit_code == 0


def test_the_first_line_of_scikit_learns_files_names_the_classes(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("3,2,rose,tulip\n1,2,0\n3,4,1\n5,6,1\n")
    made("--source", tmp_path / "t.csv", "--split", "train=1.0", "-o", tmp_path / "o")
    assert sidecar(tmp_path / "o/train.input.bin")["classes"] == ["rose", "tulip"]


@pytest.mark.parametrize("header", [(), ("--no-header",)])
def test_a_first_sample_is_not_taken_for_names_of_classes(
    tmp_path: Path, header: tuple[str, ...]
) -> None:
    (tmp_path / "t.csv").write_text("1,2,cat\n3,4,dog\n5,6,cat\n7,8,dog\n")
    made("--source", tmp_path / "t.csv", *header, "--split", "train=1.0", *RAW,
         "-o", tmp_path / "o")  # fmt: skip
    assert samples(tmp_path / "o/train.input.bin").tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]


def test_without_names_in_the_first_line_it_is_a_sample(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("3,2,rose\n1,2,0\n3,4,1\n")
    made("--source", tmp_path / "t.csv", "--no-header", "--split", "train=1.0", *RAW,
         "-o", tmp_path / "o")  # fmt: skip
    assert samples(tmp_path / "o/train.input.bin").tolist() == [[3, 2], [1, 2], [3, 4]]


def test_targets_may_be_values_in_a_file_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1,2\n3,4\n5,6\n")
    (tmp_path / "y.csv").write_text("0.5\n1.5\n2.5\n")
    made("--source", tmp_path / "x.csv", "--target-source", tmp_path / "y.csv", *RAW[:3],
         "--split", "train=1.0", "-o", tmp_path / "o")  # fmt: skip
    assert samples(tmp_path / "o/train.output.bin").tolist() == [[0.5], [1.5], [2.5]]


@pytest.mark.parametrize("ending", ["npz", "h5"])
def test_arrays_are_found_by_their_usual_names(tmp_path: Path, ending: str) -> None:
    x = np.arange(24, dtype=np.float16).reshape(8, 3)
    y = np.array([0, 1, 2, 0, 1, 2, 0, 1])
    arrays: dict[str, Any] = {"x_train": x[:6], "y_train": y[:6], "x_test": x[6:], "y_test": y[6:]}
    if ending == "npz":
        np.savez(tmp_path / "d.npz", name_train=np.array(["a"] * 6), **arrays)
    else:
        with h5py.File(tmp_path / "d.h5", "w") as f:
            for name, a in arrays.items():
                f[name] = a
    made("--source", tmp_path / f"d.{ending}", "-o", tmp_path / "o")
    assert np.array_equal(samples(tmp_path / "o/train.input.bin"), x[:6])
    assert samples(tmp_path / "o/test.output.bin").argmax(axis=1).tolist() == [0, 1]


def test_names_of_arrays_are_all_read_or_refused(tmp_path: Path) -> None:
    x, y = np.ones((4, 3), np.float32), np.arange(4) % 2
    path = tmp_path / "d.npz"
    np.savez(path, x=x, X=2 * x, y=y, pairs=np.stack([y, y], 1), none=x[:0], none_y=y[:0])
    part = open_arrays(path, ArrayOptions(x="X, x", y="y")).parts["all"].read(0)
    assert [float(a[0]) for a in part.inputs] == [2, 1]
    for options, rule in (
        (ArrayOptions(x="x,z", y="y"), "must have the arrays x, z, but lacks z"),
        (ArrayOptions(x="z", y="y"), "must have arrays called z, but has"),
        (ArrayOptions(y="pairs", regression=False), "one number for each sample, but got"),
        (ArrayOptions(y="y,pairs", regression=False), "must be in one array"),
        (ArrayOptions(y="x", x="x", regression=False), "one number for each sample"),
        (ArrayOptions(x="none", y="none_y"), "must have samples, but has none"),
    ):
        with pytest.raises(DataError, match=rule):
            open_arrays(path, options)


def test_new_arrays_of_several_parts_are_one_part(tmp_path: Path) -> None:
    x, y = np.arange(12, dtype=np.float32).reshape(6, 2), np.arange(6) % 2
    np.savez(tmp_path / "d.npz", x_train=x[:4], y_train=y[:4], x_test=x[4:], y_test=y[4:])
    source = open_new(Opening(str(tmp_path / "d.npz")), Record("features", (), ("0", "1")))
    (part,) = source.parts.values()
    assert [part.read(k).inputs[0].tolist() for k in range(6)] == x.tolist()
    assert part.labels is not None
    assert part.labels.tolist() == y.tolist()


def test_raw_and_npy_files_with_their_targets(tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.uint8).reshape(3, 2, 2, 1)
    (tmp_path / "x.bin").write_bytes(x.tobytes())
    np.save(tmp_path / "y.npy", np.array([0, 1, 1]))
    made("--source", tmp_path / "x.bin", "--shape", "2x2x1", "--source-dtype", "uint8",
         "--target-source", tmp_path / "y.npy", "--split", "train=1.0", *RAW,
         "-o", tmp_path / "o")  # fmt: skip
    assert np.array_equal(samples(tmp_path / "o/train.input.bin"), x)
    assert samples(tmp_path / "o/train.output.bin").argmax(axis=1).tolist() == [0, 1, 1]


def wav_folder(root: Path) -> Path:
    tone = np.sin(2 * np.pi * 1000 * np.arange(8000) / 16000)
    for name, x in (("tone", tone), ("noise", np.random.default_rng(0).uniform(-1, 1, 12000))):
        (root / name).mkdir(parents=True)
        for k in range(5):
            (root / name / f"{k}.wav").write_bytes(wav(x * 0.5))
    return root


def test_sounds_are_cut_or_filled_to_one_length(tmp_path: Path) -> None:
    made("--source", wav_folder(tmp_path / "s"), "--seconds", 0.6, *RAW, "-o", tmp_path / "o")
    x = samples(tmp_path / "o/train.input.bin")
    assert x.shape == (8, 9600)
    assert abs(x).max() == pytest.approx(0.5, abs=1e-3)
    assert not x[-1, 8000:].any()  # tone comes after noise


def test_log_mel_finds_the_band_of_a_tone(tmp_path: Path) -> None:
    made("--source", wav_folder(tmp_path / "s"), "--seconds", 0.5, "--mel", 40, *RAW,
         "-o", tmp_path / "o")  # fmt: skip
    x = samples(tmp_path / "o/train.input.bin")
    assert x.shape == (8, 1 + (8000 - 512) // 256, 40)
    first, last = (1125 * np.log1p(f / 700) for f in (300, 8000))
    band = (1125 * np.log1p(1000 / 700) - first) / (last - first) * 41 - 1  # of 1,000 Hz
    assert abs(x[-1].argmax(axis=1) - band).max() <= 1
    assert (x.max(axis=(1, 2)) == 0).all()
    assert x.min() >= -80


def test_mfccs_are_those_of_the_formula() -> None:
    """Each coefficient of a frame, summed up by its definition."""
    sound = Sound(seconds=0, mel=8, mfcc=3, frame=480, hop=320, low=20, high=4000)
    x = np.random.default_rng(0).uniform(-0.3, 0.4, 900)
    got = sound.mfccs(x)
    assert got.shape == (2, 3)
    frame = x[320:800] / x.max() * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(480) / 480))
    spectrum = abs(np.fft.fft(frame, 512)[:257])
    mels = [1127 * np.log(1 + k * 16000 / 512 / 700) for k in range(257)]
    first, last = (1127 * np.log(1 + f / 700) for f in (20, 4000))
    edges = np.linspace(first, last, 10)
    logs = []
    for low, middle, high in zip(edges, edges[1:], edges[2:], strict=False):
        weights = [np.interp(m, [low, middle, high], [0, 1, 0]) for m in mels[1:]]
        logs.append(np.log(spectrum[1:] @ weights + 1e-6))
    for k in range(3):
        wanted = sum(a * np.cos(np.pi / 8 * (b + 0.5) * k) for b, a in enumerate(logs)) / 2
        assert got[1, k] == pytest.approx(wanted, rel=1e-5)


def test_the_shipped_keyword_spotter_understands_mfccs_of_gen_datafile(tmp_path: Path) -> None:
    """Of the words that the model knows, it hears yes (9) and no (3) in most recordings."""
    made("--source", EXAMPLES / "yes-no-sounds.zip", "--rate", 8000, "--mel", 40, "--mfcc", 10,
         "--frame", 240, "--hop", 160, "--mel-range", "20,4000", *RAW, "-o", tmp_path)  # fmt: skip
    x, y = samples(tmp_path / "test.input.bin"), samples(tmp_path / "test.output.bin")
    found = Trainer(KWS).predict(x[..., np.newaxis])[:, [3, 9]].argmax(axis=1)
    assert (found == y.argmax(axis=1)).mean() > 0.9


SAMPLES = """
import numpy as np
def both(part):
    for k in range(9 if part == "train" else 3):
        yield (np.full(2, k, np.float32), np.full(3, -k, np.float32)), k % 2
both.classes = ("even", "odd")
def all_of_them():
    for k in range(10):
        yield {"image": np.full((2, 2, 1), k, np.uint8), "label": np.float32(k / 2)}
def endless(part):
    k = 0
    while True:
        yield np.full(2, k, np.float32), k % 2
        k += 1
endless.classes = ("even", "odd")
def bad():
    yield 1, 2, 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "my_samples.py").write_text(SAMPLES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "my_samples"
    sys.modules.pop("my_samples", None)


def test_a_function_gives_several_inputs(tmp_path: Path, module: str) -> None:
    made("--source", f"{module}:both", "-o", "o", "--length", 7, 2)
    data = np.fromfile(tmp_path / "o/train.input.7.bin", np.float32)
    assert data[:14].tolist() == [k for k in range(7) for _ in range(2)]
    assert data[14:].tolist() == [-k for k in range(7) for _ in range(3)]
    tensors = sidecar(tmp_path / "o/train.input.7.bin")["tensors"]
    assert [t["shape"] for t in tensors] == [[2], [3]]


def test_statistics_of_a_stream_are_those_of_its_first_samples(tmp_path: Path, module: str) -> None:
    made("--source", f"{module}:endless", "--split", "train", "--length", 5, "--scale",
         "standardize", "-o", "o")  # fmt: skip
    x = samples(tmp_path / "o/train.input.5.bin")
    assert x[:, 0] == pytest.approx((np.arange(5) - 2) / np.sqrt(2))


def test_a_function_without_parts_is_divided(tmp_path: Path, module: str) -> None:
    made("--source", f"{module}:all_of_them", "-o", "o", "--split", "train=0.7", "test=0.3")
    pieces = [samples(tmp_path / f"o/{s}.input.bin") for s in ("train", "test")]
    values = [round(float(x[0, 0, 0]) * 255) for piece in pieces for x in piece]
    assert sorted(values) == list(range(10))
    assert len(pieces[0]) == 7


def test_names_of_no_function_are_refused(module: str) -> None:
    assert "must be a function" in refused("--source", f"{module}:nothing")
    assert "must be (x, y)" in refused("--source", f"{module}:bad", "--split", "train=1.0")
    assert "No module named" in refused("--source", "no_such_module:f")


def test_builders_name_the_extra_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "pip install 'odt[tfds]'" in refused("imagenet_a")
    assert "pip install 'odt[huggingface]'" in refused("--source", "hf:beans")


class Rows(list[Any]):
    features = types.SimpleNamespace()


def test_builders_give_their_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for the packages: the few calls that odt makes of them."""
    rows = Rows({"image": np.full((3, 3, 1), k, np.uint8), "label": k % 2} for k in range(6))
    features = {"image": None, "label": types.SimpleNamespace(names=["even", "odd"])}
    rows.features = features  # type: ignore[assignment]  # as datasets has it
    splits = {"train": types.SimpleNamespace(num_examples=6)}
    builder = types.SimpleNamespace(
        download_and_prepare=lambda: None,
        info=types.SimpleNamespace(features=features, splits=splits),
        as_dataset=lambda split: rows,
    )
    tfds: Any = types.ModuleType("tensorflow_datasets")
    tfds.builder, tfds.as_numpy = lambda name, data_dir: builder, lambda ds: ds
    hugging: Any = types.ModuleType("datasets")
    hugging.load_dataset = lambda name, cache_dir: {"train": rows, "validation": rows}
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", tfds)
    monkeypatch.setitem(sys.modules, "datasets", hugging)
    for source in ("tfds:some", "hf:some"):
        made("--source", source, "--split", "train", "--scale", "none", "-o", tmp_path / "o")
        assert grays(tmp_path / "o/train.input.bin") == list(range(6))
        assert sidecar(tmp_path / "o/train.input.bin")["classes"] == ["even", "odd"]
    made("--source", "hf:some", "-o", tmp_path / "all")  # all splits of the source
    written = {path.name.partition(".")[0] for path in (tmp_path / "all").iterdir()}
    assert written == {"train", "validation"}


def test_classes_are_renamed_and_merged(tmp_path: Path) -> None:
    picture_folder(tmp_path / "s", classes="abc")
    made("--source", tmp_path / "s", "--label-map", "a=x,c=x", "-o", tmp_path / "o", *RAW)
    assert sidecar(tmp_path / "o/train.input.bin")["classes"] == ["x", "b"]
    labels = samples(tmp_path / "o/train.output.bin").argmax(axis=1)
    assert labels.tolist() == [0] * 5 + [1] * 5 + [0] * 2


def test_some_classes_of_a_model_keep_their_numbers(tmp_path: Path) -> None:
    """Folders of two of a model's classes, as --classes lists them in the model's order."""
    picture_folder(tmp_path / "s", classes="ab")
    made("--source", tmp_path / "s", "--classes", "x, b,y,a", "-o", tmp_path / "o", *RAW)
    assert sidecar(tmp_path / "o/train.input.bin")["classes"] == ["x", "b", "y", "a"]
    labels = samples(tmp_path / "o/train.output.bin")
    assert labels.shape[1] == 4
    by_gray = dict(zip(grays(tmp_path / "o/train.input.bin"), labels.argmax(axis=1), strict=True))
    made("--source", tmp_path / "s", "-o", tmp_path / "p", *RAW)
    alone = samples(tmp_path / "p/train.output.bin").argmax(axis=1)
    for gray, k in zip(grays(tmp_path / "p/train.input.bin"), alone, strict=True):
        assert by_gray[gray] == (3, 1)[k]


def test_classes_of_a_table_that_are_numbers_get_names(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,class\n1,0\n2,2\n3,1\n4,2\n")
    made("--source", tmp_path / "t.csv", "--classes", "x,y,z", "--split", "train=1.0",
         "-o", tmp_path / "o", *RAW)  # fmt: skip
    assert sidecar(tmp_path / "o/train.output.bin")["classes"] == ["x", "y", "z"]
    rows = {int(x): int(k) for x, k in zip(
        samples(tmp_path / "o/train.input.bin").ravel(),
        samples(tmp_path / "o/train.output.bin").argmax(axis=1), strict=True,
    )}  # fmt: skip
    assert rows == {1: 0, 2: 2, 3: 1, 4: 2}


def test_copies_are_of_training_samples_only(tmp_path: Path) -> None:
    picture_folder(tmp_path / "s")
    made("--source", tmp_path / "s", "--augment", "noise=0.01", "--augment-factor", 3,
         "-o", tmp_path / "o", *RAW)  # fmt: skip
    x = samples(tmp_path / "o/train.input.bin")
    assert x.shape[0] == 24
    assert (x[:8] == np.rint(x[:8])).all()
    assert 0 < abs(x[8:16] - x[:8]).max() < 0.1
    assert len(samples(tmp_path / "o/test.input.bin")) == 2


def test_a_picture_may_be_any_of_four_formats(tmp_path: Path) -> None:
    (tmp_path / "s/a").mkdir(parents=True)
    pixels = np.full((8, 8, 3), 90, np.uint8)
    for ending, kind in (("jpg", "JPEG"), ("png", "PNG"), ("bmp", "BMP"), ("WEBP", "WEBP")):
        (tmp_path / f"s/a/x.{ending}").write_bytes(jpeg(pixels, kind))
    made("--source", tmp_path / "s", "--split", "train=1.0", *RAW, "-o", tmp_path / "o")
    assert abs(samples(tmp_path / "o/train.input.bin") - 90).max() <= 2
