"""Training with products of bfloat16: `precision="bf16"`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.paths import GOLDEN

import odt
from odt.cli.main import main
from odt.errors import OptionError
from odt.kernels.native.library import lacks_bf16

MODEL = GOLDEN / "mnist/model.circle"
HAS_BF16 = pytest.mark.skipif(bool(lacks_bf16()), reason="this machine cannot compute it")
X = np.random.default_rng(3).random((32, 28, 28, 1), np.float32)
Y = np.eye(10, dtype=np.float32)[np.arange(32) % 10]


def trainer(**options: Any) -> odt.Trainer:
    return odt.Trainer(
        MODEL, loss="categorical_crossentropy", learning_rate=0.001, batch_size=32, **options
    )


@HAS_BF16
def test_steps_round_and_evaluation_does_not() -> None:
    with trainer() as exact, trainer(precision="bf16") as rounded:
        assert rounded.evaluate(X, Y) == exact.evaluate(X, Y)
        np.testing.assert_array_equal(rounded.predict(X), exact.predict(X))
        want = exact.train_on_batch(X, Y)["loss"]
        loss = rounded.train_on_batch(X, Y)["loss"]
        assert loss != want
        assert loss == pytest.approx(want, rel=1e-3)


@HAS_BF16
@pytest.mark.parametrize("division", [{"micro_batch": 8}, {"workers": 1}, {"micro_batch": 32}])
def test_the_division_of_a_batch_changes_rounding_of_sums_only(division: dict[str, int]) -> None:
    gradients = []
    for options in ({}, division):
        with trainer(precision="bf16", **options) as t:
            t.forward_backward(X, Y)
            gradients.append(t.gradients)
    for name, g in gradients[0].items():
        other = gradients[1][name]
        np.testing.assert_allclose(other, g, rtol=0, atol=2e-3 * np.abs(g).max(), err_msg=name)


@HAS_BF16
def test_a_checkpoint_has_the_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.odt"
    with trainer(precision="bf16") as t:
        t.train_on_batch(X, Y)
        t.save_checkpoint(path)
    with trainer(checkpoint=path) as t:
        assert t.session.recipe.info.precision == "bf16"
    monkeypatch.setenv("ODT_KERNELS", "base")
    with pytest.raises(OptionError, match=r"precision.*must be float32 here, but got bf16"):
        trainer(checkpoint=path)
    with trainer(checkpoint=path, precision="float32") as t:
        assert t.session.recipe.info.precision == "float32"


@HAS_BF16
def test_plan_and_log_show_the_precision() -> None:
    arguments = ["plan", str(MODEL), "--batch-size", "32", "--precision", "bf16", "--calls"]
    arguments += ["--loss", "categorical-crossentropy"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "precision: bf16 in 3 of 8 products of layers and matrices" in result.output
    assert "2 CONV_2D d.w (compiled, bf16, with 2 CONV_2D d.b)" in result.output


@pytest.mark.parametrize(
    ("kernels", "why"),
    [("base", "Only the kernels avx512 have it, not base."), ("numpy", "not numpy.")],
)
def test_other_kernels_refuse(kernels: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if lacks_bf16():
        why = "lacks AVX512_BF16"
    monkeypatch.setenv("ODT_KERNELS", kernels)
    with pytest.raises(OptionError) as caught:
        trainer(precision="bf16")
    assert "must be float32 here, but got bf16" in str(caught.value)
    assert why in str(caught.value)


@HAS_BF16
def test_compiled_programs_refuse(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="Compiled programs compute in float32"):
        odt.compile(
            MODEL, tmp_path / "c", loss="categorical_crossentropy", learning_rate=0.1,
            precision="bf16",
        )  # fmt: skip
