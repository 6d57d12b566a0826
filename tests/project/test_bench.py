"""What the benchmarks make of their measurements; the measuring itself is `make bench`."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from bench.figures import best_peer, disturbed, failures, is_clean, medians, other_losses
from bench.machine import describe
from bench.measuring import whole
from bench.networks import NETWORKS, SHIPPED
from bench.onnx_files import row
from bench.picture import ratios, write_picture
from bench.ratios import store
from bench.report import figures, text, values, write_values
from bench.run import code_mark, reason, reusable, rows, select_systems, speed, turns
from bench.startup import PYTHON, TRAIN, table
from bench.systems import HERE, SYSTEMS
from bench.work import QUICK, SHOWN, WORK
from bench.write_models import write
from support.paths import ROOT

PROCESSOR = "Test CPU, 2 cores, AVX2"


def result(system: str, step: float, others: float = 0.0, work: str = "mlp-64-full") -> Any:
    return {
        "system": system,
        "work": work,
        "step_ms": step,
        "memory_mb": 10 * step,
        "first_loss_ms": 100.0,
        "first_loss": 2.0,
        "others": others,
        "processor": PROCESSOR,
    }


RESULTS = [
    *(result("odt", step) for step in (1.0, 3.0, 2.0)),
    *(result("onert", step) for step in (5.0, 4.0)),
    result("onert", 50.0, others=0.5),
    result("PyTorch", 6.0, others=0.3),
    result("LiteRT, forward", 0.5),
    {"system": "ONNX Runtime", "work": "mlp-64-full", "failed": "no wheel", "processor": PROCESSOR},
    result("LiteRT, forward", 9.0) | {"speed": 0.5},
]


MORE: dict[str, Any] = {
    "sizes": {"odt": 1.0},
    "absent": {"PyTorch, compiled": "no such version"},
    "missing": {"shipped_fruit-8-full": "fruit.tflite is in no folder of models"},
    "batch": [(1, 1.0)],
    "width": [(64, 1.0)],
    "depth": [(1, 1.0)],
    "workers": {"one": 30.0, "two": 20.0},
    "overhead": {"calls": 30, "microseconds": 42.0},
    "peak_gflops": 100.0,
    "startup_processor": PROCESSOR,
    "startup": {PYTHON: {"ms": 10.0, "mb": 9.0}, TRAIN: {"ms": 44.0, "mb": 7.5}},
}


def page_of(results: list[Any], more: dict[str, Any] = MORE) -> str:
    return text(values(results, more))


def test_medians_leave_out_disturbed_runs_where_there_are_others() -> None:
    assert medians(RESULTS, "step_ms") == {
        ("mlp-64-full", "odt"): 2.0,
        ("mlp-64-full", "onert"): 4.5,
        ("mlp-64-full", "PyTorch"): 6.0,
        ("mlp-64-full", "LiteRT, forward"): 0.5,
    }
    assert [is_clean(r) for r in RESULTS] == [True] * 5 + [False, False, True, True, False]


def test_the_best_peer_trains_and_is_not_odt() -> None:
    assert best_peer(medians(RESULTS, "step_ms"), "mlp-64-full") == ("onert", 4.5)
    assert best_peer({}, "mlp-64-full") is None


def test_bfloat16_is_no_peer() -> None:
    narrow = result("PyTorch, bf16", 1.0) | {"first_loss": 2.1}
    assert "| 4.5 ms (onert) | 0.444 | 20 MB" in page_of([*RESULTS, narrow])
    assert best_peer(medians([narrow], "step_ms"), "mlp-64-full") is None
    assert other_losses([*RESULTS, narrow]) == []


def test_rows_of_onnx_files_have_ratios_to_onnx_runtime() -> None:
    def run(step: float, memory: float, others: float = 0.0) -> dict[str, float]:
        return {"step_ms": step, "peak_mb": memory, "others": others, "first_loss": 2.5}

    ort = [run(4, 100), run(2, 80), run(3, 90)]
    text = row("mlp", 2, "odt", [run(1.5, 45), run(9, 45), run(0.5, 45)], ort)
    assert " ".join(text.split()) == "mlp 2 odt 1.500 ms 0.50 x 45.0 MB 0.50 x first loss 2.5"
    assert row("mlp", 2, "odt", [run(1, 1, 0.2)], ort).endswith("disturbed")


def test_the_page_names_the_processor() -> None:
    assert f"are of this processor:\n{PROCESSOR}." in page_of(RESULTS)
    intel = "model name : Xeon\ncpu family : 6\nmodel : 143\nflags : sse avx2 avx512f amx_bf16\n"
    assert describe(intel + "\nmodel name : other\n", 2) == (
        "Xeon (cpu family 6, model 143), 2 cores, AMX-BF16, AVX-512, AVX2"
    )
    assert describe("", 4) == "processor of unknown name, 4 cores, no known vector instructions"


def test_the_picture_has_a_ratio_for_each_row(tmp_path: Path) -> None:
    row = next(w for w in WORK if w.name == "mlp-64-full")
    assert ratios(medians(RESULTS, "step_ms"), [row]) == [(0, 2.0 / 4.5)]
    steps, memory = medians(RESULTS, "step_ms"), medians(RESULTS, "memory_mb")
    write_picture(steps, memory, tmp_path / "ratios.png")
    assert (tmp_path / "ratios.png").read_bytes().startswith(b"\x89PNG")


def test_ratios_of_other_processors_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "ratios.json"
    other = [r | {"processor": "Other CPU"} for r in (result("odt", 3.0), result("onert", 4.0))]
    assert store(other, path) == {"Other CPU": {"mlp-64-full": 0.75}}
    both = store(RESULTS, path)
    assert both == {"Other CPU": {"mlp-64-full": 0.75}, PROCESSOR: {"mlp-64-full": 0.444}}
    assert values(RESULTS, MORE | {"ratios": both})["ratios"] == both


def test_figures_of_start_up_are_printed_and_stored(tmp_path: Path) -> None:
    lines = table(MORE["startup"])
    assert [line.split() for line in lines] == [
        ["Python", "alone", "10", "ms", "9.0", "MB"],
        [*TRAIN.split(), "44", "ms", "7.5", "MB", "above", "`import", "numpy,", "numpy.random`"],
    ]
    write_values(values(RESULTS, MORE), tmp_path)
    stored = json.loads((tmp_path / "benchmarks.json").read_text(encoding="utf-8"))
    assert stored["startup"] == MORE["startup"]


def test_figures_without_a_clean_run_are_marked() -> None:
    assert disturbed(RESULTS) == {("mlp-64-full", "PyTorch")}
    assert "`*` marks" in page_of(RESULTS)
    swapped = [r | {"others": 0.3 - r["others"]} for r in RESULTS if r["system"] == "odt"]
    page = page_of([*swapped, *RESULTS[3:]])
    assert "| mlp, batch 64 | 2* ms | 4.5 ms (onert) | 0.444 | 20* MB |" in page
    rows = values(RESULTS, MORE)["rows"]["mlp-64-full"]
    assert [s for s, cell in rows.items() if "disturbed" in cell] == ["PyTorch"]


@pytest.mark.parametrize(
    ("work", "losses", "expected"),
    [
        ("mnist-32-full", {"odt": 2.0, "onert": 2.001, "PyTorch": 1.999}, []),
        (
            "mnist-32-full",
            {"PyTorch": 2.003, "odt": 2.0},
            ["PyTorch on mnist, batch 32 (2.003; odt: 2)"],
        ),
        ("resnet8-64-full", {"odt": 2.0, "ONNX Runtime": 2.1, "PyTorch": 2.101}, []),
        (
            "resnet8-64-full",
            {"odt": 2.0, "onert": 2.1, "ONNX Runtime": 2.1, "PyTorch": float("nan")},
            [
                "onert on resnet8, batch 64 (2.1; odt: 2)",
                "PyTorch on resnet8, batch 64 (nan; ONNX Runtime: 2.1)",
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
    page = page_of(found)
    exceptions = f", with these exceptions:\n  {expected[0]}" if expected else "."
    assert f"same padding agree to 0.1%{exceptions}" in page


def test_a_failure_is_listed_where_no_run_succeeded() -> None:
    again = {"system": "onert", "work": "mlp-64-full", "failed": "took more than 600 s"}
    again["processor"] = PROCESSOR
    elsewhere = again | {"work": "mnist-32-full"}
    assert failures([*RESULTS, again, elsewhere]) == {
        ("mlp-64-full", "ONNX Runtime"): "no wheel",
        ("mnist-32-full", "onert"): "took more than 600 s",
    }
    page = page_of([*RESULTS, again])
    assert "ONNX Runtime, mlp-64-full: no wheel" in page
    assert "took more than" not in page
    other = {"system": "ONNX Runtime", "failed": "no wheel", "processor": PROCESSOR}
    page = page_of([*RESULTS, other | {"work": "vit-8-full"}])
    assert "- ONNX Runtime, mlp-64-full, vit-8-full: no wheel" in page


def test_the_page_holds_the_ratio_and_what_is_missing() -> None:
    page = page_of(RESULTS)
    assert "| mlp, batch 64 | 2 ms | 4.5 ms (onert) | 0.444 | 20 MB | 45 MB (onert) |" in page
    assert "PyTorch, compiled: could not be installed: no such version" in page
    assert "- shipped_fruit-8-full: fruit.tflite is in no folder of models" in page
    assert "goal" not in page


def test_the_page_shows_a_dozen_rows() -> None:
    assert set(SHOWN) <= {w.name for w in WORK}
    page = page_of([result("odt", 1.0, work=w.name) for w in WORK])
    shown = [line for line in page.splitlines() if line.startswith("| ")]
    assert len(shown) == 2 + len(SHOWN) == 14
    assert "for 73 pairs of a\nnetwork and a batch size" in page


def test_the_file_of_values_holds_every_figure_and_makes_the_page(tmp_path: Path) -> None:
    write_values(values(RESULTS, MORE), tmp_path)
    stored = json.loads((tmp_path / "benchmarks.json").read_text(encoding="utf-8"))
    for name in ("step_ms", "memory_mb"):
        known = medians(RESULTS, name)
        if name == "memory_mb":
            del known["mlp-64-full", "LiteRT, forward"]  # it trains nothing
        assert figures(stored, name) == known
    assert stored["sizes"] == MORE["sizes"]
    assert stored["multiplications"]["mlp"] == 784 * 128 + 128 * 10
    assert (tmp_path / "benchmarks.md").read_text(encoding="utf-8") == text(stored)


def test_the_page_in_docs_is_made_from_its_values() -> None:
    docs = HERE.parents[1] / "docs"
    known = json.loads((docs / "benchmarks.json").read_text(encoding="utf-8"))
    assert (docs / "benchmarks.md").read_text(encoding="utf-8") == text(known), (
        "make bench REPORT=1"
    )
    assert {*SHOWN} <= known["rows"].keys() <= {w.name for w in WORK}  # new rows are not measured


@pytest.mark.parametrize("how", [(), ("budget",), ("cache",)])
def test_the_last_layer_trains(how: tuple[str, ...], tmp_path: Any) -> None:
    """SOFTMAX is the file's last operator, but it is the one before that has weights."""
    write(NETWORKS["mnist"](), tmp_path / "mnist.circle")
    code = f"""
import runpy, sys
import numpy as np
sys.path.insert(0, {str(HERE.parent)!r})
from bench import measuring
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
sys.path.insert(0, {str(HERE.parent)!r})
from bench.measuring import whole
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
sys.path.insert(0, {str(HERE.parent)!r})
from bench.measuring import write_once
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


def test_the_machine_is_as_fast_as_its_slower_kind_of_product() -> None:
    assert speed([[100.0, 10.0], [90.0, 10.0], [95.0, 8.0]]) == 0.8
    assert speed([[100.0, 10.0], [60.0, 9.0], [95.0, 9.0]]) == 0.6
    assert speed([[50.0, 5.0], [100.0, 10.0], [100.0, 10.0]]) == 1.0


def test_results_last_as_long_as_the_code() -> None:
    now = code_mark()
    assert now == code_mark()
    mark = {"code": now, "processor": PROCESSOR}
    good, failed = mark | {"others": 0.5}, mark | {"failed": "killed"}
    moved = good | {"processor": "another"}
    assert reusable([good, failed, moved, mark | {"code": "other"}, {}], mark) == [good]


def test_odt_takes_the_first_turn_and_the_last() -> None:
    row = next(w for w in WORK if w.name == "vit-8-full")
    systems = ["odt", "onert", "PyTorch, channels last", "LiteRT, forward"]
    assert turns(systems, row, 2) == [
        *((n, s) for n in range(2) for s in systems),
        (2, "odt"),
    ]
    text_row = next(w for w in WORK if w.name == "bag-32-full")
    assert [s for _, s in turns(systems, text_row, 1)] == ["odt", "onert", "LiteRT, forward", "odt"]
    shipped = next(w for w in WORK if w.shipped)
    assert not any(SYSTEMS[s].measures(shipped) for s in ("PyTorch", "ONNX Runtime"))


def test_peers_and_rows_are_chosen_by_short_names() -> None:
    ours = {s for s in SYSTEMS if s.startswith("odt")}
    assert set(select_systems(SYSTEMS, "")) == set(SYSTEMS)
    assert set(select_systems(SYSTEMS, "onert ort")) == ours | {"onert", "ONNX Runtime"}
    assert [w.name for w in rows("mnist-32, mlp", False)] == ["mlp-64-full", "mnist-32-full"]
    assert [w.name for w in rows("", True)] == list(QUICK)
    with pytest.raises(click.BadParameter, match="but got resnet50"):
        rows("mlp resnet50", False)
    with pytest.raises(click.BadParameter, match="but got jax"):
        select_systems(SYSTEMS, "jax onert")


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
    assert {w.network for w in WORK} == NETWORKS.keys() | SHIPPED.keys()
    assert all((HERE / s.script).exists() for s in SYSTEMS.values())
    assert {name for s in SYSTEMS.values() for name in s.works} <= {w.name for w in WORK}


@pytest.mark.parametrize(
    "variable",
    ["", "QUICK=1", "ONNX=1", "STARTUP=1", "AGAINST=HEAD", "WASM=1"],
    ids=lambda v: v or "none",
)
def test_make_bench_runs_a_script_that_exists(variable: str) -> None:
    """The command of each form of `make bench` that the Makefile describes."""
    if shutil.which("make") is None:
        pytest.skip("no make")
    words = ["make", "--dry-run", "bench", "DATA=x", *([variable] if variable else [])]
    commands = subprocess.check_output(words, cwd=ROOT, text=True)
    (script,) = re.findall(r"python (tools/bench/\S*)", commands)
    assert (ROOT / script).is_file()
