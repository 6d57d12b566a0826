"""The files of `odt.compile(target="wasm")`; tests/accept/test_accept_wasm.py runs them."""

import base64
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.paths import MODELS

import odt
from odt.cli.main import main
from odt.compilation import web_assembly
from odt.core.emit.wasm_data import Segment, without_data
from odt.kernels.native.library import is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="no compiled kernels")
SINE = MODELS / "tflm-hello-world-sine-float.tflite"
HEADER = b"\0asm\1\0\0\0"
TYPES = b"\x01\x04\x01\x60\0\0"  # section 1: one type, a function without parameters
DATA_COUNT = b"\x0c\x01\x02"
# Section 11, two segments: "abc" at address 70, which has two LEB128 bytes, and 200 zeros at 4096.
DATA = b"\x0b\xd9\x01\x02" + b"\0\x41\xc6\0\x0b\x03abc" + b"\0\x41\x80\x20\x0b\xc8\x01" + bytes(200)


def test_data_of_a_module_is_apart_from_its_code() -> None:
    assert without_data(HEADER + TYPES + DATA_COUNT + DATA) == (
        HEADER + TYPES,
        [Segment(70, b"abc"), Segment(4096, bytes(200))],
    )


@pytest.fixture
def zig(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the compiler, which make accept installs: it writes a module."""

    def write(folder: str, *options: str) -> None:
        Path(folder, options[-1]).write_bytes(HEADER + TYPES + DATA)

    monkeypatch.setattr(web_assembly, "find_spec", lambda _: True)
    monkeypatch.setattr(web_assembly, "_zig", write)


@pytest.mark.usefixtures("zig")
def test_a_folder_has_what_javascript_needs_beside_the_c_program(tmp_path: Path) -> None:
    words = ["compile", str(SINE), "--loss", "mean-squared-error", "--learning-rate", "0.1"]
    words += ["--name", "sine", "--target", "wasm", "-o", str(tmp_path / "web")]
    assert CliRunner().invoke(main, words).exit_code == 0
    names = {p.name for p in (tmp_path / "web").iterdir()}
    assert names >= {"sine.wasm", "sine.bin", "sine.js", "sine.d.ts", "sine.c", "sine.h"}
    manifest = json.loads((tmp_path / "web/manifest.json").read_text())["wasm"]
    segments = manifest["data"]["segments"]
    assert segments == [{"address": 70, "size": 3}, {"address": 4096, "size": 200}]
    for kind, data in (("module", HEADER + TYPES), ("data", b"abc" + bytes(200))):
        file = tmp_path / "web" / manifest[kind]["file"]
        assert file.read_bytes() == data
        digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
        assert manifest[kind]["integrity"] == f"sha256-{digest}"
    types = (tmp_path / "web/sine.d.ts").read_text("utf-8")
    assert "export type Inputs = [Float32Array];" in types
    assert "export type Targets = [Float32Array];" in types
    assert "export type Weight = Float32Array;" in types


@pytest.mark.usefixtures("zig")
@pytest.mark.parametrize("export", [True, False])
def test_javascript_gets_the_model_file_if_the_program_has_it(export: bool, tmp_path: Path) -> None:
    options: Any = {"loss": "huber", "learning_rate": 0.1, "target": "wasm", "export": export}
    odt.compile(SINE, tmp_path / "web", name="sine", **options)
    assert ("sine_export(" in (tmp_path / "web/wasm/exports.c").read_text()) is export
    assert ("sine_export(" in (tmp_path / "web/sine.h").read_text()) is export


def test_a_missing_compiler_is_named_before_a_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [])  # no package is found
    monkeypatch.delitem(sys.modules, "ziglang", raising=False)
    with pytest.raises(odt.UnsupportedError) as e:
        odt.compile(SINE, tmp_path / "web", loss="huber", learning_rate=0.1, target="wasm")
    assert str(e.value) == (
        "target wasm: needs the package ziglang, which is not installed. "
        "Install it: pip install 'odt[wasm]'."
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("zig")
def test_a_compiler_that_fails_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(web_assembly, "find_spec", lambda _: True)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(odt.OdtError, match="target wasm: zig failed, with status 1"):
        odt.compile(SINE, tmp_path / "web", loss="huber", learning_rate=0.1, target="wasm")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_target_is_refused(tmp_path: Path) -> None:
    with pytest.raises(odt.OptionError, match="`target=`: must be"):
        odt.compile(SINE, tmp_path / "web", loss="huber", learning_rate=0.1, target="asm")
