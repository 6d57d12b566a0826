"""The pages of the API are what the docstrings say and name everything; their examples run."""

import inspect
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.gguf_files import tiny_llama
from support.paths import MLP_SM, TESTS
from write_api_page import EXAMPLES, FOLDER, INTRODUCTION, PAGES, pages, public_names

import odt
import odt.compat.ort
from odt import losses, optimizers
from odt.cli.main import main

MOST_USED = ["fit", "evaluate", "predict", "export", "state"]


def test_the_pages_are_written_from_the_docstrings() -> None:
    written = pages()
    assert {*FOLDER.glob("*.md")} <= written.keys(), "run: make pages"
    for path, text in written.items():
        assert path.read_text(encoding="utf-8") == text, "run: make pages"


def test_the_pages_are_the_same_on_newer_pythons() -> None:
    assert public_names("(path: pathlib._local.Path)") == "(path: pathlib.Path)"  # 3.13


def test_the_index_shows_first_what_most_scripts_use() -> None:
    index = pages()[FOLDER.with_suffix(".md")]
    links = re.findall(r"\]\(api/training\.md#(\w+)\)", index)
    assert links[:5] == [f"trainer{name}" for name in MOST_USED]
    training = pages()[FOLDER / "training.md"]
    methods = re.findall(r"^### `Trainer\.([a-z]\w*)`$", training, re.MULTILINE)
    assert methods[:5] == MOST_USED


def test_every_public_name_is_on_the_page() -> None:
    public = {*odt.PUBLIC, *optimizers.__all__, *losses.__all__}
    public |= {f"augment.{name}" for name in odt.augment.__all__}
    public |= {f"federated.{name}" for name in odt.federated.PUBLIC}
    public |= {f"compat.ort.{name}" for name in odt.compat.ort.PUBLIC}
    names = [name for page in PAGES.values() for name in page.names]
    missing = public - {*names}
    assert not missing, f"tools/write_api_page.py: add {missing} to a page"
    assert sorted(names) == sorted(public)
    without_example = public - {*PAGES["errors"].names} - EXAMPLES.keys()
    assert not without_example, f"docs/api_examples.toml: add {without_example}"


def test_every_argument_of_functions_and_of_a_trainer_is_documented() -> None:
    functions = [
        getattr(odt, name) for name in odt.PUBLIC if inspect.isfunction(getattr(odt, name))
    ]
    methods = inspect.getmembers(odt.Trainer, inspect.isfunction)
    functions += [f for name, f in methods if name == "__init__" or not name.startswith("_")]
    for function in functions:
        text = inspect.getdoc(function) or ""
        for name in inspect.signature(function).parameters:
            known = name == "self" or re.search(rf"^    \*{{0,2}}{name}: ", text, re.MULTILINE)
            assert known, f"{function.__qualname__}: document {name}"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    files = ("--load-input", MLP_SM / "input.bin", "--load-expected", MLP_SM / "expected.bin")
    line = ["train", MLP_SM / "model.circle", *files, "--epochs", 1, "--validation-split", 0.2]
    result = CliRunner().invoke(main, [*map(str, line), "--run-dir", str(folder)])
    assert result.exit_code == 0, result.output
    return folder


@pytest.mark.filterwarnings("ignore::odt.OdtWarning")
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(
    name: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(MLP_SM / "model.circle", "model.circle")
    shutil.copy(TESTS / "golden" / "onnx" / "mlp.onnx", "model.onnx")
    shutil.copytree(run, "runs/first")
    Path("model.gguf").write_bytes(tiny_llama("floats"))
    names: dict[str, Any] = {}
    exec(INTRODUCTION.split("```python")[1].split("```")[0], names)
    exec(EXAMPLES[name], names)
