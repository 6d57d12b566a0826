"""Detectors learn the boxes of complete data sets; LiteRT and pycocotools are the judges.

Raccoons and blood cells of `DATA/data/boxes`, Google's uint8 SSD of `DATA/data/models/boxes`, and
the FOMO of OpenMV's repository, if `FOMO` names its file. Needs pycocotools 2.0.11. PyTorch trains
the same heads in the environment of ONNX Runtime's training examples.
"""

import io
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import pytest
from support.accept_data import complete
from support.detection_judge import (
    coco_precision,
    litert_detections,
    litert_outputs,
    with_max_detections,
)
from support.detector_features import write_heads
from support.paths import ROOT
from support.random_boxes import random_boxes, random_photos

import odt
from odt.core.formats.flatbuffer.detection_postprocess import read_post_process
from odt.core.formats.reader import read_model
from odt.kernels.rows.opdef import Array
from odt.tasks.average_precision import mean_average_precision
from odt.tasks.box_counts import BoxCounts
from odt.tasks.center_f1 import count_centers
from odt.tasks.recognition import detector_of

pytestmark = pytest.mark.accept
TORCH = ROOT / ".venv" / "tutorials" / "bin" / "python"

SIZE, EPOCHS, SEEDS = 300, 12, (0, 1, 2)
MEMORY = 350  # MB of a process that trains the heads on 205 photos
MEASURED = "import resource, runpy, sys; sys.argv[0] = 'odt'\n"
MEASURED += "try: runpy.run_module('odt', run_name='__main__')\n"
MEASURED += "finally: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"


class Data(NamedTuple):
    """Data files of a part of a data set."""

    inputs: Path
    targets: Path

    def photos(self) -> Array:
        return np.fromfile(self.inputs, np.uint8).reshape(-1, SIZE, SIZE, 3)

    def boxes(self) -> list[Array]:
        count = len(self.photos())
        return list(np.fromfile(self.targets, np.float32).reshape(count, -1, 5))


@pytest.fixture(scope="module", autouse=True)
def needs() -> None:
    assert find_spec("pycocotools"), "install pycocotools 2.0.11: .venv/bin/pip install pycocotools"
    assert ssd().exists(), f"give DATA=DIR with {ssd()}"


def ssd() -> Path:
    return complete("data", "models", "boxes", "ssd-mobilenet-v1-uint8.tflite")


def run(*arguments: object) -> tuple[str, float]:
    """Runs a command of odt in a process; returns its output and its peak memory in MB."""
    words = [sys.executable, "-c", MEASURED, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, int(done.stderr.splitlines()[-1]) / 1024


def converted(
    folder: Path, files: Mapping[str, bytes], like: Path, part: str, only: str = ""
) -> Data:
    """Writes photos and their annotations to a folder, and converts them to data files.

    Args:
        folder: the new folder.
        files: name of a photo or of its XML → bytes.
        like: model that has the inputs.
        part: name of the split.
        only: class whose boxes stay; empty for all.
    """
    photos, boxes = folder / "photos", folder / "boxes"
    for place in (photos, boxes):
        place.mkdir(parents=True)
    for name, data in files.items():
        content = data
        if only and name.endswith(".xml"):
            tree = ET.parse(io.BytesIO(data))
            for item in tree.getroot().findall("object"):
                if item.findtext("name") != only:
                    tree.getroot().remove(item)
            content = ET.tostring(tree.getroot())
        ((boxes if name.endswith(".xml") else photos) / name).write_bytes(content)
    out = folder / "data"
    words = ("--source", photos, "--boxes", boxes, "--like", like, "--out-dir", out)
    run("gen-datafile", *words, "--split", f"{part}=1.0", "--no-shuffle", "--dtype", "uint8")
    return Data(out / f"{part}.input.bin", out / f"{part}.output.bin")


@cache
def archive(name: str) -> Mapping[str, bytes]:
    """Returns the photos and annotations of a data set by name, and its lists of photos."""
    with zipfile.ZipFile(complete("data", "boxes", f"{name}.zip")) as z:
        names = [n for n in z.namelist() if n.endswith((".jpg", ".xml", "train.txt", "test.txt"))]
        return {Path(n).name: z.read(n) for n in names}


def raccoons(folder: Path, like: Path) -> tuple[Data, Data]:
    """Every fifth photo, sorted by name, is for tests."""
    files = archive("raccoon")
    names = sorted(name for name in files if name.endswith(".jpg"))
    return tuple(  # type: ignore[return-value]
        converted(folder / part, with_annotations(files, chosen), like, part)
        for part, chosen in (
            ("train", [n for k, n in enumerate(names) if k % 5 != 4]),
            ("test", names[4::5]),
        )
    )


def cells(folder: Path, like: Path, only: str = "") -> tuple[Data, Data]:
    """The data set's own lists of 205 photos for training and 72 for tests."""
    files = archive("bccd")
    return tuple(  # type: ignore[return-value]
        converted(
            folder / part,
            with_annotations(files, [f"{n}.jpg" for n in files[f"{part}.txt"].decode().split()]),
            like,
            part,
            only,
        )
        for part in ("train", "test")
    )


def with_annotations(files: Mapping[str, bytes], photos: list[str]) -> Mapping[str, bytes]:
    names = [*photos, *(f"{Path(n).stem}.xml" for n in photos)]
    return {name: files[name] for name in names if name in files}


def trained(data: Data, out: Path, seed: int) -> float:
    """Trains the heads of the SSD with the defaults of the task; returns the peak memory in MB."""
    files = ("--load-input", data.inputs, "--load-expected", data.targets)
    options = ("--epochs", EPOCHS, "--seed", seed, "--export-tflite", out)
    _, peak = run("train", ssd(), *files, *options)
    return peak


def evaluated(model: Path, data: Data) -> tuple[float, float]:
    """Returns mAP and mAP at 0.5 of odt's decoder."""
    files = ("--load-input", data.inputs, "--load-expected", data.targets)
    text, _ = run("eval", model, *files, "--metric", "map", "--metric", "map50")
    words = text.split()
    values = [float(words[words.index(f"{name}:") + 2]) for name in ("map", "map50")]
    return values[0], values[1]


def test_the_ssd_learns_raccoons(tmp_path: Path) -> None:
    train, test = raccoons(tmp_path / "data", ssd())
    results = []
    for seed in SEEDS:
        out = tmp_path / f"{seed}.tflite"
        trained(train, out, seed)
        detections = litert_detections(out, list(test.photos()), [0])
        results.append(coco_precision(detections, test.boxes()))
        mine = mean_average_precision(detections, test.boxes())
        assert (mine.map, mine.map50) == pytest.approx(results[-1], abs=1e-9)
    mean = np.mean(results, axis=0)
    print(f"raccoons: mAP {mean[0]:.3f}, mAP@0.5 {mean[1]:.3f} of {results}")
    assert mean[0] >= 0.44
    assert mean[1] >= 0.87
    old, new = (read_post_process(read_model(path)) for path in (ssd(), out))
    assert old is not None
    assert new is not None
    assert old.node == new.node
    assert old.anchors.tobytes() == new.anchors.tobytes()


def test_the_ssd_learns_blood_cells_in_little_memory(tmp_path: Path) -> None:
    train, test = cells(tmp_path / "data", ssd())
    out = tmp_path / "out.tflite"
    peak = trained(train, out, 1)
    whole, half = evaluated(out, test)
    shipped, more = (
        coco_precision(litert_detections(path, list(test.photos()), [0, 1, 2]), test.boxes())
        for path in (out, with_max_detections(out, 100, tmp_path / "more.tflite"))
    )
    print(f"blood cells: odt {whole:.3f}, {half:.3f}; LiteRT {shipped}, {more}; {peak:.0f} MB")
    assert whole >= 0.32
    assert half >= 0.61
    assert shipped[1] >= 0.38
    assert more[1] >= 0.56
    assert peak <= MEMORY


def test_torch_is_not_ahead_on_the_same_features(tmp_path: Path) -> None:
    """Each epoch of odt is followed by one of PyTorch, each in one thread."""
    assert TORCH.exists(), f"{TORCH} must have torch: make .venv/tutorials/ready"
    train, test = raccoons(tmp_path / "data", ssd())
    heads, out = tmp_path / "heads", tmp_path / "out.tflite"
    detector = write_heads(heads, ssd(), (train.photos(), train.boxes()), test.photos(), [0])
    command = [TORCH, ROOT / "tests" / "support" / "torch_heads.py", heads]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as peer:
        assert peer.stdin is not None
        assert peer.stdout is not None
        assert peer.stdout.readline() == "ready\n"
        turns = Turns(peer.stdin, peer.stdout)
        trainer = odt.Trainer(ssd(), task="boxes", cache_frozen="ram", workers=1)
        trainer.fit(train.inputs, train.targets, epochs=EPOCHS, seed=1, callbacks=turns, verbose=0)
        trainer.export(out)
        peak = float(peer.communicate()[0])
    with np.load(f"{heads}.out.npz") as file:
        theirs = coco_precision(detector.decode([file["codes"], file["scores"]]), test.boxes())
    mine = coco_precision(litert_detections(out, list(test.photos()), [0]), test.boxes())
    print(f"raccoons: odt {mine}, torch {theirs} with {peak:.0f} MB")
    print(f"best epoch: odt {min(turns.odt):.2f} s, torch {min(turns.torch):.2f} s")
    assert theirs[1] - mine[1] <= 0.03
    assert min(turns.odt) <= 0.5 * min(turns.torch)


class Turns(odt.Callback):
    """Orders an epoch of PyTorch after each of odt.

    Attributes:
        odt, torch: processor time of each epoch in seconds.
    """

    def __init__(self, orders: IO[str], answers: IO[str]) -> None:
        self._orders, self._answers = orders, answers
        self.odt: list[float] = []
        self.torch: list[float] = []

    def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
        self._start = time.process_time()

    def on_epoch_end(self, epoch: int, logs: object = None) -> None:
        self.odt.append(time.process_time() - self._start)
        self._orders.write("\n")
        self._orders.flush()
        self.torch.append(float(self._answers.readline()))


def test_fomo_learns_white_blood_cells(tmp_path: Path) -> None:
    fomo = Path(os.environ.get("FOMO", ""))
    if not fomo.is_file():
        pytest.skip("give FOMO=lib/models/fomo_face_detection.tflite of github.com/openmv/openmv")
    train, test = cells(tmp_path / "data", fomo, "WBC")
    files = ("--load-input", train.inputs, "--load-expected", train.targets)
    out = tmp_path / "out.tflite"
    start = time.monotonic()
    run("train", fomo, *files, "--epochs", 15, "--export-tflite", out)
    seconds = time.monotonic() - start
    files = ("--load-input", test.inputs, "--load-expected", test.targets)
    text, _ = run("eval", out, *files, "--metric", "f1-score")
    score = float(text.split()[-1])
    print(f"FOMO: F1 {score:.3f} in {seconds:.0f} s")
    assert score >= 0.89
    assert seconds <= 60
    detector = detector_of(read_model(out))
    assert detector is not None
    photos = np.fromfile(test.inputs, np.uint8).reshape(-1, 96, 96, 3)
    boxes = np.fromfile(test.targets, np.float32).reshape(len(photos), -1, 5)
    (grid,) = litert_outputs(out, (photos.astype(np.int16) - 128).astype(np.int8))
    counts = map(count_centers, detector.decode([grid]), boxes)
    assert sum(counts, BoxCounts()).f1 == pytest.approx(score, abs=1e-4)


@pytest.mark.parametrize(("name", "part"), [("front-f32", 0.6), ("short-f16", 0.9)])
def test_blazeface_learns_raccoons(tmp_path: Path, name: str, part: float) -> None:
    """The heads learn; of the codes, the channels of points keep their weights."""
    file = complete("data", "models", "boxes", f"blazeface-{name}.tflite")
    photos, boxes, out = tmp_path / "photos", tmp_path / "boxes", tmp_path / "out.tflite"
    files = archive("raccoon")
    names = sorted(path for path in files if path.endswith(".jpg"))[:20]
    for path, content in with_annotations(files, names).items():
        folder = boxes if path.endswith(".xml") else photos
        folder.mkdir(exist_ok=True)
        (folder / path).write_bytes(content)
    split = ("--split", "train=1.0", "--scale", "-1..1", "--out-dir", tmp_path)
    run("gen-datafile", "--source", photos, "--boxes", boxes, "--like", file, *split)
    data = tmp_path / "train.input.bin", tmp_path / "train.output.bin"
    given = ("--load-input", data[0], "--load-expected", data[1])
    stated = ("--anchors", "mediapipe:8,16,16,16")
    run("train", file, *stated, *given, "--epochs", 20, "--export-tflite", out)
    texts = [run("eval", *words, *given)[0] for words in ((file, *stated), (out,))]
    losses = [float(text.split("loss:")[1].split()[1]) for text in texts]
    print(f"BlazeFace: loss {losses}")
    assert losses[1] < part * losses[0]
    old, new = (read_model(path).graph for path in (file, out))
    pairs = [
        [np.asarray(t.data) for t in each]
        for each in zip(old.tensors, new.tensors, strict=True)
        if "regressor" in each[0].name and each[0].data is not None
    ]
    pairs = [each for each in pairs if each[0].dtype.kind == "f"]
    assert len(pairs) == 4
    for a, b in pairs:
        rows, changed = (x.reshape(-1, 16, x[0].size) for x in (a, b))
        assert rows[:, 4:].tobytes() == changed[:, 4:].tobytes()


def test_photos_are_encoded_within_two_milliseconds() -> None:
    detector = detector_of(read_model(ssd()))
    assert detector is not None
    rng = np.random.default_rng(0)
    boxes = np.stack([random_boxes(rng, 14) for _ in range(16)])
    columns = (4, 91)
    targets = [np.empty((16, 1917, n), np.float32) for n in columns]
    targets += [np.empty((16, 1917), np.float32) for _ in columns]
    times = []
    for _ in range(20):
        start = time.perf_counter()
        detector.encode(boxes, targets)
        times.append((time.perf_counter() - start) / len(boxes))
    assert min(times) <= 0.002


def test_precision_equals_pycocotools() -> None:
    for seed in range(100, 300):
        photos = random_photos(seed)
        detections, boxes = [a for a, _ in photos], [b for _, b in photos]
        if any(map(len, detections)) and any(map(len, boxes)):
            value = mean_average_precision(detections, boxes)
            judged = coco_precision(detections, boxes)
            assert (value.map, value.map50) == pytest.approx(judged, abs=1e-9)
