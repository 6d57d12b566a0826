"""`odt inspect` on recorded models whose sizes follow from their descriptions."""

import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner, Result
from model_builder import ModelBuilder
from support.bounded import answers
from support.paths import GOLDEN, MODELS

import odt
from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.core.model.model import Model
from odt.core.recipe.lowered_model import lower_model
from odt.models.summary import describe

MLP = GOLDEN / "mlp_sm/model.circle"  # 784-128-10 and SOFTMAX
LAYER_1, LAYER_2 = 784 * 128 + 128, 128 * 10 + 10


def inspect(path: Path) -> Result:
    return CliRunner().invoke(main, ["inspect", str(path)])


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_operators_are_shown_with_shapes_and_what_would_train() -> None:
    result = inspect(MLP)
    assert result.exit_code == 0
    table = [words for words in lines(result.output) if words and words[0].isdigit()]
    assert [(words[0], words[1]) for words in table] == [
        ("0", "FULLY_CONNECTED"),
        ("1", "FULLY_CONNECTED"),
        ("2", "SOFTMAX"),
    ]
    outputs = [node.outputs for node in read_model(MLP).graph.nodes]
    assert [(int(words[2]),) for words in table] == outputs
    assert table[0][3:6] == ["(1,", "128)", "float32"]
    assert table[0][6:] == [f"{LAYER_1:,}", "3", f"{LAYER_1 + LAYER_2:,}"]
    assert table[1][6:] == [f"{LAYER_2:,}", "2", f"{LAYER_2:,}"]
    assert table[2][6:] == ["0", "1", "0"]


def test_types_are_those_of_the_file() -> None:
    path = MODELS / "mlperf-tiny-kws-dscnn-int8.tflite"
    shown = lines(inspect(path).output)
    assert ["output", "(1,", "12)", "int8", "tensor", "34", '("Identity")'] in shown
    rows = [words for words in shown if words and words[0].isdigit()]
    assert len(rows) == 13
    assert all("int8" in words and "float32" not in words for words in rows)


def test_parameters_are_counted_and_listed() -> None:
    output = inspect(MLP).output
    assert "parameters: 101,770 values in 4 tensors, 407 kB\n" in output
    assert any(words[:2] == ["operator", "1"] for words in lines(output))


def test_the_file_and_its_ends_are_described() -> None:
    output = inspect(MLP).output
    assert output.startswith(f"{MLP}: circle, ")
    assert "3 operators" in output
    assert any(words[:1] == ["input"] and "tensor" in words for words in lines(output))
    assert "training info: none" in output


def test_training_info_is_shown() -> None:
    """The bytes are onert's: SGD with 0.1, mean squared error, batch 1, operator 0 trains."""
    written = bytes.fromhex(
        "240000004354523000001a0018000000000005000800060007000c0000001000000014001a000000"
        "00010203280000001800000001000000040000000100000000000000040006000400000000000600"
        "0800040006000000cdcccc3d"
    )
    plain = read_model(MLP)
    model = replace(
        plain,
        data=memoryview(bytes(plain.data) + written),
        metadata={"CIRCLE_TRAINING": len(plain.spans)},
        spans=(*plain.spans, (len(plain.data), len(written))),
    )
    words = lines(describe(lower_model(model)))
    assert ["optimizer", "sgd"] in words
    assert ["learning_rate", "0.1"] in words
    assert ["loss", "mean_squared_error"] in words
    assert ["reduction", "sum_over_batch_size"] in words
    assert ["batch_size", "1"] in words
    assert ["num_of_trainable_ops", "[0]"] in words
    assert ["metadata:", "CIRCLE_TRAINING,", "92", "B"] in words


def test_a_file_that_is_no_model_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.circle"
    path.write_bytes(b"not a model")
    result = inspect(path)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {path}: ")
    assert result.stderr.count("\n") == 1


def words_of(result: Result) -> list[list[str]]:
    """The lines of the operator table."""
    assert result.exit_code == 0, result.output
    return [words for words in lines(result.output) if words and words[0].isdigit()]


def test_a_dequantize_of_constants_trains_nothing_itself(tmp_path: Path) -> None:
    """float16 files begin with one for each weight; LAST counts them as --num-of-trainable-ops."""
    model = ModelBuilder("tflite", seed=0)
    x = model.add_input((1, 6))
    halves = [(model.add_constant(np.ones((4, n), np.float16)), n) for n in (6, 4)]
    first, second = (model.add_operator("DEQUANTIZE", [w], (4, n)) for w, n in halves)
    y = model.add_operator("FULLY_CONNECTED", [x, first, -1], (1, 4))
    model.write(
        tmp_path / "half.tflite", model.add_operator("FULLY_CONNECTED", [y, second, -1], (1, 4))
    )
    table = words_of(inspect(tmp_path / "half.tflite"))
    assert table[0] == ["0", "DEQUANTIZE", str(first), "(4,", "6)", "float32"]
    assert table[1] == ["1", "DEQUANTIZE", str(second), "(4,", "4)", "float32"]
    assert [words[6:] for words in table[2:]] == [["24", "2", "40"], ["16", "1", "16"]]
    arguments = ["--num-of-trainable-ops", "1", "--loss", "mean-squared-error"]
    result = CliRunner().invoke(main, ["check", str(tmp_path / "half.tflite"), *arguments])
    assert result.exit_code == 0, result.output
    assert "trains: 16 parameters in 1 tensor" in result.output


def test_shapes_that_the_file_leaves_out_are_computed(tmp_path: Path) -> None:
    """TOCO writes none where an image's size may change."""
    model = ModelBuilder("tflite", seed=0)
    y = model.add_dense(model.add_dense(model.add_input((1, 4)), 3), 2)
    for operator in model.graph.operators:
        model.graph.tensors[operator.outputs[0]].shape = []
    model.write(tmp_path / "open.tflite", y)
    result = inspect(tmp_path / "open.tflite")
    assert [words[3:5] for words in words_of(result)] == [["(1,", "3)"], ["(1,", "2)"]]
    assert f'output  (1, 2) float32  tensor {y} ("tensor_{y}")' in result.output


def write_chain(path: Path, count: int) -> None:
    """ADDs one after the other, each with a weight of its own."""
    builder = ModelBuilder("tflite", seed=0)
    y = builder.add_input((1, 4))
    for _ in range(count):
        y = builder.add_operator("ADD", (y, builder.add_constant(np.ones(4, np.float32))), (1, 4))
    builder.write(path, y)


def write_sum(path: Path, count: int) -> None:
    """One ADD_N that names its input `count` times."""
    builder = ModelBuilder("tflite", seed=0)
    x = builder.add_input((1, 4))
    builder.write(path, builder.add_operator("ADD_N", [x] * count, (1, 4)))


@pytest.mark.parametrize(("write", "count"), [(write_chain, 6000), (write_sum, 64_000)])
def test_the_work_grows_linearly(
    tmp_path: Path, write: Callable[[Path, int], None], count: int
) -> None:
    """Eight times the nodes or inputs: 8 times the time, where quadratic work takes 64 times."""
    models = []
    for n in (count // 8, count):
        write(tmp_path / "m.tflite", n)
        models.append(read_model(tmp_path / "m.tflite"))

    def is_linear() -> bool:
        short, long = map(seconds, models)
        return long < 25 * short + 0.1

    assert any(is_linear() for _ in range(5))  # others may slow down either half of a try


def seconds(model: Model) -> float:
    begin = time.process_time()
    describe(lower_model(model))
    return time.process_time() - begin


def test_long_names_are_cut_in_the_middle(tmp_path: Path) -> None:
    """Lines stay short, and shapes in sight."""
    model = ModelBuilder("tflite", seed=0)
    y = model.add_dense(model.add_input((1, 6)), 3)
    path = tmp_path / "long.tflite"
    model.write(path, y)
    graph = read_model(path).graph
    tensors = enumerate(graph.tensors)
    long = tuple(replace(t, name=f"begin{'x' * 300}{k}") for k, t in tensors)
    text = describe(lower_model(replace(read_model(path), graph=replace(graph, tensors=long))))
    assert max(map(len, text.splitlines()[1:])) < 110
    assert "begin" in text
    assert re.search(r"^  operator 0  \(3, 6\) float32 +tensor \d+ ", text, re.MULTILINE)


def test_json_has_operators_tensors_and_training_info() -> None:
    done = CliRunner().invoke(main, ["inspect", str(MLP), "--json"])
    content = json.loads(done.stdout)
    assert content["format"] == "circle"
    assert content["parameters"] == LAYER_1 + LAYER_2
    assert [o["operator"] for o in content["operators"]] == ["FULLY_CONNECTED"] * 2 + ["SOFTMAX"]
    assert [o["parameters"] for o in content["operators"]] == [LAYER_1, LAYER_2, 0]
    assert content["operators"][0]["trains"] == LAYER_1 + LAYER_2
    first = content["operators"][0]
    assert content["tensors"][first["outputs"][0]]["shape"] == [1, 128]
    assert first["inputs"][0] == content["inputs"][0]
    assert sum(t["trainable"] for t in content["tensors"]) == 4
    selected = ["inspect", str(MLP), "--json", "--bias-only"]
    assert json.loads(CliRunner().invoke(main, selected).stdout)["parameters"] == 138


RESIDUAL = MODELS / "mlperf-tiny-resnet8-cifar10.tflite"
LARGE = MODELS / "mlperf-tiny-vww-mobilenetv1-0.25-96.tflite"
RECTANGLE = r'<rect class="(\w+)" x="([-\d.]+)" y="([-\d.]+)" width="([\d.]+)" height="(\d+)" rx'


@pytest.mark.parametrize("path", [MLP, RESIDUAL, LARGE, MODELS / "recommendation-rnn-lstm.tflite"])
def test_the_picture_of_a_graph_is_readable(path: Path, tmp_path: Path) -> None:
    """Every operator has a box, texts fit, no boxes overlap, and edges lead downwards."""
    done = CliRunner().invoke(main, ["inspect", str(path), "--svg", str(tmp_path / "g.svg")])
    assert done.exit_code == 0, done.output
    assert done.stdout == ""
    text = (tmp_path / "g.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    graph = read_model(path).graph
    found = re.findall(RECTANGLE, text)
    assert len(found) == len(graph.nodes) + len(graph.inputs) + len(graph.outputs)
    boxes = [tuple(map(float, values)) for _, *values in found]
    for k, (x, y, width, height) in enumerate(boxes):
        assert x >= 0
        assert x + width <= float(root.attrib["width"])
        for x2, y2, width2, height2 in boxes[:k]:
            beside = x + width <= x2 or x2 + width2 <= x
            assert beside or y + height <= y2 or y2 + height2 <= y
    for node in graph.nodes:
        assert f">{node.origin} {node.op}</text>" in text
    edges = re.findall(
        r'<path class="edge" d="M[-\d.]+ (\d+).* (\d+)"/>', text.replace("/>", "/>\n")
    )
    assert all(int(first) < int(last) for first, last in edges)
    assert "marker-end:url(#odt-arrow)" in text
    assert text.count('<marker id="odt-arrow"') == 1
    tensors = {i for node in graph.nodes for i in node.outputs} | set(graph.inputs)
    joined = sum(len({i for i in node.inputs if i in tensors}) for node in graph.nodes)
    assert len(edges) == joined + len(graph.outputs)


def test_scales_and_zero_points_are_shown() -> None:
    result = inspect(MODELS / "mlperf-tiny-kws-dscnn-int8.tflite")
    assert result.exit_code == 0
    shown = result.output.partition("\nquantization:\n")[2]
    assert re.search(r'\(1, 49, 10, 1\) int8 +tensor 0 \("input_1"\) +0.584703 +83\n', shown)
    assert re.search(r"tensor 8 .* 0.00417799 to 0.0184811 \(64 along axis 3\) +0\n", shown)


@pytest.mark.parametrize("size", [100, 1500])
def test_the_picture_of_a_chain_that_reads_its_input_is_bounded(size: int, tmp_path: Path) -> None:
    """Edges that pass many layers are drawn as their ends, with a title that names the other."""
    builder = ModelBuilder("tflite", 0)
    first = last = builder.add_input((1, 4))
    for _ in range(size):
        last = builder.add_operator("ADD", (last, first), (1, 4))
    builder.write(tmp_path / "m.tflite", last)
    words = ["inspect", str(tmp_path / "m.tflite"), "--svg", str(tmp_path / "g.svg")]
    assert answers(lambda: CliRunner().invoke(main, words))
    text = (tmp_path / "g.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    assert len(re.findall(RECTANGLE, text)) == size + 2
    assert len(text) < 1500 * size + 3_000_000
    assert ("<title>from input</title>" in text) == (size > 200)


def test_adapters_are_shown_with_rank_weights_and_model(tmp_path: Path) -> None:
    made = odt.lora(MLP, 4, alpha=6)
    names = [name.removesuffix("/lora_a") for name in made.parameters if name.endswith("/lora_a")]
    for form, path in (("odt", "a.npz"), ("PEFT", "adapter_model.safetensors")):
        made.save_adapters(tmp_path / path)
        for given in (path, ".") if form == "PEFT" else (path,):
            shown = inspect(tmp_path / given).output
            head, sizes, base, _, _, *rows = shown.splitlines()
            assert head.startswith(f"{tmp_path / path}: adapters in the form of {form}, ")
            count = 4 * (784 + 128 + 128 + 10)
            assert sizes == f"rank 4, alpha 6: 2 weights, {count:,} parameters"
            assert re.fullmatch(r"base: model\.circle, hash [0-9a-f]{8}", base)
            modules = [name.removesuffix(".weight") for name in names]
            assert [row.split("  ")[0] for row in rows] == (modules if form == "PEFT" else names)
            assert f"{4 * (784 + 128):,}" in rows[0]
    result = CliRunner().invoke(main, ["inspect", str(tmp_path / "a.npz"), "--json"])
    content = json.loads(result.output)
    assert (content["rank"], content["alpha"], content["base"]) == (4, 6, "model.circle")
    assert [w["a"] for w in content["weights"]] == [[4, 784], [4, 128]]
    result = CliRunner().invoke(main, ["inspect", str(tmp_path / "a.npz"), "--bias-only"])
    assert "--bias-only: must be left out for" in result.output
    (tmp_path / "a.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:-40])
    assert inspect(tmp_path / "a.npz").exit_code == 1


def test_the_base_of_adapters_may_be_unknown(tmp_path: Path) -> None:
    odt.lora(MLP, 2).save_adapters(tmp_path / "adapter_model.safetensors")
    path = tmp_path / "adapter_model.safetensors"
    for mode in ("--merge", "--adapters"):
        words = ("lora", MLP, mode, path, "--alpha", 3, "--seed", 0, "-o", tmp_path / "x.tflite")
        result = CliRunner().invoke(main, [*map(str, words)])
        assert f"--alpha, --seed: must be left out with {mode}." in result.stderr
    header, data = path.read_bytes()[8:].split(b"}}", 1)
    fields = json.loads(header + b"}}")
    del fields["__metadata__"]
    text = json.dumps(fields).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data.lstrip(b" "))
    assert "base: not in the file; odt compares names" in inspect(path).output
