"""Measures `odt gen-datafile` on a folder of pictures against Pillow alone.

Usage: python tools/measure_gen_datafile.py FOLDER [SIZE]

Both decode the same files and resize them to SIZE×SIZE (224) in one thread. Pillow alone discards
the pictures; odt also scales them to float32, and a second thread writes and hashes them. Runs
alternate, and the best of three counts. The folder has a folder for each class.
"""

import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

from odt.datasets.file_suffixes import PICTURES
from odt.datasets.generate import Request, generate
from odt.datasets.open_source import open_source
from odt.datasets.pictures import Resize
from odt.datasets.preprocess import Preprocessing, Targets
from odt.datasets.source_format import Opening
from odt.datasets.splits import RequestedSplit

ROUNDS = 3


def pillow_alone(files: list[Path], size: int) -> float:
    """Returns the seconds in which Pillow decodes and resizes the files."""
    start = time.perf_counter()
    for path in files:
        with Image.open(path) as picture:
            picture.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
    return time.perf_counter() - start


def with_odt(folder: str, size: int, out: Path) -> float:
    """Returns the seconds in which odt makes data files of the folder."""
    start = time.perf_counter()
    source = open_source(Opening(folder, resize=Resize(size, size)))
    request = Request(
        (RequestedSplit("train"), RequestedSplit("test", fraction=0.2)),
        out,
        inputs=Preprocessing(resize=Resize(size, size), scale="0..1"),
        targets=Targets(source.classes),
    )
    generate(source, request, lambda split, done, total: None)
    return time.perf_counter() - start


def main(folder: str, size: int) -> None:
    """Measures both and prints their rates."""
    files = [p for p in sorted(Path(folder).rglob("*")) if p.suffix.lower() in PICTURES]
    pillow_seconds, odt_seconds = [], []
    for _ in range(ROUNDS):
        pillow_seconds.append(pillow_alone(files, size))
        with tempfile.TemporaryDirectory() as out:
            odt_seconds.append(with_odt(folder, size, Path(out)))
    pillow_rate, odt_rate = len(files) / min(pillow_seconds), len(files) / min(odt_seconds)
    print(f"{len(files)} pictures to {size}×{size}, one decoding thread, best of {ROUNDS}")
    print(f"Pillow alone   {pillow_rate:7.0f} pictures/s")
    print(f"gen-datafile   {odt_rate:7.0f} pictures/s, {odt_rate / pillow_rate:.2f} × Pillow")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 224)
