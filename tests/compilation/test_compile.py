"""Training as a C program: the bits of `ODT_KERNELS=base`, in static memory."""

import ctypes
import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.c_programs import (
    COMPILER,
    TARGETS,
    Program,
    batches,
    build,
    one,
)
from support.onnx_files import OnnxFile, value
from support.option_rows import other
from support.paths import ROOT

import odt
from odt.cli.main import main
from odt.core.export.model_builder import ModelBuilder
from odt.core.options.option import Option
from odt.core.options.training_options import STEP_OPTIONS as STEP_ROWS
from odt.core.runtime.parameters import by_name
from odt.kernels.native.library import is_available
from odt.kernels.rows.opdef import Array

pytest_plugins = ["support.kernel_objects"]
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
STEP_OPTIONS: dict[str, dict[str, Any]] = {
    "clip_norm": {"clip_norm": 0.05},
    "clip_value": {"clip_value": 1e-3, "warmup": 5},
    "no clip": {"clip_norm": 1e9, "schedule": odt.StepDecay(decay_steps=3)},
    "exponential": {"schedule": odt.ExponentialDecay(decay_steps=7, warmup_steps=2)},
    "polynomial": {"schedule": odt.PolynomialDecay(decay_steps=7, power=1.5)},
    "cosine": {"schedule": odt.CosineDecay(0.003, decay_steps=9, warmup_steps=3, alpha=0.1)},
    "one_cycle": {"schedule": odt.OneCycle(decay_steps=11)},
    "ema": {"ema": 0.4},
    "dropout": {"dropout": {"*": 0.3}},
    "dropout and clipping": {"dropout": 0.5, "clip_norm": 0.05, "micro_batch": 3},
}


@pytest.fixture(autouse=True)
def base_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODT_KERNELS", "base")


@pytest.mark.parametrize(("model", "loss", "optimizer"), CASES, ids=[c[0] for c in CASES])
@pytest.mark.parametrize("target", TARGETS)
def test_a_c_program_computes_the_bits_of_the_base_kernels(
    model: str,
    loss: str,
    optimizer: Any,
    target: str,
    kernel_objects: dict[str, Path],
    tmp_path: Path,
) -> None:
    path, options = MODELS / f"{model}.tflite", {"loss": loss, "optimizer": optimizer}
    check_bits(path, kernel_objects, tmp_path, target, **options)


@pytest.mark.parametrize("options", STEP_OPTIONS.values(), ids=STEP_OPTIONS)
def test_options_of_steps_change_weights_to_the_bits_of_the_base_kernels(
    options: dict[str, Any], kernel_objects: dict[str, Path], tmp_path: Path
) -> None:
    path = MODELS / "planestrike-policy-dense.tflite"
    check_bits(path, kernel_objects, tmp_path, loss="huber", optimizer=odt.Adam(0.01), **options)


@pytest.mark.parametrize(
    ("model", "size", "options"),
    [
        ("planestrike-policy-dense", 3, {"loss": "huber"}),
        ("kws-yes-no-conv60x40", 1, {"loss": "categorical_crossentropy", "clip_norm": 0.5}),
        ("kws-yes-no-dwconv128x32", 2, {"loss": "sparse_categorical_crossentropy"}),
    ],
)
def test_micro_batches_train_to_the_bits_of_the_base_kernels(
    model: str, size: int, options: dict[str, Any], kernel_objects: dict[str, Path], tmp_path: Path
) -> None:
    path, optimizer = MODELS / f"{model}.tflite", odt.SGD(0.01, momentum=0.9)
    options = {**options, "optimizer": optimizer, "micro_batch": size}
    check_bits(path, kernel_objects, tmp_path, "microcontroller", **options)


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": odt.SGD(0.01)},
        {"optimizer": odt.Adam(0.01)},
        {"optimizer": odt.Adam(0.01, lazy=True), "micro_batch": 3},
        {"optimizer": odt.Adam(0.01), "clip_norm": 0.01, "ema": 0.9},
    ],
    ids=str,
)
def test_rows_of_tables_train_to_the_bits_of_the_base_kernels(
    options: dict[str, Any], kernel_objects: dict[str, Path], tmp_path: Path
) -> None:
    """Tables of a recommender have sums of rows for gradients."""
    builder = ModelBuilder("tflite")
    ids = builder.add_input((1, 3), "int32")
    table = builder.add_weight((2000, 16), 16, "table")
    rows = builder.add_operator("GATHER", (table, ids), (1, 3, 16), axis=0)
    shape = builder.add_constant(np.array([1, 48], np.int32))
    flat = builder.add_operator("RESHAPE", (rows, shape), (1, 48))
    path = tmp_path / "table.tflite"
    builder.write(path, builder.add_dense(flat, 2))
    check_bits(path, kernel_objects, tmp_path, loss="mean_squared_error", **options)
    assert "rows of the gradient of table" in (tmp_path / "c/table.c").read_text()


def test_volumes_train_to_the_bits_of_the_base_kernels(tmp_path: Path) -> None:
    builder = ModelBuilder("tflite")
    y = builder.add_input((1, 3, 5, 4, 2))
    for units, shape in ((3, (1, 2, 3, 4, 3)), (4, (1, 1, 2, 4, 4))):
        filters = builder.add_weight((3, 2, 3, units - 1, units), 36, f"filters of {units}")
        bias = builder.add_constant(np.zeros(units, np.float32), f"bias of {units}")
        y = builder.add_operator(
            "CONV_3D", (y, filters, bias), shape, stride_d=2, stride_h=2, stride_w=1
        )
    path = tmp_path / "video.tflite"
    builder.write(path, y)
    check_bits(path, {"generic": None}, tmp_path, loss="mean_squared_error", optimizer=odt.SGD(0.1))
    assert "#define HAS_SUMS 0 " in (tmp_path / "c/kernels/abi.h").read_text()


def test_sums_with_products_train_to_the_bits_of_the_base_kernels(tmp_path: Path) -> None:
    """Two dense layers add their inputs in registers."""
    builder = ModelBuilder("circle")
    y = builder.add_input((1, 64, 16))
    for name in ("first", "second"):
        weight = builder.add_weight((16, 16), 16, name)
        z = builder.add_operator("FULLY_CONNECTED", (y, weight), (1, 64, 16), keep_num_dims=True)
        y = builder.add_operator("ADD", (z, y), (1, 64, 16))
    path = tmp_path / "residual.circle"
    builder.write(path, y)
    check_bits(path, {"generic": None}, tmp_path, loss="mean_squared_error", optimizer=odt.SGD(0.1))
    assert "#define HAS_SUMS 1 " in (tmp_path / "c/kernels/abi.h").read_text()


def test_a_chunked_loss_trains_to_the_bits_of_the_base_kernels(
    kernel_objects: dict[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The last layer of 7 words and its cross-entropy compute 2 positions at once."""
    monkeypatch.setattr("odt.core.planning.output_loss.LEAST_SAVED", -(10**9))
    monkeypatch.setattr("odt.core.planning.chunked_loss.CHUNK", 2 * 7 * 4)
    monkeypatch.setattr("odt.core.planning.chunked_loss.LEAST_ROWS", 1)
    builder = ModelBuilder("circle")
    y = builder.add_input((1, 5, 6))
    for name, units in (("hidden", 6), ("head", 7)):
        weight = builder.add_weight((units, 6), 6, name)
        y = builder.add_operator("FULLY_CONNECTED", (y, weight), (1, 5, units), keep_num_dims=True)
    path = tmp_path / "words.circle"
    builder.write(path, y)
    check_bits(
        path,
        kernel_objects,
        tmp_path,
        loss="sparse_categorical_crossentropy",
        optimizer=odt.SGD(0.1),
    )
    assert (tmp_path / "c/words.c").read_text().count("words_label_rows_base(") > 10  # chunks


def check_bits(
    path: Path,
    kernel_objects: Mapping[str, Path | None],
    tmp_path: Path,
    target: str = "generic",
    *,
    loss: str,
    **options: Any,
) -> None:
    """Checks that a program trains as a trainer with the kernels of the base set."""
    options = {"micro_batch": BATCH, "loss": loss, **options}
    odt.compile(path, tmp_path / "c", batch_size=BATCH, target=target, **options)
    build(tmp_path / "c", kernel_objects[target])
    program = Program(tmp_path / "c")
    program.init()
    with odt.Trainer(path, batch_size=BATCH, workers=1, **options) as trainer:
        for x, y in batches(trainer, loss, BATCH, STEPS):
            expected = trainer.train_on_batch(one(x), one(y))["loss"]
            assert program.loss("train", x, y) == (0, float(np.float32(expected)))
        for samples in (BATCH, 3, 1, 2, BATCH):
            x, y = (
                [a[:samples] for a in arrays] for arrays in batches(trainer, loss, BATCH, STEPS)[0]
            )
            for function in ("test", "train"):
                expected = getattr(trainer, f"{function}_on_batch")(one(x), one(y))["loss"]
                same = "evaluate" if function == "test" else "train"
                assert program.loss(same, x, y) == (0, float(np.float32(expected)))
            outputs: Any = trainer.predict(one(x))
            each = [outputs] if isinstance(outputs, np.ndarray) else outputs
            for output, other in zip(program.predict_batch(x), each, strict=True):
                np.testing.assert_array_equal(output, other)
        trainer.export(tmp_path / "trained")
        assert program.file() == (0, (tmp_path / "trained").read_bytes())
        check_weights(program, trainer)


def check_weights(program: Program, trainer: odt.Trainer) -> None:
    """Checks that both have the same weights, or averages of the weights."""
    core = trainer.session.build()
    used = by_name(core.graph, core.parameters.averages()) or trainer.weights
    names = [w["name"] for w in program.manifest["weights"]]
    assert program.weights() == b"".join(used[n].tobytes() for n in names)


@pytest.mark.parametrize(
    ("loss", "activation"),
    [
        ("kl_divergence", "Softmax"),
        ("categorical_focal_crossentropy", "Softmax"),
        ("binary_focal_crossentropy", "Sigmoid"),
    ],
)
def test_losses_made_of_maps_are_compiled(
    loss: str, activation: str, kernel_objects: dict[str, Path], tmp_path: Path
) -> None:
    rng, file = np.random.default_rng(3), OnnxFile()
    file.inputs.append(value("x", ("N", 6)))
    file.outputs.append(value("y", ("N", 3)))
    shapes = {"w": (3, 6), "b": (3,)}
    file.constants({n: rng.normal(size=s).astype(np.float32) for n, s in shapes.items()})
    file.add("Gemm", "x", "w", "b", outputs=["z"], transB=1)
    file.add(activation, "z")
    path = file.write(tmp_path / "model.onnx")
    check_bits(path, kernel_objects, tmp_path, loss=loss, optimizer=odt.Adam(0.01))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("trainable", [None, odt.last(2)], ids=["whole", "last layer"])
def test_a_quantized_model_trains_on_rounded_weights(
    trainable: Any, target: str, kernel_objects: dict[str, Path], tmp_path: Path
) -> None:
    """What does not train computes integers."""
    path, loss = MODELS / "mlperf-tiny-kws-dscnn-int8.tflite", "categorical_crossentropy"
    options: dict[str, Any] = {"loss": loss, "optimizer": odt.Adam(1e-3), "batch_size": BATCH}
    options["trainable"] = trainable
    odt.compile(path, tmp_path / "c", target=target, export=False, **options)
    build(tmp_path / "c", kernel_objects[target])
    program = Program(tmp_path / "c")
    program.init()
    with odt.Trainer(path, workers=1, micro_batch=BATCH, **options) as trainer:
        for x, y in batches(trainer, loss, BATCH, 6):
            expected = trainer.train_on_batch(one(x), one(y))["loss"]
            assert program.loss("train", x, y) == (0, float(np.float32(expected)))
        check_weights(program, trainer)
        # Rounded numbers too; `evaluate` of the trainer computes integers.
        data = trainer.session.open_batch(one(x), one(y), None)
        expected = trainer.session.build().batch(data, BATCH, update=False).loss
        assert program.loss("evaluate", x, y) == (0, float(np.float32(expected)))


QAS_OPTIMIZERS = [
    odt.SGD(1e-4),
    odt.SGD(1e-4, momentum=0.9),
    odt.Adam(1e-4),
    odt.AdamW(1e-4),
    odt.RMSprop(1e-4, momentum=0.5),
    odt.Adagrad(1e-4),
    odt.Lion(1e-4),
]


@pytest.mark.parametrize("optimizer", QAS_OPTIMIZERS, ids=str)
def test_integers_train_to_the_bits_of_the_base_kernels(
    optimizer: Any, kernel_objects: dict[str, Path], tmp_path: Path
) -> None:
    """Their rounding follows from the seed."""
    path, loss = MODELS / "mlperf-tiny-kws-dscnn-int8.tflite", "categorical_crossentropy"
    given: dict[str, Any] = {"loss": loss, "optimizer": optimizer, "batch_size": BATCH, "qas": True}
    odt.compile(path, tmp_path / "c", **given)
    build(tmp_path / "c", kernel_objects["generic"])
    program = Program(tmp_path / "c")
    program.init()
    program.set_seed(ctypes.c_uint64(7))
    with odt.Trainer(path, workers=1, micro_batch=BATCH, **given) as trainer:
        trainer.session.build().parameters.mask_seed = 7
        for x, y in batches(trainer, loss, BATCH, 6):
            expected = trainer.train_on_batch(one(x), one(y))["loss"]
            assert program.loss("train", x, y) == (0, float(np.float32(expected)))
        tensors = trainer.session.build().parameters.tensors.values()
        data = b"".join(a.tobytes() for a in tensors)
        weights = ctypes.create_string_buffer(len(data))
        program.get_weights(weights)
        assert weights.raw == data
        assert {a.dtype.name for a in tensors} == {"int8", "float32"}
        trainer.export(tmp_path / "trained")
        assert program.file() == (0, (tmp_path / "trained").read_bytes())


def operators(path: Path) -> Path:
    """Writes a network with operators on integers and bools, powers, sines and indices."""
    rng = np.random.default_rng(3)
    file = OnnxFile()
    file.inputs.append(value("x", ("N", 6)))
    file.outputs.append(value("y", ("N", 3)))
    weights = {"w1": (8, 6), "b1": (8,), "w2": (3, 24), "b2": (3,)}
    file.constants({n: rng.normal(size=s).astype(np.float32) for n, s in weights.items()})
    file.constants({"power": np.array(1.7, np.float32), "axis": np.array(1), "depth": np.array(8)})
    file.constants({"values": np.array([0, 1], np.float32), "at": np.array([[7], [0], [7]])})
    file.constants({"axes": np.array([1])})
    file.add("Gemm", "x", "w1", "b1", outputs=["h"], transB=1)
    file.add("Sin", "h", outputs=["sine"])
    file.add("Cos", "h", outputs=["cosine"])
    file.add("Abs", "h", outputs=["size"])
    file.add("Pow", "size", "power", outputs=["powers"])
    file.add("Less", "sine", "cosine", outputs=["less"])
    file.add("GreaterOrEqual", "h", "powers", outputs=["more"])
    file.add("And", "less", "more", outputs=["both"])
    file.add("Not", "both", outputs=["other"])
    file.add("Where", "other", "sine", "powers", outputs=["either"])
    file.add("Cast", "less", outputs=["number"], to=1)
    file.add("Round", "powers", outputs=["round"])
    file.add("Sign", "h", outputs=["sign"])
    file.add("Ceil", "cosine", outputs=["ceil"])
    file.add("Sum", "number", "round", "sign", "ceil", "either", outputs=["sum"])
    file.add("CumSum", "sum", "axis", outputs=["cumulative"])
    file.add("ArgMax", "h", outputs=["best"], axis=1, keepdims=0)
    file.add("OneHot", "best", "depth", "values", outputs=["hot"])
    file.add("Mul", "hot", "cumulative", outputs=["chosen"])
    file.add("Gather", "cumulative", "at", outputs=["gathered"], axis=1)
    file.add("ReduceProd", "gathered", outputs=["product"], axes=[1, 2], keepdims=1)
    file.add("Squeeze", "product", "axes", outputs=["column"])
    file.add("Mul", "column", "sine", outputs=["scaled"])
    file.add("Concat", "cumulative", "chosen", "scaled", outputs=["all"], axis=1)
    file.add("Tanh", "all", outputs=["end"])
    file.add("Gemm", "end", "w2", "b2", transB=1)
    return file.write(path)


def test_operators_on_integers_and_bools_are_compiled(
    kernel_objects: dict[str, Path], tmp_path: Path
) -> None:
    path = operators(tmp_path / "operators.onnx")
    check_bits(path, kernel_objects, tmp_path, loss="mean_squared_error", optimizer=odt.Adam(0.01))


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
    losses = [program.loss("train", x, y) for _ in range(4)]
    program.init()
    assert program.load(state) == 0
    assert [program.loss("train", x, y) for _ in range(3)] == losses[:3]
    assert program.load(bytes(len(state))) == 2  # NO_STATE
    assert program.loss("train", x, y) == losses[3]  # the state is as it was


def test_random_numbers_follow_from_a_seed_that_is_saved(
    kernel_objects: dict[str, Path], tmp_path: Path
) -> None:
    """With the micro-batch of 3 samples the masks of a batch begin in the middle of a block."""
    path, loss, steps = MODELS / "planestrike-policy-dense.tflite", "mean_squared_error", 8
    options: dict[str, Any] = {"loss": loss, "optimizer": odt.SGD(0.1), "dropout": {"*": 0.3}}
    options |= {"batch_size": BATCH, "micro_batch": 3}
    odt.compile(path, tmp_path / "c", name="small", **options)
    build(tmp_path / "c", kernel_objects["generic"])
    program = Program(tmp_path / "c")
    with odt.Trainer(path, workers=1, **options) as trainer:
        each = batches(trainer, loss, BATCH, steps)
        trainer.session.build().parameters.mask_seed = 7
        expected = [
            (0, float(np.float32(trainer.train_on_batch(one(x), one(y))["loss"]))) for x, y in each
        ]
    program.init()
    assert [program.loss("train", x, y) for x, y in each] != expected
    program.init()
    program.set_seed(ctypes.c_uint64(7))
    half = steps // 2
    assert [program.loss("train", x, y) for x, y in each[:half]] == expected[:half]
    state = ctypes.create_string_buffer(program_state_size(tmp_path / "c"))
    program.save(state)
    program.init()
    program.loss("train", *each[0])
    assert program.load(state) == 0
    assert [program.loss("train", x, y) for x, y in each[half:]] == expected[half:]


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


def test_the_example_trains_on_a_file(small: Path, tmp_path: Path) -> None:
    """Its last batch is smaller."""
    program = Program(small)
    program.init()
    (x,), (y,) = samples(program, 1)
    each = np.concatenate([x.reshape(BATCH, -1), y.reshape(BATCH, -1)], 1)
    (tmp_path / "samples.bin").write_bytes(each.tobytes() + each[:3].tobytes())
    objects = [p for p in small.glob("*.o") if p.stem != "example"]
    strict = "-Wall", "-Wextra", "-Werror", "-o", str(tmp_path / "example")
    subprocess.run([COMPILER, *strict, small / "example.c", *objects, "-lm"], check=True)
    run = [tmp_path / "example", tmp_path / "samples.bin"]
    lines = subprocess.run(run, check=True, capture_output=True, text=True).stdout.split()
    losses = [program.loss("train", [x[:n]], [y[:n]])[1] for n in (BATCH, 3)]
    assert [float(np.float32(line)) for line in lines] == losses


def test_the_files_are_the_same_in_any_folder(small: Path, tmp_path: Path) -> None:
    odt.compile(
        MODELS / "tflm-hello-world-sine-float.tflite",
        tmp_path / "other name",
        name="small",
        loss="mean_squared_error",
        optimizer=odt.SGD(0.1, momentum=0.9),
        batch_size=BATCH,
    )
    one, other = (
        {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        for folder in (small, tmp_path / "other name")
    )
    assert other
    assert other.items() <= one.items()  # the first program is compiled, too


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rate": None}, "`learning_rate=`: must be given"),
        ({"schedule": odt.ReduceOnPlateau()}, "the schedule plateau. Give `schedule=cosine`."),
        (
            {"optimizer": "adafactor", "accumulate": 2},
            "the option `accumulate=`; the optimizer adafactor, which is not compiled. Leave "
            "`accumulate=` out; `micro_batch=` divides a large batch, too. Give `optimizer=adam`.",
        ),
        (
            {"sparse": {"FULLY_CONNECTED": 0.5}},
            "it has filters that train in part. Leave `sparse=` out.",
        ),
        ({"schedule": odt.CosineDecay()}, "`decay_steps=`: must be given"),
        ({"optimizer": "adafactor"}, "optimizer adafactor"),
        (
            {"loss": odt.CategoricalCrossentropy(label_smoothing=0.1)},
            "not compiled. Give the `loss=` without label smoothing.",
        ),
        ({"workers": 2}, "`workers=`: must be left out"),
        ({"name": "1x"}, "`name=`: must be letters, digits and _"),
        ({"name": "int"}, "`name=`: must be letters, digits and _"),
        ({"name": "example"}, "`name=`: must be no name of a file, target or library"),
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


@pytest.mark.parametrize(("name", "row"), STEP_ROWS.items(), ids=STEP_ROWS)
def test_each_option_of_steps_is_compiled_or_refused(
    name: str, row: Option, tmp_path: Path
) -> None:
    if row.compiled:
        compared = {name for options in STEP_OPTIONS.values() for name in options} | {"qas"}
        assert name in compared, f"add a case with {name} to STEP_OPTIONS, which compares bits"
        return
    options: dict[str, Any] = {"loss": "huber", "learning_rate": 0.1, name: other(row)}
    with pytest.raises((odt.OptionError, odt.UnsupportedError), match=f"`{name}=`"):
        odt.compile(MODELS / "planestrike-policy-dense.tflite", tmp_path / "c", **options)
    assert list(tmp_path.iterdir()) == []


def test_the_command_has_the_options_of_steps(tmp_path: Path) -> None:
    words = ["compile", str(MODELS / "planestrike-policy-dense.tflite"), "--loss", "huber"]
    words += ["--learning-rate", "0.1", "-o", str(tmp_path / "c"), "--schedule"]
    result = CliRunner().invoke(main, [*words, "cosine"])
    assert result.exit_code == 1
    assert "--schedule NAME:decay_steps=N: must be given" in result.output
    words += ["cosine:decay_steps=9", "--warmup", "2", "--dropout", "0.2", "--clip-norm", "1"]
    result = CliRunner().invoke(main, [*words, "--ema", "0.9"])
    assert result.exit_code == 0, result.output
    kernels = json.loads((tmp_path / "c/manifest.json").read_text())["kernels"]
    assert {"dropout_mask", "clip_factor", "move_average"} <= {*kernels}


def test_operators_without_a_compiled_kernel_are_named(tmp_path: Path) -> None:
    file = OnnxFile()
    file.inputs.append(value("x", ("N", 1, 6, 6)))
    file.outputs.append(value("y", ("N", 1, 6, 6)))
    file.constants({"w": np.ones((1, 1, 3, 3), np.float32), "pads": np.array([0, 0, 1, 1] * 2)})
    file.add("Pad", "x", "pads", outputs=["padded"], mode="reflect")
    file.add("Conv", "padded", "w", outputs=["y"])
    path = file.write(tmp_path / "model.onnx")
    with pytest.raises(odt.UnsupportedError) as e:
        odt.compile(path, tmp_path / "c", loss="mean_squared_error", learning_rate=0.1)
    assert str(e.value) == (
        f"{path}: its training step cannot be a C program, because it has 0 MIRROR_PAD, which is "
        "not compiled. Replace these operators in the model."
    )
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


def test_activations_of_16_bits_are_refused_with_what_to_do(tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((8, 6), np.float32)
    model = odt.new_model("mlp", input_shape=(6,), outputs=3, hidden=(4,), seed=1)
    odt.quantize(model, x, scheme="int16x8").model.save(tmp_path / "m.tflite")
    with pytest.raises(odt.UnsupportedError) as e:
        odt.compile(tmp_path / "m.tflite", tmp_path / "c", learning_rate=0.1)
    assert str(e.value) == (
        f"{tmp_path / 'm.tflite'}: its training step cannot be a C program, because it has "
        "0 INTEGER_QUANTIZE, which is not compiled; 0 INTEGER_DEQUANTIZE, which is not compiled. "
        "Give a model whose activations are float32 or int8."
    )
    assert [p.name for p in tmp_path.iterdir()] == ["m.tflite"]


def test_a_folder_with_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.c").touch()
    with pytest.raises(odt.OptionError, match="must be a new or an empty folder"):
        odt.compile(
            MODELS / "planestrike-policy-dense.tflite", tmp_path, loss="huber", learning_rate=0.1
        )


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    model = MODELS / "planestrike-policy-dense.tflite"
    for folder in (tmp_path / "file" / "c", tmp_path / ("x" * 300)):
        with pytest.raises(odt.OdtError, match="must be a folder that can be written"):
            odt.compile(model, folder, loss="huber", learning_rate=0.1)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
