"""`odt cut` and `odt join`: a part is trained alone and put back, and LiteRT runs the whole."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from click.testing import CliRunner, Result
from model_builder import ModelBuilder
from support.judges import litert
from support.paths import MODELS
from support.streaming_models import StreamingBuilder

import odt
from odt.cli.main import main
from odt.core.formats.reader import read_model

RESNET = MODELS / "mlperf-tiny-resnet8-cifar10.tflite"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def succeed(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


def with_two_ends(path: Path) -> None:
    """A network between operators that LiteRT computes and odt does not: bit operations."""
    model = ModelBuilder("tflite", seed=3)
    x = model.add_input((1, 6), "int32", name="codes")
    mask = model.add_constant(np.array([5], np.int32))
    y = model.add_operator("BITWISE_XOR", (x, mask), (1, 6), dtype="int32")
    y = model.add_operator("CAST", (y,), (1, 6))
    y = model.add_dense(model.add_dense(y, 8, fused_activation_function=1), 4)
    y = model.add_operator("SOFTMAX", (y,), (1, 4), beta=1.0)
    model.graph.tensors[y].name = "scores"
    y = model.add_operator("CAST", (y,), (1, 4), dtype="int32")
    y = model.add_operator("BITWISE_XOR", (y, mask), (1, 4), dtype="int32")
    model.add_signature("serve", {"codes": x}, {"masked": y})
    model.add_metadata("kept", b"as it is")
    model.write(path, y)


def trained(part: Path, path: Path, classes: int, folder: Path) -> Path:
    """Trains a part for one epoch on random samples."""
    graph = read_model(str(part)).graph
    rng = np.random.default_rng(0)
    samples = rng.random((32, *graph.tensors[graph.inputs[0]].spec.shape[1:]), np.float32)
    np.save(folder / "x.npy", samples)
    np.save(folder / "y.npy", np.eye(classes, dtype=np.float32)[rng.integers(0, classes, 32)])
    data = ("--load-input", folder / "x.npy", "--load-expected", folder / "y.npy")
    succeed("train", part, *data, "--epochs", 1, "--learning-rate", 0.01, "--export-tflite", path)
    return path


def test_check_prints_the_command_that_cuts_out_the_largest_part(tmp_path: Path) -> None:
    whole, part = tmp_path / "whole.tflite", tmp_path / "part.tflite"
    with_two_ends(whole)
    refused = run("check", whole)
    assert refused.exit_code == 1
    line = next(line for line in refused.output.splitlines() if line.startswith("could train"))
    assert "92 parameters" in line
    words = shlex.split(line.partition("odt ")[2])
    succeed(*words[:-1], part)
    model = read_model(str(part))
    assert [n.op for n in model.graph.nodes] == [
        "CAST",
        "FULLY_CONNECTED",
        "FULLY_CONNECTED",
        "SOFTMAX",
    ]


def test_a_trained_part_is_put_back_and_litert_runs_the_whole(tmp_path: Path) -> None:
    whole, part, joined = (tmp_path / f"{n}.tflite" for n in ("whole", "part", "joined"))
    with_two_ends(whole)
    succeed("cut", whole, "--after", 3, "--before", "scores", "-o", part)
    mine = trained(part, tmp_path / "mine.tflite", 4, tmp_path)
    printed = succeed("join", whole, mine, "-o", joined)
    assert "4 weights changed" in printed
    before, after = whole.read_bytes(), joined.read_bytes()
    different = np.nonzero(np.frombuffer(before, np.uint8) != np.frombuffer(after, np.uint8))[0]
    spans = [
        model.spans[t.buffer]
        for model in (read_model(str(whole)),)
        for t in model.graph.tensors
        if t.data is not None and t.spec.dtype == np.float32
    ]
    assert len(before) == len(after)
    assert len(different)
    assert all(any(at <= k < at + n for at, n in spans) for k in different)
    codes = np.arange(12, dtype=np.int32).reshape(2, 6)
    scores = litert(mine, [(codes ^ 5).astype(np.float32)])[0]
    assert np.array_equal(litert(joined, [codes])[0], scores.astype(np.int32) ^ 5)


def test_constants_that_share_a_buffer_with_a_weight_stay(tmp_path: Path) -> None:
    """Converters store equal bytes once: here a bias that trains, and the begin of a slice."""
    model = ModelBuilder("tflite", seed=3)
    x = model.add_input((1, 6))
    b, begin = (model.add_constant(np.zeros(2, d)) for d in (np.float32, np.int32))
    model.graph.tensors[begin].buffer = model.graph.tensors[b].buffer
    size = model.add_constant(np.array([1, 4], np.int32))
    front = model.add_operator("SLICE", (x, begin, size), (1, 4))
    y = model.add_operator("FULLY_CONNECTED", (front, model.add_weight((2, 4), 4), b), (1, 2))
    whole, part, joined = (tmp_path / f"{n}.tflite" for n in ("whole", "part", "joined"))
    model.write(whole, model.add_operator("SOFTMAX", (y,), (1, 2), beta=1.0))
    succeed("cut", whole, "--after", front, "-o", part)
    mine = trained(part, tmp_path / "mine.tflite", 2, tmp_path)
    assert "2 weights changed" in succeed("join", whole, mine, "-o", joined)
    old, new = (schema.ModelT.InitFromPackedBuf(p.read_bytes()) for p in (whole, joined))
    places = [(t.buffer, u.buffer) for t, u in zip(tensors(old), tensors(new), strict=True)]
    assert [k for k, (t, u) in enumerate(places) if t != u] == [b]
    assert tensors(new)[b].buffer == len(old.buffers) == len(new.buffers) - 1
    assert not np.any(new.buffers[tensors(new)[begin].buffer].data)
    tensors(new)[b].buffer = tensors(old)[b].buffer
    new.buffers = old.buffers
    assert plain(new) == plain(old)
    values = np.arange(12, dtype=np.float32).reshape(2, 6)
    ours = litert(mine, [values[:, :4]])[0]
    np.testing.assert_array_equal(litert(joined, [values])[0], ours)


def tensors(model: Any) -> list[Any]:
    found: list[Any] = model.subgraphs[0].tensors
    return found


def plain(entry: Any) -> Any:
    """Returns tables as dictionaries and vectors as lists."""
    if hasattr(entry, "__dict__"):
        return {name: plain(value) for name, value in vars(entry).items()}
    if isinstance(entry, list | np.ndarray):
        return [plain(value) for value in entry]
    return entry


def test_front_and_part_compute_what_the_whole_computes(tmp_path: Path) -> None:
    """Two tensors are cut; signatures do not matter to a model without."""
    front, part = tmp_path / "front.tflite", tmp_path / "part.tflite"
    ends = ("28", "27")  # both branches of a residual block
    succeed("cut", RESNET, *(w for e in ends for w in ("--before", e)), "-o", front)
    succeed("cut", RESNET, *(w for e in ends for w in ("--after", e)), "-o", part)
    x = np.random.default_rng(1).normal(0, 50, (3, 32, 32, 3)).astype(np.float32)
    features = litert(front, [x])
    np.testing.assert_array_equal(litert(part, features)[0], litert(RESNET, [x])[0])
    assert len(read_model(str(part)).graph.nodes) == 9


def test_signatures_and_metadata_follow(tmp_path: Path) -> None:
    whole, part = tmp_path / "whole.tflite", tmp_path / "part.tflite"
    with_two_ends(whole)
    succeed("cut", whole, "--before", "scores", "-o", part)
    model = read_model(str(part))
    (signature,) = model.signatures
    assert (list(signature.inputs), list(signature.outputs)) == (["codes"], ["scores"])
    assert bytes(model.buffer(model.metadata["kept"])) == b"as it is"
    origin = json.loads(bytes(model.buffer(model.metadata["ODT_PART"])))
    assert len(origin["tensors"]) == len(model.graph.tensors)


def test_weights_of_float16_are_put_back_as_float16(tmp_path: Path) -> None:
    model = ModelBuilder("tflite", seed=0)
    x = model.add_input((1, 4))
    half = model.add_constant(np.linspace(-1, 1, 12, dtype=np.float16).reshape(3, 4), "half")
    w, same = (model.add_operator("DEQUANTIZE", (half,), (3, 4)) for _ in range(2))
    b = model.add_constant(np.zeros(3, np.float32))
    x = model.add_operator("FULLY_CONNECTED", (x, w, b), (1, 3))
    x = model.add_operator("PAD", (x, model.add_constant([[0, 0], [0, 1]])), (1, 4))
    y = model.add_operator("FULLY_CONNECTED", (x, same, b), (1, 3))
    model.graph.tensors[y].name = "logits"
    whole, part, joined = (tmp_path / f"{n}.tflite" for n in ("whole", "part", "joined"))
    model.write(whole, model.add_operator("SOFTMAX", (y,), (1, 3), beta=1.0))
    succeed("cut", whole, "--after", "logits", "-o", part)
    assert "0 weights changed" in succeed("join", whole, part, "-o", joined)
    assert joined.read_bytes() == whole.read_bytes()
    succeed("cut", whole, "--before", y, "-o", tmp_path / "all.tflite")
    loss = ("--loss", "mean-squared-error")
    np.save(tmp_path / "x.npy", np.eye(4, dtype=np.float32))
    np.save(tmp_path / "y.npy", np.full((4, 3), 2, np.float32))
    data = ("--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "y.npy")
    mine = tmp_path / "mine.tflite"
    succeed("train", tmp_path / "all.tflite", *data, *loss, "--export-tflite", mine)
    succeed("join", whole, mine, "-o", joined)
    new, old = (read_model(str(path)).graph.tensors[half] for path in (joined, whole))
    assert new.data is not None
    assert old.data is not None
    assert new.data.dtype == np.float16
    assert not np.array_equal(new.data, old.data)


@pytest.mark.parametrize("scheme", ["int8-weights", "int4-weights"])
def test_large_weights_of_integers_are_put_back_with_their_scales(
    scheme: Any, tmp_path: Path
) -> None:
    """Their data stay integers in the graph, which are not the weights without the scales."""
    model = ModelBuilder("tflite", seed=1)
    y = model.add_dense(model.add_input((1, 8)), 96)
    model.graph.tensors[y].name = "features"
    y = model.add_dense(model.add_dense(y, 96), 3)
    model.write(tmp_path / "m.tflite", y)
    paths = [tmp_path / f"{name}.tflite" for name in ("whole", "trained", "joined")]
    odt.quantize(tmp_path / "m.tflite", scheme=scheme).model.save(paths[0])
    odt.cut(odt.load_model(paths[0]), ["features"]).save(tmp_path / "part.tflite")
    rng = np.random.default_rng(2)
    x, targets = (rng.normal(size=(32, n)).astype(np.float32) for n in (96, 3))
    with odt.Trainer(tmp_path / "part.tflite", loss="mse", batch_size=8) as trainer:
        trainer.fit(x, targets, epochs=2)
        trainer.export(paths[1])
    assert odt.join(paths[0], [paths[1]], paths[2]) == 4
    joined = odt.load_model(paths[2]).parameters
    for name, values in odt.load_model(paths[1]).parameters.items():
        np.testing.assert_array_equal(joined[name], values)


def test_a_tensor_may_have_the_name_of_another_one_in_the_signature(tmp_path: Path) -> None:
    model = ModelBuilder("tflite")
    x = model.add_input((1, 4), name="x")
    a = model.add_dense(x, 4)
    model.graph.tensors[a].name = "a"
    y = model.add_operator("ADD", (a, x), (1, 4))
    model.add_signature("serve", {"a": x}, {"y": y})
    model.write(tmp_path / "m.tflite", y)
    succeed("cut", tmp_path / "m.tflite", "--after", "a", "-o", tmp_path / "part.tflite")
    (signature,) = read_model(tmp_path / "part.tflite").signatures
    assert list(signature.inputs) == [f"a_{x}", f"a_{a}"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--after", "nothing"), "--after: must be names or numbers of tensors"),
        (("--after", "999"), "--after: must be names or numbers of tensors"),
        (("--after", "output/w"), "--after: must be tensors that operators compute, not constants"),
        (("--after", "scores"), "--after, --before: must have operators between them"),
        (("--before", "0"), "--after, --before: must have operators between them"),
        (("--after", "twins"), "--after: must be the number 3 or 6, as the tensors share"),
        (
            ("--before", "3", "--after", "6"),
            "--after: must be tensors that the outputs depend on, but",
        ),
        (
            ("--after", "3", "--after", "6"),
            "--after: must be tensors that the outputs depend on, not only through the other new "
            "inputs, but got tensor 3",
        ),
    ],
)
def test_wrong_ends_are_refused_in_one_line(
    options: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    model = ModelBuilder("circle", seed=0)
    y = model.add_dense(model.add_dense(model.add_input((1, 4)), 3), 2)
    model.graph.tensors[1].name = "output/w"
    for i in (3, 6):
        model.graph.tensors[i].name = "twins"
    y = model.add_operator("SOFTMAX", (y,), (1, 2), beta=1.0)
    model.graph.tensors[y].name = "scores"
    path = tmp_path / "m.circle"
    model.write(path, y)
    result = run("cut", path, *options, "-o", tmp_path / "part.circle")
    assert (result.exit_code, message in result.output) == (1, True), result.output
    assert not (tmp_path / "part.circle").exists()


def test_a_tensor_given_by_name_and_number_is_one_end(tmp_path: Path) -> None:
    whole, part = tmp_path / "whole.tflite", tmp_path / "part.tflite"
    with_two_ends(whole)
    name = read_model(str(whole)).graph.tensors[3].name
    ends = ("--after", 3, "--after", name, "--before", "scores", "--before", "scores")
    succeed("cut", whole, *ends, "-o", part)
    graph = read_model(str(part)).graph
    assert (len(graph.inputs), len(graph.outputs)) == (1, 1)
    number: Any = np.int64(3)
    assert odt.cut(whole, after=number).summary() == odt.cut(whole, after=3).summary()


def test_a_part_of_another_file_is_refused(tmp_path: Path) -> None:
    whole, other, part = (tmp_path / f"{n}.tflite" for n in ("whole", "other", "part"))
    with_two_ends(whole)
    other.write_bytes(whole.read_bytes().replace(b"as it is", b"as it wa"))
    succeed("cut", whole, "--before", "scores", "-o", part)
    for model, given, rule in (
        (other, part, "must be cut from the model that it is joined with"),
        (whole, other, "must be a part made by odt cut, but has no metadata entry ODT_PART"),
    ):
        result = run("join", model, given, "-o", tmp_path / "joined.tflite")
        assert (result.exit_code, rule in result.output) == (1, True), result.output
    assert not (tmp_path / "joined.tflite").exists()


def test_parts_that_disagree_are_refused(tmp_path: Path) -> None:
    whole, part = tmp_path / "whole.tflite", tmp_path / "part.tflite"
    with_two_ends(whole)
    succeed("cut", whole, "--after", 3, "--before", "scores", "-o", part)
    first = trained(part, tmp_path / "first.tflite", 4, tmp_path)
    second = trained(first, tmp_path / "second.tflite", 4, tmp_path)
    result = run("join", whole, first, second, "-o", tmp_path / "joined.tflite")
    assert result.exit_code == 1
    assert "must have the value that it has in the parts before" in result.output


def test_check_names_the_part_before_an_operator_without_gradient(tmp_path: Path) -> None:
    model = ModelBuilder("circle", seed=0)
    y = model.add_dense(model.add_input((1, 4)), 3)
    whole = model.add_operator("CAST", (y,), (1, 3), dtype="int32")
    last = model.add_dense(model.add_operator("CAST", (whole,), (1, 3)), 2)
    model.write(tmp_path / "m.circle", last)
    options = ("--loss", "mean-squared-error", "--trainable", "dense_0/*")
    result = run("check", tmp_path / "m.circle", *options)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[3:] == [
        f"could train: 15 parameters, in the part made by odt cut {tmp_path}/m.circle "
        f"--before tensor_{y} --output part.circle",
        "The model cannot be trained.",
    ]


def test_check_names_a_shape_for_an_open_input(tmp_path: Path) -> None:
    model = ModelBuilder("circle", seed=0)
    x = model.add_input((1, 1), name="sound", signature=(-1, -1))
    shape = model.add_constant([1, 1, -1, 1])
    image = model.add_operator("RESHAPE", (x, shape), (1, 1, 1, 1), new_shape=[1, 1, -1, 1])
    w, b = model.add_weight((2, 1, 400, 1), 400), model.add_constant(np.zeros(2, np.float32))
    y = model.add_operator("CONV_2D", (image, w, b), (), padding=1, stride_h=1, stride_w=160)
    model.write(tmp_path / "m.circle", y)
    options = ("--loss", "mean-squared-error")
    result = run("check", tmp_path / "m.circle", *options)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-2] == (
        'could train: with the shape that the file leaves open, of tensor 0 ("sound"), (-1, -1); '
        "for example --input-shape sound=1x16000"
    )
    np.save(tmp_path / "x.npy", np.zeros((4, 1), np.float32))
    data = ("--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "x.npy")
    for command, files in ("train", data), ("plan", ()):
        refused = run(command, tmp_path / "m.circle", *files, *options)
        assert refused.exit_code == 1
        assert refused.stderr.endswith(
            "Could train: with the shape that the file leaves open, of tensor 0 "
            '("sound"), (-1, -1); for example --input-shape sound=1x16000.\n'
        )
    succeed("check", tmp_path / "m.circle", *options, "--input-shape", "sound=1x16000")


def with_variable(path: Path, *, assigned: bool) -> None:
    """Products with a variable, whose initial value CALL_ONCE assigns, and integers after them."""
    b = StreamingBuilder()
    x = b.add_input((1, 4))
    handle = b.variable("w", np.full((1, 4), 2, np.float32))
    w = b.add_operator("READ_VARIABLE", (handle,), (1, 4))
    y = b.add_operator("MUL", (x, w), (1, 4))
    b.graph.tensors[y].name = "products"
    if assigned:
        b.effect("ASSIGN_VARIABLE", (handle, y))
    y = b.add_operator("CAST", (y,), (1, 4), dtype="int32")
    b.write(path, b.add_operator("CAST", (y,), (1, 4)))


def test_variables_of_a_part_are_constants(tmp_path: Path) -> None:
    whole, part, new = (tmp_path / f"{name}.tflite" for name in ("whole", "part", "new"))
    with_variable(whole, assigned=False)
    succeed("cut", whole, "--before", "products", "--output", part)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8, 4)).astype(np.float32)
    np.testing.assert_array_equal(litert(part, [x])[0], 2 * x)
    with odt.Trainer(
        part, loss="mean_squared_error", learning_rate=0.5, optimizer="sgd"
    ) as trainer:
        for _ in range(100):
            trainer.train_on_batch(x, 5.5 * x)
        trainer.export(tmp_path / "trained.tflite")
    succeed("join", whole, tmp_path / "trained.tflite", "--output", new)
    np.testing.assert_array_equal(litert(new, [np.ones((1, 4))])[0], [[5, 5, 5, 5]])


def test_a_part_with_assigned_variables_is_refused(tmp_path: Path) -> None:
    """Their values change from one run to the next."""
    with_variable(tmp_path / "whole.tflite", assigned=True)
    options = ("--before", "products", "-o", tmp_path / "part.tflite")
    result = run("cut", tmp_path / "whole.tflite", *options)
    assert (result.exit_code, "must not contain variables" in result.output) == (1, True)
