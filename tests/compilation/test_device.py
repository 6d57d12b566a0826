"""C programs that fit into a device: RAM and stack."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.c_programs import COMPILER, Program, batches, build, one
from support.paths import ROOT

import odt
from odt.core.emit.kernel_files import source_of
from odt.kernels.native.library import exports, is_available
from odt.kernels.native.stack import STACK

pytest_plugins = ["support.kernel_objects"]
pytestmark = pytest.mark.skipif(not (COMPILER and is_available()), reason="no C compiler")
MODEL = ROOT / "tests/models/kws-yes-no-conv60x40.tflite"
LOSS, BATCH = "categorical_crossentropy", 4
OPTIONS: dict[str, Any] = {
    "loss": LOSS,
    "optimizer": odt.SGD(0.01, momentum=0.9),
    "batch_size": BATCH,
}


def compile_for(folder: Path, **options: Any) -> dict[str, Any]:
    """Compiles for a microcontroller; returns the manifest."""
    odt.compile(MODEL, folder, target="microcontroller", **OPTIONS, **options)
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return manifest


def least(message: str) -> int:
    """The number in the message of an error."""
    number = re.search(r"must be at least (\d+)", message)
    assert number, message
    return int(number[1])


def test_a_program_fits_into_ram_with_the_bits_of_the_base_kernels(
    kernel_objects: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODT_KERNELS", "base")
    whole = compile_for(tmp_path / "whole")
    need = whole["ram"]["static"] + whole["ram"]["stack"]
    manifest = compile_for(tmp_path / "c", ram=need - 1)
    assert manifest["ram"]["static"] + manifest["ram"]["stack"] < need
    build(tmp_path / "c", kernel_objects["microcontroller"])
    program = Program(tmp_path / "c")
    program.init()
    size = manifest["micro_batch"]
    with odt.Trainer(MODEL, **OPTIONS, workers=1, micro_batch=size) as trainer:
        for x, y in batches(trainer, LOSS, BATCH, 3):
            expected = trainer.train_on_batch(one(x), one(y))["loss"]
            assert program.loss("train", x, y) == (0, float(np.float32(expected)))
        names = [w["name"] for w in manifest["weights"]]
        assert program.weights() == b"".join(trainer.weights[n].tobytes() for n in names)


def test_static_memory_is_what_the_manifest_says(tmp_path: Path) -> None:
    size = shutil.which("size")
    if size is None:
        pytest.skip("no size")
    manifest = compile_for(tmp_path / "c", micro_batch=1)
    build(tmp_path / "c")
    objects = [o for o in (tmp_path / "c").glob("*.o") if o.stem != "example"]
    lines = subprocess.check_output([size, *objects], text=True).splitlines()[1:]
    # Position-independent code of this test has tables of addresses in its data.
    tables = sum(int(line.split()[1]) for line in lines)
    static = sum(int(line.split()[2]) for line in lines)
    assert tables < 1000
    memory = manifest["memory"]["total"]
    assert memory <= static <= manifest["ram"]["static"] <= memory + 64 * 16
    for word, constants in manifest["constants"].items():
        (line,) = (line for line in lines if line.rstrip().endswith(f"_{word}.o"))
        assert constants <= int(line.split()[0]) < constants + 64


def test_too_little_ram_is_refused_with_the_least_that_is_needed(tmp_path: Path) -> None:
    with pytest.raises(odt.OptionError, match=r"with a stack of \d+, but got 1000") as e:
        compile_for(tmp_path / "c", ram="1kB")
    assert not (tmp_path / "c").exists()
    need = least(str(e.value))
    manifest = compile_for(tmp_path / "c", ram=need)
    assert manifest["ram"]["static"] + manifest["ram"]["stack"] == need
    with pytest.raises(odt.OptionError, match=f"must be at least {need}"):
        compile_for(tmp_path / "d", ram=need - 1)


def test_the_stack_of_all_kernels_is_known() -> None:
    kernels = (n for n in exports().kernels if n != "map" and not n.endswith("_bf16"))
    assert {source_of(name) for name in kernels} - {"team.c"} == {*STACK}


def test_a_stack_that_is_too_small_is_refused(tmp_path: Path) -> None:
    with pytest.raises(odt.OptionError, match="`stack=`: must be at least") as e:
        compile_for(tmp_path / "c", stack=600)
    need = least(str(e.value))
    assert compile_for(tmp_path / "c", stack=need)["ram"]["stack"] == need
    ram = compile_for(tmp_path / "d", ram="1MB", stack="8kB")["ram"]
    assert ram["static"] + 8000 <= 1_000_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stack": "4kB"}, "`stack=`: must come with `target=microcontroller`"),
        ({"ram": "much"}, "`ram=`: must be a size such as"),
        ({"memory_budget": "1MB"}, "`memory_budget=`: must be left out"),
        ({"target": "moon"}, "`target=`: must be"),
    ],
)
def test_wrong_options_of_devices_are_refused(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(odt.OptionError) as e:
        odt.compile(MODEL, tmp_path / "c", **OPTIONS, **options)
    assert message in str(e.value)
    assert not (tmp_path / "c").exists()
