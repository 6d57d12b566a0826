"""Helpers for tests of gen-datafile: run it, read its files, make small sources."""

import io
import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner, Result
from PIL import Image

from odt.cli.main import main
from odt.kernels.rows.opdef import Array


def odt(*args: object) -> Result:
    """Runs a command; the test fails if it raises an exception."""
    result = CliRunner().invoke(main, [str(a) for a in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def made(*args: object) -> Result:
    """Runs gen-datafile, which must succeed."""
    result = odt("gen-datafile", *args)
    assert result.exit_code == 0, result.output
    return result


def refused(*args: object) -> str:
    """Runs gen-datafile, which must fail; returns its error line."""
    result = odt("gen-datafile", *args)
    assert result.exit_code == 1, result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def files(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


def sidecar(path: Path) -> dict[str, Any]:
    content = json.loads(Path(f"{path}.json").read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def samples(path: Path) -> Array:
    """Reads a raw file of one tensor, using its sidecar."""
    (tensor,) = sidecar(path)["tensors"]
    return np.fromfile(path, tensor["dtype"]).reshape(-1, *tensor["shape"])


def jpeg(pixels: Array, kind: str = "PNG") -> bytes:
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, kind)
    return data.getvalue()


def plain_picture(value: int, size: tuple[int, int] = (8, 6)) -> bytes:
    """Returns a PNG with one gray value."""
    return jpeg(np.full((*size, 3), value, np.uint8))


def picture_folder(root: Path, per_class: int = 5, classes: str = "ab") -> Path:
    """Makes one folder per class; the gray value of an image is 100 × its class + its number."""
    for c, name in enumerate(classes):
        (root / name).mkdir(parents=True)
        for k in range(per_class):
            (root / name / f"{k}.png").write_bytes(plain_picture((100 * c + k) % 256))
    return root


def wav(x: Array, rate: int = 16000, width: int = 2) -> bytes:
    """Encodes samples −1 … 1 as WAV; x has one channel or the shape (n, channels)."""
    data = io.BytesIO()
    with wave.open(data, "wb") as file:
        file.setnchannels(1 if x.ndim == 1 else x.shape[1])
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes((x * 32767).astype("<i2").tobytes())
    return data.getvalue()
