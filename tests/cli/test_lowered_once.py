"""A command lowers the file once for each batch size, whatever it asks the graph for."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.paths import GOLDEN, MLP_SM

import odt
from odt.cli.main import main
from odt.core.lowering import lower
from odt.core.recipe import lowered_model

MNIST = GOLDEN / "mnist" / "model.circle"
INPUTS = f"--load-input {MNIST.parent}/input.bin"
DATA = f"{INPUTS} --load-expected {MNIST.parent}/expected.bin"
LOSS = "--loss categorical-crossentropy --batch-size 8"


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[object, ...]]:
    """How often each pass has run, by graph and batch size."""
    found: Counter[tuple[object, ...]] = Counter()

    def count(module: Any, name: str, key: Callable[..., tuple[object, ...]]) -> None:
        original = getattr(module, name)

        def counted(*args: Any) -> Any:
            found[name, *key(*args)] += 1
            return original(*args)

        monkeypatch.setattr(module, name, counted)

    def kind(graph: Any) -> tuple[object, ...]:
        """The dtype tells the graph of a self test in float64 from the file's."""
        return graph.name, len(graph.nodes), graph.tensors[graph.inputs[0]].spec.dtype.name

    count(lowered_model, "real_graph", lambda model: ())
    count(lower, "infer_nodes", lambda graph, state, _: (*kind(graph), state.batch))
    count(lower, "batch_samples", lambda one, times: (*kind(one), times))
    return found


@pytest.mark.usefixtures("training_alone")
@pytest.mark.parametrize(
    "line",
    [
        f"train MODEL {DATA} {LOSS} --epochs 1 --metric accuracy",
        f"train MODEL {DATA} {LOSS} --epochs 1 --freeze conv1_* --sparse conv3_w=0.5",
        f"train MODEL {DATA} {LOSS} --epochs 1 --micro-batch 3 --validation-split 0.25",
        f"train MODEL {DATA} {LOSS} --epochs 1 --num-of-trainable-ops 1 --cache-frozen ram",
        f"train MODEL {DATA} {LOSS} --epochs 1 --memory-budget 8MB",
        f"plan MODEL {LOSS} --bias-only",
        f"plan MODEL {LOSS} --memory-budget 7MB",
        f"check MODEL {LOSS} --bias-only",
        f"eval MODEL {DATA} {LOSS}",
        f"predict MODEL {INPUTS} --batch-size 5 --top 1",
        "inspect MODEL --trainable FULLY_CONNECTED",
        f"circle-plus-gen MODEL plus.circle {LOSS}",
        "replace-head MODEL --classes 3 --output new.circle",
        "gen-datafile random MODEL --data-length 20",
    ],
)
def test_a_command_lowers_once(
    line: str,
    lowered: Counter[tuple[object, ...]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(MNIST, "model.circle")
    result = CliRunner().invoke(main, line.replace("MODEL", "model.circle").split())
    assert result.exit_code == 0, result.output
    assert lowered["real_graph",] == 1
    assert {key: n for key, n in lowered.items() if n > 1} == {}


def test_trainers_of_one_model_share_its_lowered_graphs(
    lowered: Counter[tuple[object, ...]],
) -> None:
    model = odt.load_model(MLP_SM / "model.circle")
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, *model.inputs[0].shape[1:])).astype(np.float32)
    y = np.eye(10, dtype=np.float32)[rng.integers(0, 10, 30)]
    assert model.summary()
    assert model.parameters
    assert odt.plan(model, batch_size=8).peak
    for trainable in (odt.last(2), odt.bias_only()):
        with odt.Trainer(model, batch_size=8, metrics=["accuracy"], trainable=trainable) as trainer:
            trainer.fit(x, y, validation_split=0.2)
            trainer.evaluate(x, y)
            trainer.predict(x)
            trainer.train_on_batch(x[:3], y[:3])
    assert odt.check(model, batch_size=8)
    assert lowered["real_graph",] == 1
    assert {key: n for key, n in lowered.items() if n > 1} == {}
