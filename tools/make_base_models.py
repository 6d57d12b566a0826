"""Makes the files of the package odt-models from models of others.

    python tools/make_base_models.py MODELS

MODELS is a folder with teachable-machine-mobilenetv2-0.35-fruit.tflite and
mlperf-tiny-kws-dscnn-hybrid.tflite; models/README.md names their origins.
"""

import sys
import tempfile
from pathlib import Path

import odt
from odt.core.export.exporter import export_model
from odt.core.formats.reader import read_model
from odt.core.model.record import Record
from odt.datasets.pictures import Resize
from odt.datasets.preprocess import Preprocessing
from odt.datasets.sounds import Sound

OUTPUT = Path(__file__).parents[1] / "models" / "odt_models"
PHOTOS = Preprocessing(color="rgb", resize=Resize(224, 224), scale="-1..1")
MFCC = Sound(rate=16000, seconds=1.0, mel=40, mfcc=10, frame=480, hop=320, low=20.0, high=4000.0)


def main(models: Path) -> None:
    """Writes both files."""
    photos = Record("image", tuple(PHOTOS.describe()))
    sounds = Record("sound", tuple(Preprocessing().describe()), sound=MFCC.describe())
    mobilenet = models / "teachable-machine-mobilenetv2-0.35-fruit.tflite"
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / "part.tflite"
        odt.cut(mobilenet, before=["tfl.mean"]).save(part)
        write(part, "mobilenet.tflite", photos)
        odt.load_model(models / "mlperf-tiny-kws-dscnn-hybrid.tflite").save(
            part, float_weights=True
        )
        write(part, "keywords.tflite", sounds)


def write(model: Path, name: str, record: Record) -> None:
    """Writes a model with weights stored as float16 and its preprocessing record."""
    with tempfile.TemporaryDirectory() as folder:
        half = Path(folder) / "half.tflite"
        odt.quantize(model, scheme="float16").model.save(half)
        export_model(read_model(half), {}, OUTPUT / name, record=record)
    print(f"{OUTPUT / name}: {(OUTPUT / name).stat().st_size} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
