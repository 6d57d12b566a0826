"""Builds the page that trains in the browser: `python examples/browser/build.py`.

It needs `pip install 'odt[images,wasm]'`. The page is a folder of static files; any web server that
has HTTPS (or runs on the same machine) can serve it.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DATA = HERE.parent / "data"
NAME_BYTES = 96  # reserved for the name of a class in the model file
MAX_CLASSES = 100
RATE = "0.001"


def main() -> None:
    """Builds the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=HERE / "site", help="folder of the page")
    for kind, default in (("photo", 4), ("sound", 2)):
        parser.add_argument(
            f"--{kind}-classes",
            type=int,
            default=default,
            choices=range(2, MAX_CLASSES + 1),
            metavar="N",
            help=f"number of classes of {kind}s, 2 to {MAX_CLASSES}; {default} if left out",
        )
    parser.add_argument("--keep", type=Path, help="folder for the networks before training")
    options = parser.parse_args()
    folder: Path = options.out
    if folder.exists() and not (folder / "service-worker.js").is_file():
        parser.error(f"--out: must be a new folder, or an old page, but got {folder}")
    with tempfile.TemporaryDirectory() as temporary:
        work: Path = options.keep or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        page = Path(temporary) / "page"
        shutil.copytree(HERE / "page", page)
        photos(work, page / "photos", options.photo_classes)
        sounds(work, page / "sounds", options.sound_classes)
        write_service_worker(page)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(page, folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size / 1e6:.1f} MB. To look at it: python -m http.server -d {folder}")


def photos(work: Path, folder: Path, classes: int) -> None:
    """Compiles the last layer of MobileNetV2 for photos."""
    network, head, model = (work / f"{name}.tflite" for name in ("network", "head", "photos"))
    odt("convert", HERE / "mobilenet-v2-0.35-96.tflite", network, "--export-weights", "float")
    # Operator 64 gives the 1280 features that the classes of ImageNet were told from.
    layer = "--classes", str(classes), "--after", "64", "--seed", "1"
    odt("replace-head", network, *layer, "--output", head)
    source = samples("trash-photos.zip", work / f"photos-{classes}", classes)
    steps = "--like", head, "--scale", "0..1", "--fit", "crop"
    record = write_record(source, steps, head, model)
    (resize,) = (step for step in record["preprocessing"] if step["step"] == "resize")
    compile_network(model, folder, {
        "name": "photos",
        "kind": "image",
        "epochs": 20,
        "classes": classes,
        "height": resize["height"],
        "width": resize["width"],
    }, "--num-of-trainable-ops", "2")  # fmt: skip


def sounds(work: Path, folder: Path, classes: int) -> None:
    """Compiles a small network for sounds, whose weights all train."""
    network, model = work / "network.tflite", work / "sounds.tflite"
    shape = "--input-shape", "60,40", "--outputs", str(classes), "--seed", "1"
    odt("new", "cnn", *shape, "-o", network)
    source = samples("yes-no-sounds.zip", work / f"sounds-{classes}", classes)
    steps = "--rate 8000 --frame 256 --hop 128 --frames 60 --mel 40 --mel-range 100,4000"
    record = write_record(source, (*steps.split(), "--scale", "standardize"), network, model)
    (scale,) = (step for step in record["preprocessing"] if step["step"] == "mean and std")
    compile_network(model, folder, {
        "name": "sounds",
        "kind": "sound",
        "epochs": 20,
        "classes": classes,
        "sound": record["sound"],
        "mean": scale["mean"],
        "std": scale["std"],
    }, "--num-of-trainable-ops", "-1")  # fmt: skip


def samples(archive: str, folder: Path, classes: int) -> Path:
    """Extracts samples, as if they were of a number of classes: their preprocessing is the same."""
    with zipfile.ZipFile(DATA / archive) as file:
        for k, name in enumerate(name for name in file.namelist() if not name.endswith("/")):
            path = folder / f"Class {k % classes + 1:03}" / f"{k}{Path(name).suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.read(name))
    return folder


def write_record(source: Path, steps: Sequence[str | Path], model: Path, out: Path) -> Any:
    """Writes how samples are prepared into a model, with space for the names of classes.

    Returns:
        The description of the samples.
    """
    data = source.with_name(f"{source.name}-data")
    odt("gen-datafile", "--source", source, *steps, "--split", "train=1.0", "--out-dir", data)
    path = data / "train.input.bin.json"
    record = json.loads(path.read_text("utf-8"))
    record["classes"] = [name.ljust(NAME_BYTES) for name in record["classes"]]
    path.write_text(json.dumps(record), "utf-8")
    files = "--load-input", data / "train.input.bin", "--load-expected", data / "train.output.bin"
    odt("train", model, *files, "--epochs", "0", "--learning-rate", RATE, "--export-tflite", out)
    return record


def compile_network(
    model: Path, folder: Path, recipe: Mapping[str, Any], *options: str | Path
) -> None:
    """Compiles the training of a model for the page, and writes what the page must know of it."""
    training = "--loss", "categorical-crossentropy", "--optimizer", "adam", "--learning-rate", RATE
    whole = model.parent / f"{model.stem}-wasm"
    odt(
        "compile", model, "--target", "wasm", *training, "--batch-size", "16", *options, "-o", whole
    )
    folder.mkdir()
    for name in (f"{model.stem}.wasm", f"{model.stem}.bin", f"{model.stem}.js", "manifest.json"):
        shutil.copy(whole / name, folder)
    (folder / "recipe.json").write_text(json.dumps(recipe), "utf-8")


def write_service_worker(folder: Path) -> None:
    """Writes the list of files that the service worker keeps, and a digest of their content."""
    path = folder / "service-worker.js"
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p != path)
    digest = hashlib.sha256(b"".join(p.read_bytes() for p in files)).hexdigest()[:16]
    names = ["./", *(p.relative_to(folder).as_posix() for p in files)]
    text = path.read_text("utf-8")
    text = text.replace("FILES = []", f"FILES = {json.dumps(names)}")
    path.write_text(text.replace('VERSION = ""', f'VERSION = "{digest}"'), "utf-8")


def odt(*arguments: str | Path) -> None:
    """Runs a command of odt."""
    command = [sys.executable, "-m", "odt", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(result.stderr.strip())


if __name__ == "__main__":
    main()
