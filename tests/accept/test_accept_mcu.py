"""Training on Cortex-M under QEMU: the bits of `ODT_KERNELS=base`, in little memory.

`make accept ONLY=mcu` needs arm-none-eabi-gcc and qemu-system-arm. AIfES 2.2.0, to which
instructions and memory are compared, is cloned from GitHub, or given by AIFES=DIR. QEMU counts
instructions; it emulates neither caches nor the cycles of an instruction.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from support import microcontrollers as mcu
from support.c_programs import kernel_sources
from support.paths import ROOT, TESTS
from support.stack_chains import deepest

import odt
from odt.core.emit.project import flags
from odt.kernels.native.stack import STACK
from odt.kernels.rows.opdef import Array

pytestmark = pytest.mark.accept
MNIST = TESTS / "golden" / "mnist" / "model.circle"
AIFES = "https://github.com/Fraunhofer-IMS/AIfES_for_Arduino"
AIFES_COMMIT = "07a438213f67e8f9d0271417a9f16be97f1597d2"  # 2.2.0
STEPS = 3
M4, M7 = mcu.BOARDS


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    mcu.need_tools()
    monkeypatch.setenv("ODT_KERNELS", "base")


class Measured(NamedTuple):
    """A training run on a board.

    Attributes:
        manifest: of the program.
        sizes: bytes of the linked program.
        code: bytes of the code of the program and the C library.
        instructions: of a step.
        stack: bytes.
        ulps: differences of the losses to those of the base kernels, in units in the last place.
    """

    manifest: dict[str, Any]
    sizes: mcu.Sizes
    code: int
    instructions: int
    stack: int
    ulps: Array

    @property
    def ram(self) -> int:
        """Bytes of memory."""
        return self.sizes.data + self.sizes.bss + self.stack


def train(
    model: Path,
    folder: Path,
    *,
    board: str = M4,
    optimization: str = "-Os",
    memory: int = mcu.ALL,
    device: dict[str, Any] | None = None,
    **options: Any,
) -> Measured:
    """Trains on a board and in Python, and compares the bits of the losses.

    Args:
        model: the model.
        folder: a new folder.
        board: the board.
        optimization: option of gcc.
        memory: bytes of RAM of the board.
        device: options of `odt.compile` that are not those of a trainer.
        options: options of a trainer.
    """
    options = {"loss": "categorical_crossentropy", "learning_rate": 0.01, **options}
    options = {"optimizer": "sgd", "batch_size": 1, **options}
    source = folder / "c"
    odt.compile(model, source, name="net", target="microcontroller", **(device or {}), **options)
    manifest = json.loads((source / "manifest.json").read_text())
    micro = {"micro_batch": manifest["micro_batch"], "workers": 1}
    with odt.Trainer(model, **options, **micro) as trainer:
        x, y = batches(trainer, options["batch_size"])
        expected = [trainer.train_on_batch(*each)["loss"] for each in zip(x, y, strict=True)]
    (folder / "main.c").write_text(mcu.training(manifest, x, y))
    files = [*source.glob("net*.c"), *source.glob("kernels/*.c")]
    strict = "-Wall", "-Wextra", "-Werror", "-I", str(source)
    options_of_gcc = [*manifest["flags"], *strict, optimization]
    objects = mcu.compile_objects(files, folder / "objects", board, options_of_gcc)
    tested = mcu.compile_objects([folder / "main.c"], folder / "main", board, options_of_gcc)
    tested += mcu.compile_start(folder, board)
    program, sizes = mcu.link([*objects, *tested], folder, board, memory)
    numbers = mcu.run(program, board)
    # The C library rounds the logarithm of a loss in another way; weights have the same bits.
    ulps = np.subtract(numbers["loss"], mcu.bits_of(np.array(expected)))
    assert np.abs(ulps).max() <= 2
    weights = sum(4 * int(np.prod(w["shape"])) for w in manifest["weights"])
    measured = Measured(
        manifest,
        sizes,
        code=sizes.text - weights - mcu.text_nbytes(tested),
        instructions=1000 * max(numbers["ticks"]),
        stack=numbers["stack"][0],
        ulps=ulps,
    )
    print(f"{folder.name} {board} {optimization}: {measured.instructions / 1e6:.2f} M instructions")
    print(f"  RAM {measured.ram}, stack {measured.stack}, code {measured.code}")
    assert sizes.data + sizes.bss <= manifest["ram"]["static"]
    assert measured.stack <= manifest["ram"]["stack"]
    return measured


def batches(trainer: odt.Trainer, batch: int) -> tuple[Array, Array]:
    """Random samples of classes: inputs (steps, batch, …) and one-hot targets."""
    rng = np.random.default_rng(3)
    (x,), (y,) = trainer.session.samples.input_specs, trainer.session.samples.target_specs
    images = rng.random((STEPS, batch, *x.shape), np.float32)
    labels = rng.integers(0, y.shape[-1], (STEPS, batch))
    return images, np.eye(y.shape[-1], dtype=np.float32)[labels]


@pytest.mark.parametrize("board", [M4, M7])
def test_mnist_trains_in_little_stack_and_code(board: str, tmp_path: Path) -> None:
    run = train(MNIST, tmp_path, board=board)
    assert not run.ulps.any()
    memory = run.manifest["memory"]
    assert run.sizes.data + run.sizes.bss <= memory["total"] + 512
    assert run.stack <= 4096
    assert run.code <= 50_000


def test_the_last_layer_of_mnist_fits_into_256_kb(tmp_path: Path) -> None:
    run = train(MNIST, tmp_path, memory=256_000, device={"ram": "256kB"}, trainable=odt.last(1))
    assert run.ram <= 256_000


def test_micro_batches_fit_into_ram(tmp_path: Path) -> None:
    run = train(MNIST, tmp_path, memory=500_000, device={"ram": 500_000}, batch_size=4)
    assert run.manifest["micro_batch"] < 4
    assert run.ram <= 500_000


def test_a_tiny_network_trains_in_8_kb(tmp_path: Path) -> None:
    model = tmp_path / "tiny.circle"
    script = str(ROOT / "tools/make_models.py")
    shape = "--input-shape", "8,8,1", "--classes", "3", "--seed", "1"
    subprocess.run([sys.executable, script, "tiny", str(model), *shape], check=True)
    run = train(model, tmp_path, memory=8192, device={"ram": "8KiB"})
    assert run.ram <= 8192


def aifes(folder: Path) -> Path:
    """The sources of AIfES."""
    given = os.environ.get("ODT_AIFES")
    if given:
        return Path(given)
    clone = ["git", "clone", "--quiet", AIFES, str(folder)]
    checkout = ["git", "-C", str(folder), "checkout", "--quiet", AIFES_COMMIT]
    if any(subprocess.run(command, check=False).returncode for command in (clone, checkout)):
        pytest.fail(
            f"{AIFES} must be cloned, at {AIFES_COMMIT}. Give a copy of it: "
            "`make accept ONLY=mcu AIFES=DIR`."
        )
    return folder


def test_mnist_takes_fewer_instructions_and_memory_than_aifes(tmp_path: Path) -> None:
    sources = aifes(tmp_path / "aifes") / "src"
    files = [p for p in sources.rglob("*.c") if not {"cmsis", "CMSIS", "avr_pgm"} & {*p.parts}]
    options = "-O2", "-ffunction-sections", "-fdata-sections", "-w", "-I", str(sources)
    objects = mcu.compile_objects(
        [*files, mcu.FOLDER / "aifes_mnist.c"], tmp_path / "objects", M4, options
    )
    objects += mcu.compile_start(tmp_path, M4)
    theirs = mcu.run(mcu.link(objects, tmp_path, M4)[0], M4)
    weights = 139_304
    ram = theirs["memory"][0] + theirs["stack"][0] + weights
    instructions = 1000 * max(theirs["ticks"])
    (tmp_path / "odt").mkdir()
    most = int(0.61 * ram)
    ours = train(MNIST, tmp_path / "odt", optimization="-O2", memory=most, device={"ram": most})
    print(f"{ours.instructions / instructions:.3f} × AIfES's {instructions} instructions, ")
    print(f"{ours.ram / ram:.3f} × its {ram} bytes")
    assert ours.ram <= 0.61 * ram
    assert ours.instructions <= 0.12 * instructions


@pytest.mark.parametrize("optimization", ["-Os", "-O2", "-O3"])
def test_kernels_take_no_more_stack_than_the_manifest_says(
    optimization: str, tmp_path: Path
) -> None:
    options = [*flags("microcontroller"), optimization, "-fcallgraph-info=su"]
    mcu.compile_objects(kernel_sources(), tmp_path / "o", M4, options)
    most = {}
    for graph in (tmp_path / "o").glob("*.ci"):
        source = graph.stem.rpartition("_")[0] + ".c"
        depths = deepest(graph)
        if depths:  # bf16.c has no kernels for microcontrollers
            most[source] = max(depths.values())
    assert most.keys() == STACK.keys()
    too_large = {source: n for source, n in most.items() if n > STACK[source]}
    assert not too_large
