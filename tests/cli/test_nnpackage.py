"""nnpackages: a folder is taken where a model is, and `odt package` makes one."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.paths import MLP_SM, MODELS

from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.errors import ModelError

MODEL = MLP_SM / "model.circle"
SINE = MODELS / "tflm-hello-world-sine-float.tflite"
LEAST = {"models": ["m.circle"], "model-types": ["circle"]}


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [*map(str, words)])


def package(folder: Path, manifest: Any) -> Path:
    (folder / "metadata").mkdir()
    text = manifest if isinstance(manifest, str) else json.dumps(manifest)
    (folder / "metadata" / "MANIFEST").write_text(text)
    shutil.copy(MODEL, folder / "m.circle")
    return folder


def test_a_package_is_read_as_its_model(tmp_path: Path) -> None:
    model = read_model(package(tmp_path, LEAST))
    assert (model.path, model.format) == (str(tmp_path / "m.circle"), "circle")
    assert bytes(model.data) == MODEL.read_bytes()


def test_training_prints_the_package(tmp_path: Path) -> None:
    x, t = MODEL.parent / "input.bin", MODEL.parent / "expected.bin"
    data = ("--load-input", x, "--load-expected", t)
    out = tmp_path / "o.circle"
    folder = tmp_path / "p"
    folder.mkdir()
    package(folder, LEAST)
    result = run("train", "--nnpackage", folder, *data, "--epochs", "1", "--export-circle", out)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith(f"Package Filename {folder}\n== training parameter ==\n")
    assert len(out.read_bytes()) == len(MODEL.read_bytes())


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ("", "must be a JSON file"),
        ("{", "must be a JSON file"),
        ("[" * 100_000, "must be a JSON file"),
        ([], "must be an object, but got []"),
        ({**LEAST, "major-version": "2"}, 'major-version must be 1, but got "2"'),
        ({"model-types": ["circle"]}, "models must be a list of one text, but got nothing"),
        ({**LEAST, "models": "m.circle"}, "models must be a list of one text"),
        ({**LEAST, "models": []}, "models must be a list of one text, but got []"),
        ({**LEAST, "models": [3]}, "models must be a list of one text, but got [3]"),
        ({**LEAST, "models": ["m.circle", "m.circle"]}, "models must be a list of one text"),
        ({**LEAST, "models": ["../m.circle"]}, "must name a file of the package"),
        ({**LEAST, "models": ["/etc/passwd"]}, "must name a file of the package"),
        ({**LEAST, "models": [".."]}, "must name a file of the package"),
        ({**LEAST, "models": [""]}, "must name a file of the package"),
        ({**LEAST, "models": ["none.circle"]}, "none.circle: must be a readable file"),
        ({"models": ["m.circle"]}, "model-types must be a list of one text, but got nothing"),
        ({**LEAST, "model-types": ["tvn"]}, 'must be circle or tflite, but got "tvn"'),
        ({**LEAST, "model-types": ["tflite"]}, "the model's type, circle, but got tflite"),
    ],
)
def test_a_bad_manifest_is_one_line(manifest: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as e:
        read_model(package(tmp_path, manifest))
    assert words in str(e.value)
    assert "\n" not in str(e.value)


def test_a_folder_without_manifest_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="must be a file, but got a folder without metadata"):
        read_model(tmp_path)


@pytest.mark.parametrize("model", [MODEL, SINE], ids=lambda p: p.name)
def test_a_package_that_odt_makes(model: Path, tmp_path: Path) -> None:
    result = run("package", model, "--out-dir", tmp_path / "deep" / "er")
    assert result.exit_code == 0, result.stderr
    folder = tmp_path / "deep" / "er" / model.stem
    assert result.stdout == f"package: Generating nnpkg {model.stem} in {tmp_path / 'deep/er'}\n"
    assert json.loads((folder / "metadata" / "MANIFEST").read_text()) == {
        "major-version": "1",
        "minor-version": "2",
        "patch-version": "0",
        "configs": [""],
        "models": [model.name],
        "model-types": [model.suffix[1:]],
    }
    assert (folder / model.name).read_bytes() == model.read_bytes()
    assert bytes(read_model(folder).data) == model.read_bytes()


def test_a_package_may_have_a_name_and_a_config(tmp_path: Path) -> None:
    config = tmp_path / "my.cfg"
    config.write_text("BACKENDS=cpu\n")
    assert run("package", MODEL, "-o", tmp_path, "-p", "net", "-c", config).exit_code == 0
    assert (tmp_path / "net/metadata/my.cfg").read_text() == "BACKENDS=cpu\n"
    manifest = json.loads((tmp_path / "net/metadata/MANIFEST").read_text())
    assert manifest["configs"] == ["my.cfg"]


def test_a_config_must_not_replace_the_manifest(tmp_path: Path) -> None:
    config = tmp_path / "MANIFEST"
    config.write_text("key=value\n")
    result = run("package", MODEL, "-o", tmp_path, "-p", "p", "-c", config)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "must have another name than the package's metadata/MANIFEST" in result.stderr
    assert not (tmp_path / "p").exists()


def test_a_missing_config_is_one_line(tmp_path: Path) -> None:
    result = run("package", MODEL, "-o", tmp_path, "-c", tmp_path / "none.cfg")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert not (tmp_path / "model" / "metadata" / "MANIFEST").exists()


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("package", MODEL, "-o", tmp_path / "file")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "must be a folder that can be written, but got: not a directory" in result.stderr
    assert "Give another path." in result.stderr


def test_onert_loads_a_package_that_odt_makes(tmp_path: Path) -> None:
    pytest.importorskip("onert")
    assert run("package", MODEL, "-o", tmp_path, "-p", "net").exit_code == 0
    script = "from onert.experimental import train; print(train.session('net').input_size())"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
