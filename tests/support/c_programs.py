"""C programs of `odt compile`, built as shared libraries and called from Python."""

import ctypes
import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import odt
from odt.kernels.rows.opdef import Array
from support.paths import ROOT

TARGETS = "generic", "microcontroller"
COMPILER = shutil.which("gcc") or shutil.which("clang") or ""


class Program:
    """The functions of a program that was built."""

    def __init__(self, folder: Path) -> None:
        self.manifest = json.loads((folder / "manifest.json").read_text())
        self._library, self._name = ctypes.CDLL(str(folder / "program.so")), self.manifest["name"]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, f"{self._name}_{name}")

    def loss(self, function: str, x: Sequence[Array], y: Sequence[Array]) -> tuple[int, float]:
        loss = ctypes.c_float()
        samples = len(x[0])
        arrays = [np.ascontiguousarray(a) for a in (*x, *y)]
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
        return getattr(self, function)(*pointers, samples, ctypes.byref(loss)), loss.value

    def weights(self) -> bytes:
        size = sum(4 * int(np.prod(w["shape"])) for w in self.manifest["weights"])
        data = ctypes.create_string_buffer(size)
        self.get_weights(data)
        return data.raw

    def file(self, parts: int = -1) -> tuple[int, bytes]:
        """Returns what `export` returns and writes, if the function fails after some parts."""
        written: list[bytes] = []

        def write(_context: int, data: int, size: int) -> int:
            if len(written) == parts:
                return 1
            written.append(ctypes.string_at(data, size))
            return 0

        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
        return self.export(kind(write), None), b"".join(written)

    def predict_batch(self, x: Sequence[Array]) -> list[Array]:
        samples = len(x[0])
        y = [np.empty((samples, *a["shape"][1:]), a["type"]) for a in self.manifest["outputs"]]
        arrays = [np.ascontiguousarray(a) for a in (*x, *y)]
        assert self.predict(*(ctypes.c_void_p(a.ctypes.data) for a in arrays), samples) == 0
        return y


def build(folder: Path, kernels: Path | None = None) -> None:
    """Builds the program as a shared library, with less optimization to save time: bits are equal.

    Args:
        folder: the program.
        kernels: objects of the kernels; None to compile those of the program.
    """
    manifest = json.loads((folder / "manifest.json").read_text())
    name = manifest["name"]
    options = manifest["flags"] + (shared_kernels(manifest) if kernels else [])
    sources = list(folder.glob(f"{name}*.c"))
    objects = list(kernels.glob("*.o")) if kernels else []
    compile_objects([*sources, *([] if kernels else folder.glob("kernels/*.c"))], options, folder)
    objects += folder.glob("*.o")
    subprocess.run([COMPILER, "-shared", *objects, "-lm", "-o", folder / "program.so"], check=True)


def shared_kernels(manifest: Mapping[str, Any]) -> list[str]:
    """Returns options with which a program calls kernels without its name."""
    return [f"-D{manifest['name']}_{k}_base={k}_base" for k in manifest["kernels"]]


NO_VOLUMES = "-DHAS_VOLUMES=0"  # as in the kernels of programs without volumes


def kernel_sources() -> list[Path]:
    """Returns the C files of all kernels."""
    others = {"module.c", "team.c", "mapped_files.c", "instruction_sets.c"}
    return [p for p in (ROOT / "kernels/native/src").glob("*.c") if p.name not in others]


def compile_objects(sources: Sequence[Path], options: Sequence[str], folder: Path) -> None:
    """Compiles C files with little optimization and without warnings.

    -O1 takes less time than -O0, which copies each function that is always inlined as a whole.

    Args:
        sources: the files.
        options: options of the compiler, of which those of optimization are left out.
        folder: folder of the objects, and of headers.
    """
    options = [option for option in options if not option.startswith("-O")]
    strict = "-O1", "-fPIC", "-Wall", "-Wextra", "-Werror"

    def compile_object(source: Path) -> None:
        files = "-I", folder, "-c", source, "-o", folder / f"{source.stem}.o"
        subprocess.run([COMPILER, *options, *strict, *map(str, files)], check=True)

    with ThreadPoolExecutor() as threads:
        list(threads.map(compile_object, sources))


def batches(
    trainer: odt.Trainer, loss: str, batch: int, count: int
) -> list[tuple[list[Array], list[Array]]]:
    """Returns batches of random samples."""
    rng = np.random.default_rng(5)
    inputs, targets = trainer.session.samples.input_specs, trainer.session.samples.target_specs

    def target(spec: Any) -> Array:
        y: Any = rng.random((batch, *spec.shape))
        if loss.startswith("categorical") or loss == "kl_divergence":
            y = y == y.max(-1, keepdims=True)
        if loss == "sparse_categorical_crossentropy":
            y = rng.integers(0, 2, y.shape)
        values: Array = y.astype(spec.dtype)
        return values

    def sample(spec: Any) -> Array:
        x = rng.normal(size=(batch, *spec.shape))
        return (np.abs(x) * 9).astype(spec.dtype) if spec.dtype == "int32" else x.astype(spec.dtype)

    return [
        (
            [sample(s) for s in inputs],
            [target(s) for s in targets],
        )
        for _ in range(count)
    ]


def one(arrays: Sequence[Array]) -> Any:
    """Returns arrays as the methods of a trainer take them."""
    return arrays if len(arrays) > 1 else arrays[0]
