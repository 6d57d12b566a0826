"""C programs: the bits of `ODT_KERNELS=base` by gcc and clang, other processors, sanitizers."""

import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from bench.networks.dense import mlp
from bench.networks.images import unet_transposed
from bench.networks.layers import Network
from bench.networks.mobile import mobilenet
from bench.networks.plain import mnist
from bench.networks.residual import resnet8
from bench.networks.sequences import gru_unrolled, lstm_128
from bench.networks.task import random_batch
from bench.write_models import write
from support.c_judge import (
    COMPILERS,
    TARGETS,
    command,
    compiled,
    for_target,
    program,
    run,
)
from support.c_programs import kernel_sources
from support.paths import MODELS, ROOT

import odt
from odt.kernels.rows.opdef import Array

pytestmark = pytest.mark.accept
STEPS = 100
NETWORKS: dict[str, tuple[Callable[[], Network], int]] = {
    "mnist": (mnist, 8),
    "mlp": (mlp, 16),
    "resnet8": (resnet8, 2),
    "mobilenet": (lambda: mobilenet(96, 10), 2),
    "lstm": (lstm_128, 4),
    "gru": (gru_unrolled, 4),
    "unet": (unet_transposed, 1),
}
OPTIMIZERS = {
    "sgd": odt.SGD(0.01),
    "momentum": odt.SGD(0.005, momentum=0.9),
    "adam": odt.Adam(1e-3),
    "adamw": odt.AdamW(1e-3),
    "rmsprop": odt.RMSprop(1e-4),
    "lion": odt.Lion(1e-4),
}
LOSSES = (
    *("categorical_crossentropy", "mean_squared_error", "mean_absolute_error"),
    *("binary_crossentropy", "huber", "sparse_categorical_crossentropy"),
)
# What a C library must have, beside what an operator needs.
LIBRARY = {"memcpy", "memset", "memcmp", "sqrtf", "logf", "expf", "tanhf", "sqrt", "pow", "rint"}


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    for tool in ("gcc", "nm"):
        if shutil.which(tool) is None:
            pytest.fail(f"{tool}: must be installed, but is not. apt-get install gcc", False)
    if find_spec("ziglang") is None:
        pytest.fail("ziglang: must be installed, but is not. make accept ONLY=compile", False)
    monkeypatch.setenv("ODT_KERNELS", "base")


class Training(NamedTuple):
    """A program, and what a trainer does with the same batches.

    Attributes:
        folder: the program.
        batches: file of batches.
        losses: losses of the trainer.
        file: the model file that it exports.
    """

    folder: Path
    batches: Path
    losses: list[float]
    file: bytes


def training(network: str, loss: str, optimizer: Any, folder: Path, steps: int) -> Training:
    """Compiles a program, and trains in Python."""
    make, size = NETWORKS[network]
    net, model = make(), folder / f"{network}.tflite"
    if loss == "binary_crossentropy":  # of several classes at once, each with a sigmoid
        net.loss, net.layers[-1].activation = "mse", "sigmoid"
    write(net, model)
    x, y = random_batch(net, steps * size)
    targets: Array = y
    if loss == "sparse_categorical_crossentropy":
        targets = y.argmax(-1).astype(np.int32)
    options: Any = {"loss": loss, "optimizer": optimizer, "batch_size": size}
    return trained(model, x, targets, folder, steps, **options)


def trained(
    model: Path, x: Array, targets: Array, folder: Path, steps: int, **options: Any
) -> Training:
    """Compiles a program for a model, and trains in Python on batches of the samples."""
    size = options["batch_size"]
    odt.compile(model, folder / "c", **options)
    each = list(zip(np.split(x, steps), np.split(targets, steps), strict=True))
    data = b"".join(np.ascontiguousarray(a).tobytes() for pair in each for a in pair)
    (folder / "batches.bin").write_bytes(data)
    with odt.Trainer(model, workers=1, micro_batch=size, **options) as trainer:
        losses = [float(np.float32(trainer.train_on_batch(*pair)["loss"])) for pair in each]
        trainer.export(folder / "expected.tflite")
    file = (folder / "expected.tflite").read_bytes()
    return Training(folder / "c", folder / "batches.bin", losses, file)


def cases() -> list[tuple[str, str, str]]:
    """All networks with all losses that fit their outputs, and all optimizers."""
    return [
        (network, loss, optimizer)
        for network in NETWORKS
        for loss in LOSSES
        for optimizer in OPTIMIZERS
        if network != "unet" or "categorical" not in loss  # its output is one channel
    ]


@pytest.mark.parametrize(
    ("network", "loss", "optimizer"), cases(), ids=["-".join(c) for c in cases()]
)
def test_programs_train_to_the_bits_of_the_base_kernels(
    network: str, loss: str, optimizer: str, tmp_path: Path
) -> None:
    """They save and load their state half-way."""
    expected = training(network, loss, OPTIMIZERS[optimizer], tmp_path, STEPS)

    def check(compiler: str) -> None:
        path = program(expected.folder, compiler)
        losses = run(path, compiler, expected.batches, tmp_path / compiler)
        assert losses == expected.losses, compiler
        assert (tmp_path / compiler).read_bytes() == expected.file, compiler

    with ThreadPoolExecutor() as threads:
        list(threads.map(check, ("gcc", "clang")))


@pytest.mark.parametrize("network", NETWORKS)
def test_other_processors_compute_nearly_the_same(network: str, tmp_path: Path) -> None:
    """The logarithms of their C library differ in the last bit."""
    loss = "mean_squared_error" if network == "unet" else "categorical_crossentropy"
    expected = training(network, loss, OPTIMIZERS["momentum"], tmp_path, STEPS)

    def check(compiler: str) -> None:
        path = program(expected.folder, compiler)
        losses = run(path, compiler, expected.batches, tmp_path / compiler)
        np.testing.assert_allclose(losses, expected.losses, rtol=1e-5, err_msg=compiler)

    with ThreadPoolExecutor() as threads:
        list(threads.map(check, ("aarch64", "armv7", "riscv64")))


@pytest.mark.parametrize("network", NETWORKS)
def test_sanitizers_find_nothing_in_20_steps(network: str, tmp_path: Path) -> None:
    loss = "mean_squared_error" if network == "unet" else "sparse_categorical_crossentropy"
    expected = training(network, loss, OPTIMIZERS["adam"], tmp_path, 20)
    path = program(expected.folder, "sanitizers")
    assert run(path, "sanitizers", expected.batches, tmp_path / "file") == expected.losses


@pytest.mark.parametrize("compiler", ["gcc", "clang", "sanitizers", "armv7"])
@pytest.mark.parametrize("kind", ["dropout", "qas"])
def test_random_numbers_are_those_of_python(kind: str, compiler: str, tmp_path: Path) -> None:
    """Masks of dropout, and the rounding of integers; armv7 has no product of 64 bits."""
    rng, options = np.random.default_rng(5), {"loss": LOSSES[0], "optimizer": odt.Adam(1e-4)}
    if kind == "dropout":
        model, x = tmp_path / "mlp.tflite", rng.normal(size=(160, 784)).astype(np.float32)
        write(mlp(), model)
        y = np.eye(10, dtype=np.float32)[rng.integers(0, 10, 160)]
        options |= {"dropout": {"*": 0.3}}
    else:
        model = MODELS / "mlperf-tiny-kws-dscnn-int8.tflite"
        x = rng.integers(-128, 128, (160, 49, 10, 1)).astype(np.int8)
        y = np.eye(12, dtype=np.float32)[rng.integers(0, 12, 160)]
        options |= {"qas": True}
    expected = trained(model, x, y, tmp_path, 40, batch_size=4, **options)
    path = program(expected.folder, compiler)
    losses = run(path, compiler, expected.batches, tmp_path / "file")
    if compiler == "armv7":
        np.testing.assert_allclose(losses, expected.losses, rtol=1e-4)
    else:
        assert losses == expected.losses
        assert (tmp_path / "file").read_bytes() == expected.file


@pytest.mark.parametrize("target", TARGETS)
def test_all_kernels_compile_for(target: str, tmp_path: Path) -> None:
    objects = for_target(kernel_sources(), target, tmp_path)
    assert min(each.stat().st_size for each in objects)


@pytest.mark.parametrize("target", TARGETS)
def test_programs_compile_for(target: str, tmp_path: Path) -> None:
    expected = training("resnet8", LOSSES[0], OPTIMIZERS["adam"], tmp_path, 1)
    objects = for_target(expected.folder.glob("resnet8*.c"), target, tmp_path)
    assert min(each.stat().st_size for each in objects)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_programs_need_few_functions_of_a_library(compiler: str, tmp_path: Path) -> None:
    for network in NETWORKS:
        folder = tmp_path / network
        folder.mkdir()
        loss = "mean_squared_error" if network == "unet" else "categorical_crossentropy"
        expected = training(network, loss, OPTIMIZERS["adam"], folder, 1)
        sources = *expected.folder.glob(f"{network}*.c"), *expected.folder.glob("kernels/*.c")
        words = COMPILERS[compiler].command
        objects = [compiled(s, words, folder, "-I", str(expected.folder)) for s in sources]
        lines = command("nm", *objects).splitlines()
        symbols = [(line.split()[-2], line.split()[-1]) for line in lines if " " in line]
        defined = {name for kind, name in symbols if kind not in "Uw"}
        undefined = {name for kind, name in symbols if kind == "U"}
        assert undefined - defined <= LIBRARY, network


# Reads batches from a file, and does what tests of C programs do.
MAIN = """
import java.io.FileOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;

public final class Main {
  public static void main(String[] names) throws Exception {
    int batch = Integer.parseInt(names[2]);
    float[] x = new float[784 * batch], t = new float[10 * batch];
    for (int samples : new int[] {1, 0, batch + 1}) {
      try {
        Mnist.train(x, t, samples);
      } catch (IllegalStateException | IllegalArgumentException e) {
        System.err.println(e.getMessage());
      }
    }
    Mnist.init();
    try {
      Mnist.train(x, new float[3], 1);
    } catch (ArrayIndexOutOfBoundsException e) {
      System.err.println("too short");
    }
    byte[] bytes = Files.readAllBytes(Path.of(names[0]));
    ByteBuffer values = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    while (values.hasRemaining()) {
      for (int k = 0; k < x.length; k++) x[k] = values.getFloat();
      for (int k = 0; k < t.length; k++) t[k] = values.getFloat();
      System.out.println(Mnist.train(x, t, batch));
    }
    try (FileOutputStream file = new FileOutputStream(names[1])) {
      Mnist.export(file);
    }
  }
}
"""

# Reads all batches of 8 samples; the caller has all images in one array, and all targets.
CALLER = """
static float images[10 * 8 * 784], targets[10 * 8 * 10];

int main(int count, char **names) {
  FILE *batches = count == 3 ? fopen(names[1], "rb") : NULL;
  for (int k = 0; batches && k < 10; k++) {
    if (fread(images + k * 8 * 784, 4, 8 * 784, batches) != 8 * 784) return 1;
    if (fread(targets + k * 80, 4, 80, batches) != 80) return 1;
  }
  return train_mnist(images, targets, 80, names[2]);
}
"""


def blocks(language: str) -> list[str]:
    """Returns the blocks of a language on the page of callers."""
    page = (ROOT / "docs/compiled-callers.md").read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def test_the_callers_of_the_documentation_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C and Java."""
    for tool, package in (("cmake", "cmake"), ("javac", "openjdk-17-jdk-headless")):
        if shutil.which(tool) is None:
            pytest.fail(f"{tool}: must be installed, but is not. apt-get install {package}", False)
    expected = training("mnist", LOSSES[0], OPTIMIZERS["adam"], tmp_path, 10)
    expected.folder.rename(tmp_path / "mnist-c")
    batch = NETWORKS["mnist"][1]
    caller, glue = blocks("c")
    (declaration,) = blocks("java")
    (cmake,) = blocks("cmake")
    texts = {"mnist_jni.c": glue, "CMakeLists.txt": cmake, "Mnist.java": declaration}
    texts |= {"Main.java": MAIN, "caller.c": caller + CALLER}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    with (tmp_path / "CMakeLists.txt").open("a") as file:
        file.write("add_executable(caller caller.c)\ntarget_link_libraries(caller mnist)\n")
        file.write("target_compile_options(mnist_jni PRIVATE -Wall -Wextra -Werror)\n")
    home = Path(shutil.which("javac") or "").resolve().parents[1]
    monkeypatch.setenv("JAVA_HOME", str(home))
    command("cmake", "-S", tmp_path, "-B", tmp_path / "build")
    command("cmake", "--build", tmp_path / "build")
    command(
        "javac",
        "-Xlint:all",
        "-Werror",
        "-d",
        tmp_path,
        tmp_path / "Main.java",
        tmp_path / "Mnist.java",
    )
    words = "java", f"-Djava.library.path={tmp_path / 'build'}", "-Xcheck:jni", "-cp", tmp_path
    lines = command(*words, "Main", expected.batches, tmp_path / "java", str(batch)).split()
    assert [float(np.float32(line)) for line in lines] == expected.losses
    assert (tmp_path / "java").read_bytes() == expected.file
    lines = command(tmp_path / "build/caller", expected.batches, tmp_path / "c").split()
    assert [float(np.float32(line)) for line in lines] == expected.losses
    assert (tmp_path / "c").read_bytes() == expected.file
