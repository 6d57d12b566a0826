"""Measures `odt gen-datafile` on a folder of pictures against Pillow alone.

Usage: python tools/measure_gen_datafile.py FOLDER [SIZE]

Both decode the same files and resize them to SIZE×SIZE (224) in one thread. Pillow alone keeps
nothing; odt also scales to float32, and a second thread writes and hashes. Runs alternate, the
best of three counts. The folder is one of classes, as gen-datafile reads it.
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
    start = time.perf_counter()
    for path in files:
        with Image.open(path) as picture:
            picture.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
    return time.perf_counter() - start


def with_odt(folder: str, size: int, out: Path) -> float:
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
    files = [p for p in sorted(Path(folder).rglob("*")) if p.suffix.lower() in PICTURES]
    alone, ours = [], []
    for _ in range(ROUNDS):
        alone.append(pillow_alone(files, size))
        with tempfile.TemporaryDirectory() as out:
            ours.append(with_odt(folder, size, Path(out)))
    rates = len(files) / min(alone), len(files) / min(ours)
    print(f"{len(files)} pictures to {size}×{size}, one decoding thread, best of {ROUNDS}")
    print(f"Pillow alone   {rates[0]:7.0f} pictures/s")
    print(f"gen-datafile   {rates[1]:7.0f} pictures/s, {rates[1] / rates[0]:.2f} of it")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 224)
