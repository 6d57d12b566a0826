"""Paths in the repository."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
GOLDEN = TESTS / "golden"
MLP_SM = GOLDEN / "mlp_sm"  # 784 → 10, ends in SOFTMAX
GOLDEN_TORCH = TESTS / "golden_torch"
MODELS = TESTS / "models"
FOLDERS = {  # package → folder
    "odt": "src/odt",
    "odt.cli": "cli",
    "odt.core": "core",
    "odt.kernels": "kernels",
    "odt.schemas": "schemas",
}
