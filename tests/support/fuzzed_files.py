"""Small valid files of all kinds that odt reads, with functions that damage and read them."""

import gzip
import io
import pickle
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from model_builder import ModelBuilder

from odt.cli.commands.checkpoint import describe
from odt.cli.commands.data import lines
from odt.core.checkpoints.checkpoint import Checkpoint, capture, encode, restore
from odt.core.checkpoints.files import decode_any, write_any
from odt.core.checkpoints.onert_checkpoint import contents
from odt.core.checkpoints.resume import progress_of, read_checkpoint, read_resume
from odt.core.data.columns import open_columns
from odt.core.data.dataset import DataSet, EpochOrder
from odt.core.data.sidecar import Sidecar, read_sidecar
from odt.core.formats.reader import read_model
from odt.core.lowering.class_head import class_head, frozen_hash
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.dequantize import dequantize_weights
from odt.core.model.training_info import TrainingInfo
from odt.core.training.feature_store import FeatureStore, read_store
from odt.core.training.trainer import Trainer
from odt.datasets.open_source import open_source
from odt.datasets.published import open_published
from odt.datasets.source import EndOfSamplesError, Source
from odt.datasets.source_format import Opening
from odt.datasets.statistics import column_statistics, label_names, open_any
from odt.datasets.tables import TableOptions
from odt.kernels.rows.opdef import Array, TensorSpec
from support.datafiles import jpeg, wav
from support.file_mutations import (
    Damage,
    any_bytes,
    cells,
    either,
    fields,
    json_text,
    npy_header,
    own_checkpoint,
    pickle_operations,
    png_chunk,
    tar_of,
    zip_of,
)
from support.idx import idx

Read = Callable[[Path], object]
SAMPLE = TensorSpec((4,), np.dtype(np.float32))
BYTES = TensorSpec((4,), np.dtype(np.uint8))
ORDER = EpochOrder(range(8))
CLASSES = ("cat", "dog", "fish", "ape")


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes:
        file: name of the file.
        make: returns the bytes of a valid file.
        damage: damages the bytes.
        read: independent ways of reading the file.
        commands: command lines that read the file; {f} is the file, {d} its folder, {m} a model.
        beside: returns the names and bytes of other files that are read with it.
    """

    file: str
    make: Callable[[], bytes]
    damage: Damage
    read: Sequence[Read]
    commands: Sequence[str]
    beside: Callable[[], dict[str, bytes]] = dict


def build_model(path: Path) -> None:
    """4 → 3 values with a SOFTMAX."""
    builder = ModelBuilder("circle", seed=0)
    y = builder.add_dense(builder.add_input((1, 4)), 3)
    builder.write(path, builder.add_operator("SOFTMAX", (y,), (1, 3)))


def samples() -> Array:
    return np.random.default_rng(0).random((8, 4), np.float32)


def saved(save: Callable[[io.BytesIO], object]) -> bytes:
    out = io.BytesIO()
    save(out)
    return out.getvalue()


def h5(chunked: bool) -> bytes:
    def fill(out: io.BytesIO) -> None:
        options: dict[str, Any] = {"chunks": (4, 4), "compression": "gzip"} if chunked else {}
        with h5py.File(out, "w") as file:
            file.create_dataset("value/0", data=samples(), **options)

    return saved(fill)


def sidecar() -> bytes:
    recipe = {
        "files": {"output": "x.bin"},
        "source": {"name": "photos"},
        "preprocessing": [{"step": "scale", "to": "0..1"}],
    }
    return Sidecar((BYTES,), 8, CLASSES, "00", recipe, "0..1").to_json().encode()


def table() -> bytes:
    rows = [f"{k},{k / 3:.2f},{CLASSES[k % 4]}" for k in range(24)]
    return "\n".join(["a,b,kind", *rows]).encode()


def numbers() -> bytes:
    return "\n".join(f"{k / 3:.2f},{k % 4}" for k in range(24)).encode()


def picture(kind: str = "PNG") -> bytes:
    return jpeg(np.random.default_rng(0).integers(0, 256, (9, 7, 3), np.uint8), kind)


MEMBERS = ("train/a/1.png", "train/a/2.png", "train/b/1.png", "test/a/1.png", "test/b/1.png")


def zipped() -> bytes:
    def fill(out: io.BytesIO) -> None:
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in MEMBERS:
                archive.writestr(name, picture())

    return saved(fill)


def tarred() -> bytes:
    def fill(out: io.BytesIO) -> None:
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name in (*MEMBERS, "train/a/ä" + "n" * 120 + ".png"):
                member = tarfile.TarInfo(name)
                member.size = len(picture())
                archive.addfile(member, io.BytesIO(picture()))

    return saved(fill)


def cifar() -> bytes:
    rng = np.random.default_rng(0)
    data = rng.integers(0, 256, (2, 3072), np.uint8)
    return pickle.dumps({b"data": data, b"labels": [3, 1], b"names": ["a", "b"]}, 2)


def cifar_files() -> dict[str, bytes]:
    names = [f"data_batch_{k}" for k in range(2, 6)]
    return dict.fromkeys([*names, "test_batch"], cifar())


def mnist_files() -> dict[str, bytes]:
    images, labels = np.zeros((3, 28, 28), np.uint8), np.arange(3, dtype=np.uint8)
    return {
        f"{part}-{name}-ubyte": idx(a)
        for part in ("train", "t10k")
        for name, a in (("images-idx3", images), ("labels-idx1", labels))
    }


@cache
def trainer() -> Trainer:
    """Returns a shared trainer; each restore overwrites the state of the previous one."""
    path = Path("fuzzed-model.circle")
    build_model(path)
    model = read_model(path)
    path.unlink()
    info = TrainingInfo(optimizer="adam", batch_size=2)
    return Trainer(dequantize_weights(model).graph, info)


@cache
def state() -> Checkpoint:
    t = trainer()
    found = capture(t.graph, t.parameters, progress_of(t, ORDER), {"device": "kitchen"})
    return Checkpoint(
        found.optimizer, found.hyper_parameters, found.progress, found.entries,
        tuple(a.copy() for a in found.arrays), found.properties,
    )  # fmt: skip


def checkpoint(ending: str) -> bytes:
    path, model, found = Path(f"fuzzed{ending}"), Path("fuzzed-model.circle"), state()
    build_model(model)
    write_any(path, found, "made", read_model(model))
    data = path.read_bytes()
    path.unlink()
    return data


def read_raw(path: Path) -> object:
    return read_data(path, (4,))


def read_data(path: Path, shape: tuple[int, ...] = ()) -> object:
    columns, found = open_any(str(path), shape)
    classes = found.classes if found else ()
    for column in columns:
        list(lines(column_statistics(column, classes)))
    return label_names(str(path), found, 4)


def read_column(path: Path) -> object:
    data = DataSet(open_columns(str(path), [SAMPLE], "input"))
    data.check_all()
    out = np.empty((3, 4), np.float32)
    if data.length > 2:
        data.read([2, 0, 1], [out], [])
    return out


def described(read: Read) -> Read:
    """Reads the file that a sidecar describes."""
    return lambda path: read(path.with_suffix(""))


def read_samples(source: Source) -> object:
    read = []
    for part in source.parts.values():
        for k in range(8 if part.length is None else min(part.length, 8)):
            try:
                read.append((part.label_of(k), part.read(k)))
            except EndOfSamplesError:
                break
    return read


def source(path: Path) -> object:
    return read_samples(open_source(Opening(str(path))))


def regression(path: Path) -> object:
    return read_samples(open_source(Opening(str(path), table=TableOptions(regression=True))))


def paired(path: Path) -> object:
    """Reads the arrays of a file as inputs and as targets."""
    return read_samples(open_source(Opening(str(path), targets=path)))


def folder(path: Path) -> object:
    return source(path.parents[1])


def published(name: str) -> Read:
    return lambda path: read_samples(open_published(name, path.parent))


def show(path: Path) -> object:
    data = read_checkpoint(path)
    if not data.startswith((b"odt", b"PK", b"\x89HDF")):
        return contents(data, str(path))
    found = decode_any(data, str(path))
    return describe(found, ""), b"".join(map(bytes, encode(found)))


def resume(path: Path) -> object:
    found, t = read_resume(path), trainer()
    found.training_info(t.graph)
    found.on(LoweredGraphs(t.graph))
    found.restore(t.graph, t.parameters)
    return found.warning(t, ORDER), found.start(2, 4)


def restored(path: Path) -> object:
    t = trainer()
    restore(decode_any(read_checkpoint(path), str(path)), str(path), t.graph, t.parameters)
    return None


DATA = (
    "data show {f}",
    "predict {m} --load-input {f}",
    "train {m} --load-input {f} --load-expected {d}/t.npy --batch-size 2 --epochs 1 --shuffle",
)
RAW = ("data show {f} --shape 4", *DATA[1:])
SOURCE = ("gen-datafile --source {f} -o {d}/o --split train=1.0",)
CHECKPOINT = (
    "checkpoint show {f}",
    "checkpoint convert {f} {d}/new.odt --model {m}",
    "checkpoint convert {f} {d}/new.ckpt --model {m}",
    "train {m} --load-input {d}/x.npy --load-expected {d}/t.npy --epochs 1 --checkpoint {f}",
)


def features() -> bytes:
    """A store of features, which are the inputs of the model: its only dense layer is the last."""
    graph = trainer().graph
    store = FeatureStore(frozen_hash(graph, class_head(graph)), 4).with_names(CLASSES[:3])
    return store.with_samples(samples(), np.arange(8) % 3, 20, "herding", 0).encoded()


def stored_json(data: bytes, rng: np.random.Generator) -> bytes:
    """Damages the description in a store of features."""
    with np.load(io.BytesIO(data)) as file:
        arrays = dict(file)
    arrays["store"] = np.frombuffer(json_text(arrays["store"].tobytes(), rng), np.uint8)
    return saved(lambda f: np.savez(f, allow_pickle=False, **arrays))


def replayed(path: Path) -> object:
    store = read_store(path)
    names = [f"{k} {name}" for k, name in enumerate(store.names)]
    more = store.with_names([*names, "new"]).with_samples(
        np.ones((3, store.width), np.float32), np.full(3, len(names)), 2, "reservoir", 0
    )
    assert np.isfinite(store.features).all()
    return store.labels, len(more.encoded())


def kinds() -> Iterator[tuple[str, Kind]]:
    data = (read_data, read_column)
    any_or_front = either(any_bytes, fields(64))
    npz = zip_of(either(npy_header, any_bytes))
    raw = (read_raw, read_column)
    yield "raw", Kind("x.bin", lambda: samples().tobytes(), any_bytes, raw, RAW)
    yield "npy", Kind("x.npy", lambda: saved(lambda f: np.save(f, samples())),
                      either(npy_header, any_or_front), data, DATA)  # fmt: skip
    yield "npz", Kind("x.npz", lambda: saved(lambda f: np.savez(f, samples())),
                      either(npz, any_bytes), (*data, paired), DATA)  # fmt: skip
    yield "packed npz", Kind(
        "x.npz",
        lambda: saved(lambda f: np.savez_compressed(f, x=samples(), y=np.arange(8))),
        either(npz, any_bytes), (read_data, source), (*DATA, *SOURCE),
    )  # fmt: skip
    yield "h5", Kind("x.h5", lambda: h5(False), any_bytes, (*data, paired), DATA)
    yield "packed h5", Kind("x.h5", lambda: h5(True), any_bytes, (*data, paired), DATA)
    yield "sidecar", Kind(
        "x.bin.json", sidecar, either(json_text, json_text, any_bytes),
        [lambda p: read_sidecar(str(p)[:-5]), *(described(r) for r in data)],
        [line.replace("{f}", "{d}/x.bin") for line in DATA], lambda: {"x.bin": bytes(range(32))},
    )  # fmt: skip
    yield "csv", Kind("t.csv", table, either(cells, any_bytes), (source,), SOURCE)
    yield "csv of numbers", Kind("t.csv", numbers, cells, (source, regression), SOURCE)
    yield "gzipped csv", Kind("t.csv.gz", lambda: gzip.compress(table()),
                              any_or_front, (source,), SOURCE)  # fmt: skip
    yield "zip", Kind("p.zip", zipped, either(zip_of(png_chunk), any_bytes), (source,), SOURCE)
    yield "tar", Kind("p.tar", tarred, either(tar_of(any_bytes), any_bytes), (source,), SOURCE)
    yield "cifar", Kind("data_batch_1", cifar, either(pickle_operations, any_bytes),
                        (published("cifar10"),),
                        ("gen-datafile cifar10 --data-dir {d} -o {d}/o",), cifar_files)  # fmt: skip
    yield "idx", Kind("train-images-idx3-ubyte", lambda: mnist_files()["train-images-idx3-ubyte"],
                      either(fields(16), any_bytes), (published("mnist"),),
                      ("gen-datafile mnist --data-dir {d} -o {d}/o",), mnist_files)  # fmt: skip
    yield "wav", Kind("s/a/1.wav", lambda: wav(np.zeros(160)), either(fields(44), any_bytes),
                      (folder,), ("gen-datafile --source {d}/s --rate 0 -o {d}/o",))  # fmt: skip
    for ending in ("PNG", "JPEG", "BMP", "WEBP"):
        damage = either(png_chunk, any_or_front) if ending == "PNG" else any_or_front
        yield ending, Kind(f"s/a/1.{ending.lower()}", partial(picture, ending), damage,
                           (folder,), ("gen-datafile --source {d}/s -o {d}/o",))  # fmt: skip
    read = (show, resume, restored)
    yield "odt", Kind("c.odt", lambda: checkpoint(".odt"),
                      either(own_checkpoint, own_checkpoint, any_bytes), read,
                      CHECKPOINT)  # fmt: skip
    yield "onert", Kind("c.ckpt", lambda: checkpoint(".ckpt"), any_or_front, (show, resume),
                        CHECKPOINT)  # fmt: skip
    yield "npz checkpoint", Kind("c.npz", lambda: checkpoint(".npz"), either(npz, any_bytes),
                                 (show, restored), CHECKPOINT)  # fmt: skip
    yield "features", Kind(
        "s.npz", features, either(stored_json, stored_json, npz, any_bytes), (replayed,),
        ("personalize {m} --load-input {d}/x.npy --load-expected {d}/t.npy --store {f} "
         "--output {d}/new.circle --held-back 0",),
    )  # fmt: skip
    yield "h5 checkpoint", Kind("c.h5", lambda: checkpoint(".h5"), any_bytes, (show, restored),
                                CHECKPOINT)  # fmt: skip


KINDS = dict(kinds())


def prepare(folder: Path, kind: Kind) -> Path:
    """Writes all files that are read with a file of a kind; returns the path of the file."""
    for name, data in (kind.beside() | {kind.file: kind.make()}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    if kind.file != "x.npy":
        np.save(folder / "x.npy", samples())
    np.save(folder / "t.npy", np.eye(3, dtype=np.float32)[np.arange(8) % 3])
    return folder / kind.file
