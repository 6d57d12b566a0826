"""What the benchmarks make of their measurements; the measuring itself is `make bench`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from bench.measuring import whole
from bench.networks import NETWORKS, SAMPLES, batch_of
from bench.report import best_peer, disturbed, failures, is_clean, medians, other_losses, text
from bench.run import chosen, code_mark, lasting, reason, rows
from bench.scaling import OneBatch
from bench.startup import PYTHON, TRAIN, replace_section, section
from bench.systems import HERE, SYSTEMS
from bench.work import QUICK, WAYS, WORK
from bench.write_models import write

from odt.core.model.reader import read_model
from odt.core.model.training_info import TrainingInfo
from odt.core.training.trainer import Trainer


def result(system: str, step: float, others: float = 0.0, work: str = "mlp-64-full") -> Any:
    return {
        "system": system,
        "work": work,
        "step_ms": step,
        "memory_mb": 10 * step,
        "first_loss_ms": 100.0,
        "first_loss": 2.0,
        "others": others,
    }


RESULTS = [
    *(result("odt", step) for step in (1.0, 3.0, 2.0)),
    *(result("onert", step) for step in (5.0, 4.0)),
    result("onert", 50.0, others=0.5),
    result("PyTorch", 6.0, others=0.3),
    result("LiteRT, forward", 0.5),
    {"system": "ONNX Runtime", "work": "mlp-64-full", "failed": "no wheel"},
]


MORE: dict[str, Any] = {
    "sizes": {"odt": 1.0},
    "absent": {"PyTorch, compiled": "no such version"},
    "batch": [(1, 1.0)],
    "width": [(64, 1.0)],
    "depth": [(1, 1.0)],
    "workers": {"one": 30.0, "two": 20.0},
    "overhead": {"calls": 30, "microseconds": 42.0},
    "peak_gflops": 100.0,
    "startup": {PYTHON: {"ms": 10.0, "mb": 9.0}, TRAIN: {"ms": 44.0, "mb": 7.5}},
}


def test_medians_leave_out_disturbed_runs_where_there_are_others() -> None:
    assert medians(RESULTS, "step_ms") == {
        ("mlp-64-full", "odt"): 2.0,
        ("mlp-64-full", "onert"): 4.5,
        ("mlp-64-full", "PyTorch"): 6.0,
        ("mlp-64-full", "LiteRT, forward"): 0.5,
    }
    assert [is_clean(r) for r in RESULTS] == [True] * 5 + [False, False, True, True]


def test_the_best_peer_trains_and_is_not_odt() -> None:
    assert best_peer(medians(RESULTS, "step_ms"), "mlp-64-full") == ("onert", 4.5)
    assert best_peer({}, "mlp-64-full") is None


def test_the_section_of_start_up_is_replaced_alone() -> None:
    page = text(RESULTS, MORE)
    assert "| imports of `odt train` | `import numpy, numpy.random` | 44 (goal 45) | 7.5 |" in page
    other = section(MORE["startup"] | {TRAIN: {"ms": 40.0, "mb": 7.5}})
    assert replace_section(page, other) == page.replace("| 44 (goal", "| 40 (goal")


def test_figures_without_a_clean_run_are_marked() -> None:
    assert disturbed(RESULTS) == {("mlp-64-full", "PyTorch")}
    page = text(RESULTS, MORE)
    assert "| mlp, batch 64 | 2 | 4.5 | 6* | 0.5 |" in page
    assert "`*` marks" in page
    swapped = [r | {"others": 0.3 - r["others"]} for r in RESULTS if r["system"] == "odt"]
    page = text([*swapped, *RESULTS[3:]], MORE)
    assert "| 2* ms | 4.5 ms (onert) | 0.444* (goal 0.8) | 20* MB (goal 12) |" in page


@pytest.mark.parametrize(
    ("work", "losses", "expected"),
    [
        ("mnist-32-full", {"odt": 2.0, "onert": 2.001, "PyTorch": 1.999}, []),
        (
            "mnist-32-full",
            {"PyTorch": 2.003, "odt": 2.0},
            ["PyTorch on mnist, batch 32 with 2.003 where odt has 2"],
        ),
        ("resnet8-64-full", {"odt": 2.0, "ONNX Runtime": 2.1, "PyTorch": 2.101}, []),
        (
            "resnet8-64-full",
            {"odt": 2.0, "onert": 2.1, "ONNX Runtime": 2.1, "PyTorch": float("nan")},
            [
                "onert on resnet8, batch 64 with 2.1 where odt has 2",
                "PyTorch on resnet8, batch 64 with nan where ONNX Runtime has 2.1",
            ],
        ),
    ],
)
def test_first_losses_are_the_same_where_systems_pad_alike(
    work: str, losses: dict[str, float], expected: list[str]
) -> None:
    """ResNet-8 has layers of stride 2, which PyTorch and ONNX Runtime pad in another way."""
    found = [result(s, 1.0, work=work) | {"first_loss": value} for s, value in losses.items()]
    found += [result("LiteRT, forward", 1.0, work=work) | {"first_loss": 9.0}] * 2
    assert other_losses(found) == expected
    page = text(found, MORE)
    assert "equal padding agrees to 0.1%" + (f", except {expected[0]}" if expected else ".") in page


def test_a_failure_is_listed_where_no_run_succeeded() -> None:
    again = {"system": "onert", "work": "mlp-64-full", "failed": "took more than 600 s"}
    elsewhere = again | {"work": "mnist-32-full"}
    assert failures([*RESULTS, again, elsewhere]) == {
        ("mlp-64-full", "ONNX Runtime"): "no wheel",
        ("mnist-32-full", "onert"): "took more than 600 s",
    }
    page = text([*RESULTS, again], MORE)
    assert "ONNX Runtime, mlp-64-full: no wheel" in page
    assert "took more than" not in page


def test_a_budget_and_a_cache_have_goals_of_their_own() -> None:
    page = text(
        [
            result("odt", 40.0, work="mobilenet-32-full"),
            result("odt, within 100 MB", 50.0, work="mobilenet-32-full"),
            result("odt, frozen part cached", 1.0, work="mobilenet-8-last"),
            result("onert", 25.0, work="mobilenet-8-last"),
        ],
        MORE,
    )
    assert "within 100 MB | 50 ms | 40 ms (odt) | 1.25 (goal 1.5) | 500 MB (goal 100) |" in page
    assert "part cached | 1 ms | 25 ms (onert) | 0.04 (goal 0.05) | 10 MB |" in page
    assert {s for s in SYSTEMS if SYSTEMS[s].works} == set(WAYS)


def test_a_row_without_a_memory_goal_must_need_no_more_than_the_peers() -> None:
    name = "dscnn-32-full"
    odt, onert = (result(s, ms, work=name) for s, ms in (("odt", 2.0), ("onert", 3.0)))
    page = text([odt, onert], MORE)
    assert "| 0.667 (goal 1.0) | 20 MB (goal 30) | 30 MB (onert) |" in page
    assert "| – | 20 MB | – |" in text([odt], MORE)


def test_the_page_holds_the_ratio_and_what_is_missing() -> None:
    page = text(RESULTS, MORE)
    assert "| mlp, batch 64 | 2 ms | 4.5 ms (onert) | 0.444 (goal 0.8) | 20 MB (goal 12) |" in page
    assert "1.50 times as fast" in page
    assert "PyTorch, compiled: could not be installed: no such version" in page
    # 6 × 101,632 multiplications × 64 samples in 2 ms
    assert "| mlp, batch 64 | 20 GFLOP/s | 20% | 1.33 |" in page


@pytest.mark.parametrize(
    ("name", "parameters", "multiplications"),
    [
        ("mlp", 101_770, 101_632),
        ("mnist", 34_826, 2_440_960),
        ("resnet8", 77_706, 12_501_632),
        ("dscnn", 22_604, 2_656_768),
        ("mobilenetv3", 1_522_050, 11_057_600),
        ("mobilenet", 3_487_816, 300_774_272),
    ],
)
def test_networks_are_the_published_ones(
    name: str, parameters: int, multiplications: int, tmp_path: Any
) -> None:
    """MobileNetV2's 3.5 million parameters and 300 million multiplications, and so on."""
    net = NETWORKS[name]()
    assert net.multiplications() == multiplications
    assert SAMPLES[name] == (net.input, net.classes)
    pairs = [(layer.w, layer.b) for _, layer in net.weights()]
    assert sum(w.size + b.size for w, b in pairs if w is not None and b is not None) == parameters
    write(net, tmp_path / "net.tflite")
    graph = read_model(tmp_path / "net.tflite").graph
    assert graph.tensors[graph.outputs[0]].spec.shape == (1, net.classes)
    x, y, labels = batch_of(net, 3)
    assert x.shape == (3, *net.input)
    np.testing.assert_array_equal(np.argmax(y, 1), labels)


@pytest.mark.parametrize(
    ("name", "parameters", "expected"),
    [
        ("resnet8", 77_706, (2.398850, 2.348942, 2.301933)),
        ("dscnn", 22_604, (2.509428, 2.504912, 2.500430)),
        ("mobilenetv3", 1_522_050, (2.258092, 1.577121, 1.055028)),
    ],
)
def test_networks_train_as_in_pytorch(
    name: str, parameters: int, expected: tuple[float, ...], tmp_path: Path
) -> None:
    """Three losses of PyTorch 2.13 in float64, padding as TFLite does; only weights train."""
    net = NETWORKS[name]()
    write(net, tmp_path / "net.circle")
    x, y, _ = batch_of(net, 4)
    info = TrainingInfo(
        optimizer="adam", learning_rate=1e-4, loss="categorical_crossentropy", batch_size=4
    )
    with Trainer(read_model(tmp_path / "net.circle").graph, info) as trainer:
        losses = [trainer.step(OneBatch(x, y), 4) for _ in expected]
        trained = sum(a.size for a in trainer.parameters.tensors.values())
    assert losses == pytest.approx(expected, rel=1e-3)  # Its Adam corrects before adding epsilon
    assert trained == parameters


@pytest.mark.parametrize("how", [(), ("budget",), ("cache",)])
def test_the_last_layer_trains(how: tuple[str, ...], tmp_path: Any) -> None:
    """SOFTMAX is the file's last operator, but it is the one before that has weights."""
    write(NETWORKS["mnist"](), tmp_path / "mnist.circle")
    code = f"""
import runpy, sys
import numpy as np
sys.path.insert(0, {str(HERE)!r})
import measuring
measuring.SECONDS = 0
sys.argv = ["", "mnist", "4", "last", {str(tmp_path)!r}, *{how!r}]
made = runpy.run_path({str(HERE / "measure_odt.py")!r})
trained = made["trainer"].parameters
print(sorted(a.shape for a in trained.tensors.values()), trained.step)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *_, figures, trained = done.stdout.splitlines()
    assert trained == "[(10,), (10, 1600)] 7"
    assert json.loads(figures)["memory_mb"] > 0


def test_a_folder_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    """A process that is killed cleans nothing up."""
    folder = tmp_path / "ort/mlp-full"
    code = f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(HERE)!r})
from measuring import whole
with whole(Path({str(folder)!r})) as made:
    (made / "checkpoint").touch()
    os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert [f.name for f in tmp_path.rglob("*") if f.is_file()] == ["checkpoint"]
    assert not folder.exists()
    with whole(folder) as made:
        (made / "checkpoint").touch()
        assert not folder.exists()
    assert [f.name for f in folder.iterdir()] == ["checkpoint"]


def test_a_system_makes_its_files_once_and_elsewhere(tmp_path: Path) -> None:
    """What makes them must leave no memory behind."""
    code = f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(HERE)!r})
from measuring import write_once
folder = Path({str(tmp_path)!r}) / "made"
for _ in range(2):
    write_once(folder, lambda made: (made / str(os.getpid())).touch())
(process,) = (int(f.name) for f in folder.iterdir())
assert process != os.getpid()
write_once(Path({str(tmp_path)!r}) / "other", lambda made: sys.exit("no wheel"))
print("went on")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "no wheel\n")


def test_results_last_as_long_as_the_code() -> None:
    now = code_mark()
    assert now == code_mark()
    good, failed = {"code": now, "others": 0.5}, {"code": now, "failed": "killed"}
    assert lasting([good, failed, {"code": "other"}, {}], now) == [good]


def test_peers_and_rows_are_chosen_by_short_names() -> None:
    ours = {s for s in SYSTEMS if s.startswith("odt")}
    assert set(chosen(SYSTEMS, "")) == set(SYSTEMS)
    assert set(chosen(SYSTEMS, "onert ort")) == ours | {"onert", "ONNX Runtime"}
    assert [w.name for w in rows("mnist-32, mlp", False)] == ["mlp-64-full", "mnist-32-full"]
    assert [w.name for w in rows("", True)] == list(QUICK)
    with pytest.raises(click.BadParameter, match="but got resnet50"):
        rows("mlp resnet50", False)
    with pytest.raises(click.BadParameter, match="but got jax"):
        chosen(SYSTEMS, "jax onert")


def test_a_failure_reports_the_message_of_the_library() -> None:
    trace = 'Traceback (most recent call last):\n  File "m.py", line 1\nOnertError: STATUS\n'
    assert reason(f"loading\nUnsupported operation: X\n{trace}") == (
        "Unsupported operation: X; OnertError: STATUS"
    )
    assert reason(trace) == "OnertError: STATUS"
    assert reason("first\nno wheel\n") == "no wheel"
    assert reason("\n") == "no reason given"


def test_every_row_and_script_is_there() -> None:
    assert set(QUICK) <= {w.name for w in WORK}
    assert {w.network for w in WORK} == set(NETWORKS)
    assert all((HERE / s.script).exists() for s in SYSTEMS.values())
    assert {name for s in SYSTEMS.values() for name in s.works} <= {w.name for w in WORK}
