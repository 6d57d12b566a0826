from pathlib import Path

import numpy as np
from click.testing import CliRunner
from judges import difference, litert, odt, random_inputs
from replace_head import main

from odt.core.reader import read_model

MODEL = Path(__file__).parent / "models" / "mlperf-tiny-resnet8-cifar10.tflite"


def test_a_new_head_stands_behind_the_old_features(tmp_path: Path) -> None:
    out = tmp_path / "out.tflite"
    arguments = [str(MODEL), str(out), "--classes", "4", "--seed", "3"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    before, after = read_model(str(MODEL)).graph, read_model(str(out)).graph
    assert [n.op for n in after.nodes] == [n.op for n in before.nodes]
    assert after.tensors[after.outputs[0]].spec.shape == (1, 4)
    inputs = random_inputs(out, 3)
    y = odt(out, inputs)[0]
    np.testing.assert_allclose(y.sum(axis=1), 1, rtol=1e-5)
    assert difference(y, litert(out, inputs)[0]) < 1e-4


def test_an_operator_that_is_not_there_is_refused(tmp_path: Path) -> None:
    arguments = [str(MODEL), str(tmp_path / "out.tflite"), "--classes", "4", "--after", "99"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "--after must be below 16, but got 99" in result.output
