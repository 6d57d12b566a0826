"""Training as a C program: the bits of `ODT_KERNELS=base`, in static memory."""

import ctypes
import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.paths import ROOT

import odt
from odt.core.emit.project import FLAGS
from odt.kernels.native.library import is_available
from odt.kernels.rows.opdef import Array

COMPILER = shutil.which("gcc") or shutil.which("clang") or ""
pytestmark = pytest.mark.skipif(not (COMPILER and is_available()), reason="no C compiler")
MODELS = ROOT / "tests/models"
# The functions of a C library that kernels and optimizers may call.
LIBRARY = {"memcpy", "memset", "memcmp", "sqrtf", "logf", "expf", "tanhf", "sqrt", "pow", "rint"}
BATCH, STEPS = 4, 12
CASES = [
    ("mlperf-tiny-resnet8-cifar10", "categorical_crossentropy", odt.Adam(1e-3)),
    ("mlperf-tiny-vww-mobilenetv1-0.25-96", "categorical_crossentropy", odt.AdamW(1e-3)),
    ("tflm-mnist-lstm-float", "categorical_crossentropy", odt.RMSprop(1e-3, momentum=0.5)),
    ("planestrike-policy-dense", "huber", odt.Adagrad(0.01)),
    (
        "kws-yes-no-conv60x40",
        "categorical_crossentropy",
        odt.SGD(0.01, momentum=0.9, nesterov=True),
    ),
    ("kws-yes-no-dwconv128x32", "sparse_categorical_crossentropy", odt.Adam(1e-3)),
    ("tflm-magic-wand-float", "mean_absolute_error", odt.Lion(1e-4, weight_decay=0.1)),
    ("tflm-hello-world-sine-float", "mean_squared_error", odt.SGD(0.01)),
    # Its calls are others for few samples.
    ("mtcnn-rnet", "mean_squared_error", odt.SGD(0.01)),
]
# Options of the steps, with another learning rate in each step if there is a schedule.
STEP_OPTIONS = {
    "clip_norm": {"clip_norm": 0.05},
    "clip_value": {"clip_value": 1e-3, "warmup": 5},
    "no clip": {"clip_norm": 1e9, "schedule": odt.StepDecay(decay_steps=3)},
    "exponential": {"schedule": odt.ExponentialDecay(decay_steps=7, warmup_steps=2)},
    "polynomial": {"schedule": odt.PolynomialDecay(decay_steps=7, power=1.5)},
    "cosine": {"schedule": odt.CosineDecay(0.003, decay_steps=9, warmup_steps=3, alpha=0.1)},
    "one_cycle": {"schedule": odt.OneCycle(decay_steps=11)},
}


@pytest.fixture(autouse=True)
def base_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODT_KERNELS", "base")


def batches(trainer: odt.Trainer, loss: str) -> list[tuple[list[Array], list[Array]]]:
    """Batches of random samples."""
    rng = np.random.default_rng(5)
    inputs, targets = trainer.session.samples.input_specs, trainer.session.samples.target_specs

    def target(spec: Any) -> Array:
        y: Any = rng.random((BATCH, *spec.shape))
        if loss == "categorical_crossentropy":
            y = y == y.max(-1, keepdims=True)
        if loss == "sparse_categorical_crossentropy":
            y = rng.integers(0, 2, y.shape)
        values: Array = y.astype(spec.dtype)
        return values

    return [
        (
            [rng.normal(size=(BATCH, *s.shape)).astype(s.dtype) for s in inputs],
            [target(s) for s in targets],
        )
        for _ in range(STEPS)
    ]


def one(arrays: Sequence[Array]) -> Any:
    """Arrays as the methods of a trainer take them."""
    return arrays if len(arrays) > 1 else arrays[0]


def build(folder: Path, kernels: Path | None = None) -> None:
    """Builds the program as a shared library, without optimization to save time: bits are equal.

    Args:
        folder: the program.
        kernels: objects of the kernels; None to compile those of the program.
    """
    name = json.loads((folder / "manifest.json").read_text())["name"]
    sources = [folder / f"{name}.c", folder / f"{name}_weights.c"]
    objects = list(kernels.glob("*.o")) if kernels else []
    compile_objects([*sources, *([] if kernels else folder.glob("kernels/*.c"))], folder)
    objects += folder.glob("*.o")
    subprocess.run([COMPILER, "-shared", *objects, "-lm", "-o", folder / "program.so"], check=True)


def compile_objects(sources: Sequence[Path], folder: Path) -> None:
    options = [flag for flag in FLAGS if flag != "-O3"]
    strict = "-O0", "-fPIC", "-Wall", "-Wextra", "-Werror"
    for source in sources:
        out = folder / f"{source.stem}.o"
        files = "-I", folder, "-c", source, "-o", out
        subprocess.run([COMPILER, *options, *strict, *map(str, files)], check=True)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Objects of all kernels."""
    folder = tmp_path_factory.mktemp("kernels")
    others = {"module.c", "team.c", "mapped_files.c", "instruction_sets.c"}
    sources = [p for p in (ROOT / "kernels/native/src").glob("*.c") if p.name not in others]
    compile_objects(sources, folder)
    return folder


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

    def predict_batch(self, x: Sequence[Array]) -> list[Array]:
        samples = len(x[0])
        y = [np.empty((samples, *a["shape"][1:]), a["type"]) for a in self.manifest["outputs"]]
        arrays = [np.ascontiguousarray(a) for a in (*x, *y)]
        assert self.predict(*(ctypes.c_void_p(a.ctypes.data) for a in arrays), samples) == 0
        return y


@pytest.mark.parametrize(("model", "loss", "optimizer"), CASES, ids=[c[0] for c in CASES])
def test_a_c_program_computes_the_bits_of_the_base_kernels(
    model: str, loss: str, optimizer: Any, kernels: Path, tmp_path: Path
) -> None:
    check_bits(MODELS / f"{model}.tflite", kernels, tmp_path, loss=loss, optimizer=optimizer)


@pytest.mark.parametrize("options", STEP_OPTIONS.values(), ids=STEP_OPTIONS)
def test_options_of_steps_change_weights_to_the_bits_of_the_base_kernels(
    options: dict[str, Any], kernels: Path, tmp_path: Path
) -> None:
    path = MODELS / "planestrike-policy-dense.tflite"
    check_bits(path, kernels, tmp_path, loss="huber", optimizer=odt.Adam(0.01), **options)


def check_bits(path: Path, kernels: Path, tmp_path: Path, *, loss: str, **options: Any) -> None:
    """Checks that a program trains as a trainer with the kernels of the base set."""
    options = {"loss": loss, **options}
    odt.compile(path, tmp_path / "c", batch_size=BATCH, **options)
    build(tmp_path / "c", kernels)
    program = Program(tmp_path / "c")
    program.init()
    with odt.Trainer(path, batch_size=BATCH, workers=1, micro_batch=BATCH, **options) as trainer:
        for x, y in batches(trainer, loss):
            expected = trainer.train_on_batch(one(x), one(y))["loss"]
            assert program.loss("train", x, y) == (0, float(np.float32(expected)))
        for samples in (BATCH, 3, 1, 2, BATCH):
            x, y = ([a[:samples] for a in arrays] for arrays in batches(trainer, loss)[0])
            for function in ("test", "train"):
                expected = getattr(trainer, f"{function}_on_batch")(one(x), one(y))["loss"]
                same = "evaluate" if function == "test" else "train"
                assert program.loss(same, x, y) == (0, float(np.float32(expected)))
            outputs: Any = trainer.predict(one(x))
            each = [outputs] if isinstance(outputs, np.ndarray) else outputs
            for output, other in zip(program.predict_batch(x), each, strict=True):
                np.testing.assert_array_equal(output, other)
        names = [w["name"] for w in program.manifest["weights"]]
        assert program.weights() == b"".join(trainer.weights[n].tobytes() for n in names)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A program of one dense layer, with momentum."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ODT_KERNELS", "base")
        folder = tmp_path_factory.mktemp("small") / "c"
        odt.compile(
            MODELS / "tflm-hello-world-sine-float.tflite",
            folder,
            name="small",
            loss="mean_squared_error",
            optimizer=odt.SGD(0.1, momentum=0.9),
            batch_size=BATCH,
        )
        build(folder)
        yield folder


def samples(program: Program, seed: int) -> tuple[list[Array], list[Array]]:
    rng = np.random.default_rng(seed)
    shapes = [[a["shape"] for a in program.manifest[k]] for k in ("inputs", "targets")]
    x, y = ([rng.normal(size=s).astype(np.float32) for s in each] for each in shapes)
    return x, y


def test_a_saved_state_continues_with_the_same_bits(small: Path) -> None:
    program = Program(small)
    program.init()
    x, y = samples(program, 1)
    for _ in range(3):
        program.loss("train", x, y)
    state = ctypes.create_string_buffer(program_state_size(small))
    program.save(state)
    losses = [program.loss("train", x, y) for _ in range(3)]
    program.init()
    assert program.load(state) == 0
    assert [program.loss("train", x, y) for _ in range(3)] == losses
    assert program.load(bytes(len(state))) == 2  # NO_STATE
    assert program.loss("train", x, y) != losses[0]  # and the state is as it was


def program_state_size(folder: Path) -> int:
    header = (folder / "small.h").read_text()
    (line,) = (line for line in header.splitlines() if "SMALL_STATE_SIZE =" in line)
    return int(line.split("=")[1].split()[0])


def test_a_loss_that_is_not_finite_changes_nothing(small: Path) -> None:
    program = Program(small)
    program.init()
    x, y = samples(program, 1)
    program.loss("train", x, y)
    before = program.weights()
    bad = [a.copy() for a in y]
    bad[0].flat[0] = np.nan
    result, loss = program.loss("train", x, bad)
    assert (result, np.isnan(loss)) == (1, True)
    assert program.weights() == before
    once = program.loss("train", x, y)
    program.init()
    program.loss("train", x, y)
    assert program.loss("train", x, y) == once


def test_wrong_calls_return_codes_and_change_nothing(small: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(small, tmp_path / "copy")  # a library that is not loaded yet
    program = Program(copy)
    x, y = samples(program, 1)
    data = ctypes.create_string_buffer(program_state_size(small))
    for function in ("train", "evaluate"):
        assert program.loss(function, x, y) == (3, 0.0)  # NOT_READY
    assert program.predict(data, data, BATCH) == 3
    assert [program.get_weights(data), program.set_weights(data), program.save(data)] == [3] * 3
    assert data.raw == bytes(len(data))
    program.init()
    before = program.weights()
    for size in (0, -1, BATCH + 1):
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*x, *y)]
        loss = ctypes.c_float(7)
        assert program.train(*pointers, size, ctypes.byref(loss)) == 4  # BAD_SIZE
        assert program.evaluate(*pointers, size, ctypes.byref(loss)) == 4
        assert program.predict(*pointers, size) == 4
        assert loss.value == 7
    assert program.set_learning_rate(ctypes.c_double(np.nan)) == 1
    assert program.weights() == before
    assert program.loss("train", x, y)[0] == 0
    assert program.weights() != before


def test_the_rate_of_the_next_steps_can_be_set(small: Path) -> None:
    program = Program(small)
    program.init()
    x, y = samples(program, 1)
    before = program.weights()
    program.set_learning_rate(ctypes.c_double(0))
    program.loss("train", x, y)
    assert program.weights() == before
    program.set_learning_rate(ctypes.c_double(0.1))
    program.loss("train", x, y)
    assert program.weights() != before
    program.set_weights(before)
    assert program.weights() == before


def test_objects_call_a_few_functions_of_the_c_library(small: Path) -> None:
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("no nm")
    objects = [o for o in small.glob("*.o") if o.stem != "example"]
    lines = subprocess.check_output([nm, "-A", *objects], text=True).splitlines()
    symbols = [(line.split()[-2], line.split()[-1].split("@")[0]) for line in lines]
    defined = {name for kind, name in symbols if kind not in "Uw"}
    undefined = {name for kind, name in symbols if kind == "U"} - defined
    assert undefined - {"_GLOBAL_OFFSET_TABLE_"} <= LIBRARY  # which position-independent code has


def test_the_files_are_the_same_in_any_folder(small: Path, tmp_path: Path) -> None:
    odt.compile(
        MODELS / "tflm-hello-world-sine-float.tflite",
        tmp_path / "other name",
        name="small",
        loss="mean_squared_error",
        optimizer=odt.SGD(0.1, momentum=0.9),
        batch_size=BATCH,
    )
    for path in (p for p in (tmp_path / "other name").rglob("*") if p.is_file()):
        assert path.read_bytes() == (small / path.relative_to(tmp_path / "other name")).read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rate": None}, "`learning_rate=`: must be given"),
        ({"schedule": odt.ReduceOnPlateau()}, "the schedule plateau"),
        ({"schedule": odt.CosineDecay()}, "`decay_steps=`: must be given"),
        ({"ema": 0.9}, "it has a moving average of the weights"),
        ({"loss": "kl_divergence"}, "kl_divergence"),
        ({"optimizer": "adafactor"}, "optimizer adafactor"),
        ({"workers": 2}, "`workers=`: must be left out"),
        ({"name": "1x"}, "`name=`: must be letters, digits and _"),
        ({"name": "int"}, "`name=`: must be letters, digits and _"),
    ],
)
def test_what_no_c_program_does_is_refused_before_a_file_is_written(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = MODELS / "planestrike-policy-dense.tflite"
    with pytest.raises((odt.OptionError, odt.UnsupportedError)) as e:
        odt.compile(
            path, tmp_path / "c", **{"loss": "mean_squared_error", "learning_rate": 0.1, **options}
        )
    assert message in str(e.value)
    assert "\n" not in str(e.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.c").touch()
    with pytest.raises(odt.OptionError, match="must be a new or an empty folder"):
        odt.compile(
            MODELS / "planestrike-policy-dense.tflite", tmp_path, loss="huber", learning_rate=0.1
        )
