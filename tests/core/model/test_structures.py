"""Models whose structure is changed: each gives an answer or one line, in bounded time and memory.

A few hundred here, 60,000 in process and 350 through the command line in accept.
"""

import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from model_builder import ModelBuilder
from support.limits import FOREVER, SECONDS
from support.mutations import mutations, structures
from support.paths import MODELS

from odt.core.export.exporter import export_model
from odt.core.export.format_edit import format_edit
from odt.core.export.remedies import what_trains
from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.recipe.lowered_model import lower_model
from odt.core.recipe.prepare import Request, prepare
from odt.core.recipe.trainability import flops, trainability
from odt.core.training.inference import Predictor
from odt.core.training.random_data import RandomData
from odt.core.training.trainer import Trainer
from odt.errors import MAX_MESSAGE, OdtError
from odt.kernels.rows.lossdef import draw_values
from odt.models.summary import describe as describe_model
from odt.training.checking import describe_refusals, describe_weights

GROWTH = 500 << 20
MAX_RUN = 2 * 10**7  # arithmetic and data of a step that is run: a larger one is not odt's fault
MAX_ARENA = 32 << 20


def image(model: ModelBuilder) -> int:
    """Convolutions, pooling, a pad, an average over the image, classes."""
    x = model.add_input((1, 8, 8, 2))
    pads = model.add_constant([[0, 0], [1, 1], [1, 1], [0, 0]])
    y = model.add_operator("PAD", (x, pads), (1, 10, 10, 2))
    w, b = model.add_weight((3, 3, 3, 2), 18), model.add_constant(np.zeros(3, np.float32))
    y = model.add_operator(
        "CONV_2D", (y, w, b), (1, 8, 8, 3), padding=1, stride_w=1, stride_h=1,
        dilation_w_factor=1, dilation_h_factor=1, fused_activation_function=1,
    )  # fmt: skip
    w = model.add_weight((1, 3, 3, 3), 9)
    y = model.add_operator(
        "DEPTHWISE_CONV_2D", (y, w, b), (1, 4, 4, 3), padding=0, stride_w=2, stride_h=2,
        depth_multiplier=1, dilation_w_factor=1, dilation_h_factor=1,
    )  # fmt: skip
    y = model.add_operator(
        "MAX_POOL_2D", (y,), (1, 2, 2, 3), padding=1, stride_w=2, stride_h=2, filter_width=2,
        filter_height=2,
    )  # fmt: skip
    y = model.add_operator("RESIZE_BILINEAR", (y, model.add_constant([4, 4])), (1, 4, 4, 3))
    y = model.add_operator("MEAN", (y, model.add_constant([1, 2])), (1, 3), keep_dims=False)
    y = model.add_dense(y, 4)
    return model.add_operator("SOFTMAX", (y,), (1, 4), beta=1.0)


def shapes(model: ModelBuilder) -> int:
    """Shapes computed from shapes, and what fills, cuts, joins and repeats."""
    x = model.add_input((1, 6))
    ends = [model.add_constant([k]) for k in (0, 1, 1)]
    shape = model.add_operator("SHAPE", (x,), (2,), dtype="int32", out_type=2)
    n = model.add_operator("STRIDED_SLICE", (shape, *ends), (), dtype="int32", shrink_axis_mask=1)
    two, three = model.add_constant(2), model.add_constant(3)
    target = model.add_operator("PACK", (n, two, three), (3,), dtype="int32", values_count=3)
    y = model.add_operator("RESHAPE", (x, target), (1, 2, 3))
    first = model.add_operator(
        "SPLIT", (model.add_constant(1), y), (1, 1, 3), (1, 1, 3), num_splits=2
    )
    y = model.add_operator("CONCATENATION", (first, first + 1, first), (1, 3, 3), axis=1)
    y = model.add_operator("TRANSPOSE", (y, model.add_constant([0, 2, 1])), (1, 3, 3))
    y = model.add_operator("TILE", (y, model.add_constant([1, 1, 2])), (1, 3, 6))
    steps = model.add_operator(
        "RANGE", (model.add_constant(0), model.add_constant(6), model.add_constant(2)), (3,),
        dtype="int32",
    )  # fmt: skip
    y = model.add_operator("GATHER", (y, steps), (1, 3, 3), axis=2)
    dims, one = model.add_constant([3]), model.add_constant(1)
    ones = model.add_operator("FILL", (dims, one), (3,), dtype="int32")
    hot = model.add_operator(
        "ONE_HOT", (ones, three, model.add_constant(1.0), model.add_constant(0.0)), (3, 3), axis=-1
    )
    y = model.add_operator("BATCH_MATMUL", (y, hot), (1, 3, 3))
    y = model.add_operator("RESHAPE", (y, model.add_constant([1, -1])), (1, 9))
    return model.add_dense(y, 2)


def stored(model: ModelBuilder) -> int:
    """Weights of float16 behind DEQUANTIZE, and int8 ones that operators name."""
    x = model.add_input((1, 6))
    half = model.add_constant(model.rng.normal(size=(5, 6)).astype(np.float16))
    w = model.add_operator("DEQUANTIZE", (half,), (5, 6))
    y = model.add_operator("FULLY_CONNECTED", (x, w, -1), (1, 5), fused_activation_function=1)
    w = model.add_constant(model.rng.integers(-127, 128, (4, 5)).astype(np.int8))
    model.quantize(w, [0.01, 0.02, 0.03, 0.04], [0] * 4)
    y = model.add_operator("FULLY_CONNECTED", (y, w, -1), (1, 4))
    y = model.add_operator("LOGISTIC", (y,), (1, 4))
    model.add_metadata("notes", b"some")
    model.add_signature("serve", {"x": x}, {"y": y})
    return y


def recurrent(model: ModelBuilder) -> int:
    x = model.add_input((1, 3, 2))
    weights = [model.add_weight(s, 3) for s in ((4, 2), (4, 4), (4,))]
    y = model.add_operator(
        "UNIDIRECTIONAL_SEQUENCE_RNN", (x, *weights, model.add_state((1, 4))), (1, 3, 4),
        fused_activation_function=4,
    )  # fmt: skip
    y = model.add_operator("REDUCE_MAX", (y, model.add_constant([1])), (1, 4))
    values = model.add_operator("TOPK_V2", (y, model.add_constant(3)), (1, 3), (1, 3))
    model.graph.tensors[values + 1].type = 2
    y = model.add_operator("ADD_N", (values, values), (1, 3))
    w = model.add_constant(np.ones(3, np.float32))
    for op in ("MUL", "ADD", "SUB", "MAXIMUM"):
        y = model.add_operator(op, (y, w), (1, 3))
    return model.add_operator("TANH", (y,), (1, 3))


DATA = ("--load-input", "x.bin", "--load-expected", "t.bin")
START = 2  # seconds that a process takes to start, on a busy machine
SHIPPED = (
    "tflm-hello-world-sine-float.tflite",
    "tflm-magic-wand-float.tflite",
    "tflm-mnist-lstm-float.tflite",
    "test_onnx.circle",
    "mlperf-tiny-kws-dscnn-hybrid.tflite",
)
BASES = {f.__name__: f for f in (image, shapes, stored, recurrent)}


def base(name: str, file_format: str = "circle") -> bytes:
    if name not in BASES:
        return (MODELS / name).read_bytes()
    model = ModelBuilder(file_format, seed=0)
    return model.build(BASES[name](model))


def changed(name: str, count: int, seed: int) -> Iterator[bytes]:
    """Structures and, one in four, bytes."""
    data = base(name)
    yield from structures(data, count - count // 4, seed)
    yield from mutations(data, count // 4, seed)


def answer(data: bytes, out: Path) -> None:
    """What all commands do with a model; raises OdtError where one refuses it."""
    model = parse_model(memoryview(data), "changed")
    lowered = lower_model(model)
    describe_model(lowered)
    format_edit(model, "tflite")
    refused = lowered.graphs.unsupported
    if refused:
        describe_refusals(refused, what_trains(lowered, refused))
    recipe = prepare(lowered, Request({"loss": "mean_squared_error", "batch_size": 2}))
    graph, info = recipe.graph, recipe.info
    with Trainer(recipe.graphs, info, workers=1) as trainer:
        found = trainability(graph, info, trainer.plan)
        describe_weights(trainer.plan.graph, found)
        runtime = trainer.runtime
        values = sum(spec.size for spec in (*runtime.input_specs, *runtime.target_specs))
        if flops(trainer.plan.graph) + 20 * values > MAX_RUN:
            return
        if trainer.memory().arena > MAX_ARENA:
            return
        data_ = RandomData(
            runtime.input_specs, runtime.target_specs, [draw_values] * len(runtime.losses)
        )
        with Predictor(graph, 2, workers=1) as predictor:
            for _ in predictor.run(replace(data_, targets=()), range(2)):
                pass
        trainer.step(data_, 2)
        export_model(model, trainer.weights(), out)


def within_bounds(data: bytes, number: object, out: Path) -> bool:
    """Whether there was an answer; anything but one line in bounded time and memory fails."""
    begin, before, peak = time.process_time(), resident(), peak_resident()
    error = ""
    try:
        answer(data, out)
    except OdtError as e:
        error = str(e)
    except MemoryError:  # for which commands name the option that needs less
        error = "memory"
    assert len(error) <= MAX_MESSAGE, number
    assert error.isprintable(), number
    assert time.process_time() - begin < SECONDS, number
    assert peak_resident() == peak or peak_resident() - before < GROWTH, number
    return not error


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def peak_resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(name: str, count: int, seed: int, out: Path) -> None:
    answers = 0
    with np.errstate(all="ignore"):
        for k, data in enumerate(changed(name, count, seed)):
            answers += within_bounds(data, (name, seed, k), out)
    assert 0 < answers < count, "changes must be neither harmless nor all fatal"


@pytest.mark.parametrize("name", BASES)
def test_unchanged_structures_give_a_result(name: str, tmp_path: Path) -> None:
    for file_format in ("circle", "tflite"):
        answer(base(name, file_format), tmp_path / "out")


@pytest.mark.parametrize("name", BASES)
def test_changed_structures(name: str, tmp_path: Path) -> None:
    run(name, 60, 0, tmp_path / "out")


@pytest.mark.accept
@pytest.mark.parametrize("seed", range(1, 9))
@pytest.mark.parametrize("name", [*BASES, *SHIPPED])
def test_changed_structures_at_length(name: str, seed: int, tmp_path: Path) -> None:
    run(name, 850, seed, tmp_path / "out")


COMMANDS = (
    ("inspect",),
    ("check", "--loss", "mean-squared-error"),
    ("plan", "--loss", "mean-squared-error", "--batch-size", "2"),
    ("train", "--loss", "mean-squared-error", "--epochs", "1", "--batch-size", "2", *DATA),
    ("predict", "--load-input", "x.bin", "--output", "y.npz"),
    ("convert",),
    ("package", "-o", "package"),
)


@pytest.mark.accept
@pytest.mark.parametrize("seed", range(1000, 1005))
@pytest.mark.parametrize("name", [*BASES, "tflm-magic-wand-float.tflite"])
def test_changed_structures_through_the_command_line(name: str, seed: int, tmp_path: Path) -> None:
    """14 each, twice through every command: 350."""
    rng = np.random.default_rng(seed)
    for file in ("x.bin", "t.bin"):
        rng.normal(size=2**16).astype("<f4").tofile(tmp_path / file)
    made = "m.tflite" if name in SHIPPED else "m.circle"
    for k, data in enumerate(changed(name, 14, seed)):
        path = tmp_path / made
        path.write_bytes(data)
        command, *options = COMMANDS[k % len(COMMANDS)]
        arguments = [command, str(path), *options]
        if command == "convert":
            arguments.append("c.circle" if made == "m.tflite" else "c.tflite")
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        result = subprocess.run(
            [sys.executable, "-m", "odt", *arguments],
            cwd=tmp_path, capture_output=True, text=True, timeout=FOREVER, check=False,
        )  # fmt: skip
        used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        case = (name, seed, k, arguments, result.stderr[-2000:])
        assert result.returncode in (0, 1), case
        assert "Traceback" not in result.stderr, case
        errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
        blocked = command == "check" and result.stdout
        assert len(errors) == (0 if blocked else result.returncode), case
        assert max(map(len, errors), default=0) <= MAX_MESSAGE + len("Error: "), case
        assert used < SECONDS + START, case
