"""If becomes one of its branches, or takes the values of one; inputs may be constants."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.onnx_files import OnnxFile, message, value
from support.onnx_outputs import compute

import odt
from odt.core.formats.reader import read_model
from odt.core.recipe.interface import with_input_values
from odt.core.recipe.lowered_model import lower_model

Array = np.ndarray[Any, Any]
A, B = (np.full((3, 2), n, np.float32) for n in (2, 5))
X = np.array([[1, 2, 3], [-4, 0, 1]], np.float32)


def branch(kind: str, weight: str, values: Array) -> OnnxFile:
    """A branch that computes `kind` of x and a weight of its own."""
    body = OnnxFile()
    body.outputs.append(message((1, f"{weight}_y")))
    body.constants({weight: values})
    body.add(kind, "x", weight, outputs=[f"{weight}_y"])
    return body


def with_branches(one: OnnxFile, other: OnnxFile) -> OnnxFile:
    """y = `one` if rate, an input, is 8, or `other`."""
    file = OnnxFile()
    file.inputs += [value("x", ("N", 3)), value("rate", (), "int64")]
    file.outputs.append(value("y", ()))
    file.constants({"eight": np.array(8)})
    file.add("Equal", "rate", "eight", outputs=["c"])
    file.add("If", "c", then_branch=one, else_branch=other, name="choice")
    return file


@pytest.mark.parametrize(("rate", "weight"), [(8, A), (16, B)])
def test_a_constant_input_chooses_the_branch(tmp_path: Path, rate: int, weight: Array) -> None:
    """The branch that is not taken may have any operator, and its weights do not train."""
    other = branch("Nonsense", "b", B)
    file = with_branches(branch("MatMul", "a", A), other if rate == 8 else branch("MatMul", "b", B))
    (y,) = compute(file, tmp_path, X, values={"rate": rate})
    np.testing.assert_allclose(y, X @ weight)
    model = with_input_values(read_model(tmp_path / "m.onnx"), {"rate": rate})
    lowered = lower_model(model).graphs.at_file_batch
    read = {i for node in lowered.nodes for i in node.inputs}
    names = {t.name for i, t in enumerate(lowered.tensors) if t.data is not None and i in read}
    assert names & {"a", "b"} == {"a" if rate == 8 else "b"}


def test_a_condition_of_data_chooses_for_each_sample(tmp_path: Path) -> None:
    file = OnnxFile()
    file.inputs.append(value("x", ("N", 3)))
    file.outputs.append(value("y", ("N", 2)))
    file.constants({"zero": np.float32(0), "axes": np.array([1])})
    file.add("ReduceSum", "x", "axes", outputs=["s"])
    file.add("Greater", "s", "zero", outputs=["c"])
    one, other = branch("MatMul", "a", A), branch("MatMul", "b", B)
    file.add("If", "c", then_branch=one, else_branch=other)
    np.testing.assert_allclose(compute(file, tmp_path, X)[0], [X[0] @ A, X[1] @ B])


def test_what_a_taken_branch_lacks_is_named(tmp_path: Path) -> None:
    file = with_branches(branch("Nonsense", "a", A), branch("MatMul", "b", B))
    model = read_model(file.write(tmp_path / "m.onnx"))
    lowered = lower_model(with_input_values(model, {"rate": 8}), outputs="file")
    assert [str(node) for node in lowered.graphs.unsupported] == [
        "node 1 (Nonsense): is not supported (ai.onnx, opset 17)"
    ]
    both = lower_model(model, outputs="file").graphs.unsupported
    assert [node.node.op for node in both] == ["ONNX:Nonsense"]


def test_branches_of_other_shapes_are_refused(tmp_path: Path) -> None:
    file = with_branches(branch("MatMul", "a", A), branch("MatMul", "b", B[:, :1]))
    (node,) = lower_model(
        read_model(file.write(tmp_path / "m.onnx")), outputs="file"
    ).graphs.unsupported
    assert str(node).startswith('node 1 "choice" (If): branches must have results of one shape')


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"sr": 8}, "must name one of the inputs, x, rate, but got sr"),
        ({"rate": 8.5}, "must be .* int64 for .*rate.* but got 8.5"),
        ({"rate": [8, 9]}, "must be .* int64 for .*rate.* but got .8 9."),
        ({"rate": "fast"}, "must be .* int64 for .*rate.* but got fast"),
        ({"rate": 8, "x": 1}, "must leave an input for the samples"),
    ],
)
def test_values_that_do_not_fit_are_refused(
    tmp_path: Path, values: dict[str, Any], words: str
) -> None:
    file = with_branches(branch("MatMul", "a", A), branch("MatMul", "b", B))
    model = read_model(file.write(tmp_path / "m.onnx"))
    with pytest.raises(odt.OptionError, match=words):
        with_input_values(model, values)
