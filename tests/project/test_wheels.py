"""Wheels of other platforms: archives depend on their content alone, lists are complete."""

import base64
import csv
import hashlib
import io
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from wheels.archives import read_wheel, write_wheel
from wheels.platforms import PLATFORMS, kernel_names

from odt.kernels.native import library

FILES = {
    "small/__init__.py": b"VALUE = 3\n",
    "small/_kernels.so": bytes(range(256)),
    "small-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: small\nVersion: 1.0\n",
}
TAGS = ["py3-none-any"]


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    """In another order, at another time and with another umask."""
    made = []
    for k, files in enumerate((FILES, dict(reversed(FILES.items())))):
        folder = tmp_path / str(k)
        folder.mkdir()
        mask = os.umask((0o022, 0o077)[k])
        try:
            made.append(write_wheel(files, TAGS, folder).read_bytes())
        finally:
            os.umask(mask)
        time.sleep(2 * (1 - k))  # a zip file's clock ticks every two seconds
    assert made[0] == made[1]
    assert read_wheel(next((tmp_path / "0").iterdir())).keys() - FILES.keys() == {
        "small-1.0.dist-info/WHEEL"
    }


def test_the_record_names_every_file_and_its_hash(tmp_path: Path) -> None:
    tags = [f"py3-none-{t}" for t in ("manylinux_2_17_x86_64", "manylinux2014_x86_64")]
    path = write_wheel(FILES, tags, tmp_path)
    assert path.name == "small-1.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
    with zipfile.ZipFile(path) as wheel:
        text = wheel.read("small-1.0.dist-info/RECORD").decode()
        rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(text))}
        assert rows.keys() == set(wheel.namelist())
        for name, (digest, size) in rows.items():
            if not name.endswith("RECORD"):
                data = wheel.read(name)
                wanted = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
                assert (digest, int(size)) == (f"sha256={wanted.rstrip('=')}", len(data))
        said = wheel.read("small-1.0.dist-info/WHEEL").decode().splitlines()
    assert said[2:] == ["Root-Is-Purelib: false", *(f"Tag: {tag}" for tag in tags)]


def test_pip_installs_what_was_written(tmp_path: Path) -> None:
    path = write_wheel(FILES, TAGS, tmp_path)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*command, "--target", tmp_path / "there", path], check=True)
    assert (tmp_path / "there/small/_kernels.so").read_bytes() == FILES["small/_kernels.so"]


@pytest.mark.skipif(not library.instruction_sets(), reason="nothing is compiled")
def test_a_library_must_export_what_python_calls() -> None:
    kernels = library.exports().kernels
    assert kernel_names(["base"]) == {f"{n}_base" for n in kernels if not n.endswith("_bf16")}
    assert kernel_names(["avx512"]) == {f"{name}_avx512" for name in kernels}


def test_platforms_have_tags_of_their_own() -> None:
    tags = [tag for platform in PLATFORMS for tag in platform.wheel_tags]
    assert len(set(tags)) == len(tags)
    assert {p.target.partition("-")[0] for p in PLATFORMS} == {
        "x86_64",
        "aarch64",
        "arm",
        "riscv64",
    }
