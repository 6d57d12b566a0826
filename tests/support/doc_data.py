"""Makes small replacements for the data in docs/data.md, so that its commands run.

Run in a folder: PYTHONPATH=tests python -m support.doc_data
"""

import gzip
import zipfile
from pathlib import Path

import numpy as np

from support.datafiles import jpeg, wav
from support.idx import write_mnist

RANDOM = np.random.default_rng(0)
CIFAR10 = "airplane automobile bird cat deer dog frog horse ship truck"
NAMES = {"iris.csv": ("a", "b", "c"), "wine_data.csv": ("a", "b"), "breast_cancer.csv": ("a", "b")}
MODEL = """
import numpy as np

def samples(part):
    random = np.random.default_rng(0 if part == "train" else 1)
    for k in range(60 if part == "train" else 20):
        yield random.random((8, 8, 1), np.float32), k % 3

samples.classes = ("red", "green", "blue")
"""


def photo(size: int) -> bytes:
    return jpeg(RANDOM.integers(0, 256, (size, size, 3), np.uint8), "JPEG")


def main() -> None:
    write_mnist(Path("mnist"), 40, 20)
    with zipfile.ZipFile("cifar10-jpg-subset.zip", "w") as archive:
        for name in CIFAR10.split():
            for k in range(4):
                archive.writestr(f"{'train' if k else 'test'}/{name}/{k}.jpg", photo(32))
    for name in ("cardboard", "glass", "metal", "paper"):
        Path("photos", name).mkdir(parents=True)
        for k in range(5):
            Path("photos", name, f"{name}{k}.jpg").write_bytes(photo(40))
    with zipfile.ZipFile("speech-commands-yes-no-wav.zip", "w") as archive:
        for part in ("train", "test"):
            for name in ("yes", "no"):
                for k in range(4):
                    x = RANDOM.uniform(-0.5, 0.5, 16000)
                    archive.writestr(f"{part}/{name}/{k}.wav", wav(x))
    x = RANDOM.uniform(-80, 0, (12, 60, 40)).astype(np.float16)
    y = np.arange(12) % 2
    np.savez("speech-commands-yes-no-mel60x40.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    for file, classes in NAMES.items():
        lines = [f"30,4,{','.join(classes)}"]
        lines += [
            ",".join([*(f"{v:.3f}" for v in RANDOM.normal(size=4)), str(k % len(classes))])
            for k in range(30)
        ]
        Path(file).write_text("\n".join(lines) + "\n")
    digits = [",".join([*map(str, RANDOM.integers(0, 17, 64)), str(k % 10)]) for k in range(60)]
    Path("digits.csv.gz").write_bytes(gzip.compress("\n".join(digits).encode()))
    rows = "\n".join(" ".join(f"{v:.2f}" for v in RANDOM.normal(size=10)) for _ in range(30))
    Path("diabetes_data_raw.csv.gz").write_bytes(gzip.compress(rows.encode()))
    values = "\n".join(f"{v:.1f}" for v in RANDOM.normal(150, 50, 30))
    Path("diabetes_target.csv.gz").write_bytes(gzip.compress(values.encode()))
    Path("measurements.csv").write_text(
        "person,height,weight,sport\n" + "".join(f"p{k % 6},{k},,{'ab'[k % 2]}\n" for k in range(3))
        + "".join(f"p{k % 6},{150 + k},{50 + k},{'ab'[k % 2]}\n" for k in range(40))
    )  # fmt: skip
    Path("my_samples.py").write_text(MODEL)


if __name__ == "__main__":
    main()
