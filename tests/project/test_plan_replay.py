"""Plans, memory plans and calls of the golden models are those recorded in tests/plans.

Code that moves or gets other names changes none of them. A commit that does change them records
them again, and its review reads the difference: ODT_RECORD_PLANS=1 pytest -m ""
tests/project/test_plan_replay.py, with the folder of the complete data in ODT_ACCEPT_DATA.
"""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.accept_data import complete
from support.paths import TESTS

from odt.cli.main import main

MODELS = sorted(p for name in ("golden", "golden_torch") for p in (TESTS / name).rglob("*.circle"))
OPTIONS = ["--loss", "mean-squared-error", "--batch-size", "4", "--workers", "1", "--calls"]
# As one micro-batch, as two, and in as little memory as there is a plan for.
WAYS = (["--micro-batch", "4"], ["--micro-batch", "2"])
KERNELS = pytest.mark.parametrize("kernels", ["numpy", "base"])


def described(model: Path, kernels: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What `odt plan --calls` prints of a model, but for its forecasts."""
    monkeypatch.setenv("ODT_KERNELS", kernels)
    found = []
    for way in WAYS:
        result = CliRunner().invoke(main, ["plan", str(model), *OPTIONS, *way])
        assert result.exit_code == 0, result.output
        found.append(result.output[result.output.index("\nplan\n") :])
    return "".join(found)


def replay(name: str, model: Path, kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compares what a model's plans are with what they were."""
    path = TESTS / "plans" / f"{name}.{kernels}.txt"
    text = described(model, kernels, monkeypatch)
    if os.environ.get("ODT_RECORD_PLANS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text.splitlines() == path.read_text(encoding="utf-8").splitlines()


@KERNELS
@pytest.mark.parametrize(
    "model", MODELS, ids=lambda p: p.stem if p.stem != "model" else p.parent.name
)
def test_plans_of_golden_models_are_as_recorded(
    model: Path, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = model.parent.name if model.stem == "model" else model.stem
    replay(f"{model.relative_to(TESTS).parts[0]}-{name}", model, kernels, monkeypatch)


@pytest.mark.accept
@KERNELS
@pytest.mark.parametrize("name", ["mbv2_96", "mlp", "mlp_sm", "mnist", "resnet8"])
def test_plans_of_all_golden_models_are_as_recorded(
    name: str, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay(f"shared-{name}", complete("golden", name, "model.circle"), kernels, monkeypatch)
