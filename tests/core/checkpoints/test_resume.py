"""Training that resumes from a checkpoint ends in the bits of uninterrupted training."""

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.networks import ArrayData, Net
from support.paths import MLP_SM

from odt.cli.main import INTERRUPTED, main
from odt.core.checkpoints import checkpoint
from odt.core.checkpoints.progress import Progress
from odt.core.checkpoints.resume import Resume, read_resume
from odt.core.checkpoints.saver import Saver
from odt.core.data.dataset import EpochOrder
from odt.core.formats.reader import read_model
from odt.core.model.training_info import TrainingInfo
from odt.core.training.trainer import Trainer
from odt.core.training.watch import Watch
from odt.errors import ModelError
from odt.kernels.rows.opdef import Array

SAMPLES, BATCH, EPOCHS = 13, 4, 3
STEPS = SAMPLES // BATCH
INFO = TrainingInfo(loss="mean_squared_error", batch_size=BATCH, learning_rate=0.01)
MOMENTUM = {"momentum": 0.9, "nesterov": True}
DATA = ["--load-input", str(MLP_SM / "input.bin"), "--load-expected", str(MLP_SM / "expected.bin")]


def samples() -> ArrayData:
    rng = np.random.default_rng(3)
    x, y = (rng.normal(size=(SAMPLES, n)).astype(np.float32) for n in (5, 2))
    return ArrayData([x], [y])


def trainer(info: TrainingInfo, workers: int) -> Trainer:
    net = Net()
    hidden = net.dense(net.input(1, 5), 6)
    graph = net.graph(net.dense(hidden, 2))
    return Trainer(graph, info, micro_batch=BATCH // workers, workers=workers)


def state(t: Trainer) -> list[bytes]:
    groups = [t.parameters.tensors, *t.parameters.slots.values()]
    return [a.tobytes() for group in groups for a in group.values()]


def train(
    path: Path, info: TrainingInfo, workers: int, stop_at: int = -1, resume: Resume | None = None
) -> list[bytes]:
    """Trains to the end, or until so many steps are made, saving after each; gives the state."""
    order = EpochOrder(range(SAMPLES), shuffle=True, seed=9)
    with trainer(info, workers) as t:
        if resume:
            resume.restore(t.graph, t.parameters)
            assert resume.warning(t, order) is None
        first, done = (resume or Resume("", None)).start(BATCH, STEPS)
        saver = Saver(str(path), t, order, every=1, before=resume)

        class Saving(Watch):
            def step(self, epoch: int, step: int, loss: float) -> None:
                saver.step(epoch, step)

            def stop(self) -> bool:
                return t.parameters.step == stop_at

        for _ in t.train(samples(), order, epochs=EPOCHS, watch=Saving(), start=first, skip=done):
            saver.epoch()
        return state(t)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("optimizer", "hyper"), [("adam", {}), ("adamw", {}), ("sgd", MOMENTUM), ("sgd", {})]
)
def test_a_run_interrupted_at_any_step_ends_in_the_same_bits(
    optimizer: str, hyper: dict[str, Any], workers: int, tmp_path: Path
) -> None:
    info = replace(INFO, optimizer=optimizer, hyper_parameters=hyper)
    through = train(tmp_path / "through.odt", info, workers)
    path = tmp_path / "c.odt"
    for step in range(1, EPOCHS * STEPS):
        stopped = train(path, info, workers, stop_at=step)
        assert stopped != through
        found = read_resume(path)
        assert found.progress.step == step
        assert (found.progress.epoch - 1) * STEPS + found.progress.position == step
        assert train(path, info, workers, resume=found) == through
        assert path.read_bytes() == (tmp_path / "through.odt").read_bytes()


def test_figures_of_a_resumed_epoch_are_of_the_rest() -> None:
    with trainer(INFO, 1) as t:
        order = EpochOrder(range(SAMPLES))
        epochs = list(t.train(samples(), order, epochs=3, start=2, skip=1))
    assert [(e.number, e.training.steps) for e in epochs] == [(2, STEPS - 1), (3, STEPS)]


def test_another_batch_starts_at_the_same_sample() -> None:
    progress = Progress(epoch=2, position=3, batch=4)
    own = checkpoint.Checkpoint("sgd", {"learning_rate": 0.1}, progress, ())
    resume = Resume("c", own)
    assert resume.start(4, 10) == (2, 3)
    assert resume.start(2, 20) == (2, 6)
    assert resume.start(8, 5) == (2, 1)
    assert resume.start(4, 2) == (2, 2)


@pytest.mark.parametrize(
    ("progress", "changes", "words"),
    [
        ({}, {"optimizer": "newton"}, "its optimizer must be one of"),
        ({"loss": "x"}, {}, "its loss: must be one of"),
        ({"reduction": "x"}, {}, "its reduction must be one of"),
        ({"clip_norm": -1.0}, {}, "its clip_norm must be a number above 0, or 0 for no clipping"),
        ({"accumulate": 0}, {}, "its accumulate must be a whole number of at least 1, but got 0"),
        ({}, {"hyper_parameters": {"learning_rate": 0.1, "beta_1": 0.9}}, "got beta_1 = 0.9"),
        ({}, {"hyper_parameters": {"learning_rate": 0.1, "momentum": 1}}, "got momentum = 1"),
        ({}, {"hyper_parameters": {"learning_rate": 0.1, "momentum": -0.5}}, "got momentum = -0.5"),
        (
            {},
            {"optimizer": "adam", "hyper_parameters": {"learning_rate": 0.1, "beta_2": 1.0}},
            "got beta_2 = 1.0",
        ),
    ],
)
def test_invalid_values_are_an_error(
    progress: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    own = checkpoint.Checkpoint("sgd", {"learning_rate": 0.1}, Progress(**progress), ())
    with pytest.raises(ModelError) as e:
        Resume("c", replace(own, **changes)).training_info(
            read_model(MLP_SM / "model.circle").graph
        )
    assert words in str(e.value)


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(
        main, ["train", str(MLP_SM / "model.circle"), *DATA, *map(str, arguments)]
    )


def odt(*arguments: object) -> Result:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result


SETTINGS = ("--batch-size", 16, "--micro-batch", 8, "--workers", 2, "--shuffle", "--seed", 4)
RULE = (
    *("--optimizer", "adamw", "--learning-rate", 0.003, "--beta-1", 0.8),
    *("--loss", "mean-squared-error", "--num-of-trainable-ops", 2),
)


def weights(path: Path) -> dict[str, Array | None]:
    return {t.name: t.data for t in read_model(str(path)).graph.tensors}


def test_odts_checkpoint_restores_the_options(tmp_path: Path) -> None:
    through, half, rest = (
        tmp_path / name for name in ("through.circle", "half.odt", "rest.circle")
    )
    odt(*SETTINGS, *RULE, "--epochs", 4, "--export-circle", through)
    odt(*SETTINGS, *RULE, "--epochs", 2, "--export-checkpoint", half)
    result = odt("--checkpoint", half, "--epochs", 4, "--export-circle", rest, "-v", 1)
    assert result.stderr == ""
    assert "- optimizer            = adamw  (checkpoint)" in result.stdout
    assert "Epoch 3/4" in result.stdout
    assert "Epoch 2/4" not in result.stdout
    assert through.read_bytes() == rest.read_bytes()
    assert through.read_bytes() != (MLP_SM / "model.circle").read_bytes()


def test_options_override_the_checkpoint_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "c.odt"
    odt(*SETTINGS, "--epochs", 1, "--export-checkpoint", path)
    result = odt("--checkpoint", path, "--epochs", 2, "--seed", 5, "--learning-rate", 0.5)
    assert result.stderr.splitlines(keepends=True)[-1] == (
        f"Warning: {path}: results will differ in bits: it was written with "
        "seed 4, now 5; learning rate 0.001, now 0.5\n"
    )
    result = odt("--checkpoint", path, "--epochs", 2, "--batch-size", 4)
    assert "batch 16, now 4" in result.stderr


def test_an_onert_checkpoint_resumes(tmp_path: Path) -> None:
    through, half, rest = (tmp_path / name for name in ("through.ckpt", "half.ckpt", "rest.ckpt"))
    odt("--epochs", 4, "--no-shuffle", "--export-checkpoint", through)
    odt("--epochs", 2, "--no-shuffle", "--export-checkpoint", half)
    odt("--checkpoint", half, "--epochs", 2, "--no-shuffle", "--export-checkpoint", rest)
    assert through.read_bytes() == rest.read_bytes() != half.read_bytes()
    assert through.read_bytes()[:4] == b"\xad\x01\x01\x00"


@pytest.mark.parametrize(
    ("every", "epochs", "writes"),
    [("step", 2, [1, 2, 3, 4, 5, 6]), ("epoch", 2, [3, 6]), ("4", 2, [4, 6]), ("epoch", 0, [0])],
)
def test_when_checkpoints_are_written(
    every: str, epochs: int, writes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    write = Saver.write

    def spy(self: Saver) -> None:
        write(self)
        assert self.path is not None
        seen.append(read_resume(self.path).progress.step)

    monkeypatch.setattr(Saver, "write", spy)
    path = tmp_path / "c.odt"
    odt("--epochs", epochs, "--export-checkpoint", path, "--export-checkpoint-every", every)
    assert seen == writes


def test_one_s_spelling_writes_after_each_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[str] = []
    monkeypatch.setattr(Saver, "write", lambda self: writes.append(self.path))
    odt("--epoch", 1, "--export_checkpoint", tmp_path / "c")
    assert len(writes) == 3 + 1  # each step, and the end, which the spy has not noted


def test_properties_stay_and_change(tmp_path: Path) -> None:
    path = tmp_path / "c.odt"
    first = ("--property", "device=kitchen", "--property", "round=3", "--property", "share=.5")
    odt("--epochs", 0, "--export-checkpoint", path, *first)
    odt("--epochs", 0, "--checkpoint", path, "--export-checkpoint", path, "--property", "round=4")
    assert read_resume(path).properties == {"device": "kitchen", "round": 4, "share": 0.5}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--property", "a=1"), "must come with --export-checkpoint"),
        (("--property", "a=1", "--export-checkpoint", "c"), "Give a name that ends in .odt"),
        (("--property", "a", "--export-checkpoint", "c.odt"), "must be NAME=VALUE, but got a"),
        (("--export-checkpoint", "c", "--momentum", 0.5, "--optimizer", "sgd"), "got momentum"),
        (("--export-checkpoint", "no/c.odt"), "no/c.odt: must be a file that can be written"),
        (("--export-checkpoint", "c", "--export-checkpoint-every", 0), "number of steps from 1"),
        (("--checkpoint", "none.odt"), "none.odt: must be a checkpoint, but was not found"),
    ],
)
def test_invalid_requests_are_refused_before_training(
    arguments: tuple[object, ...], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(*arguments)
    assert result.exit_code in (1, 2)
    assert words in result.stderr
    assert "Epoch" not in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_saver_refuses_a_format_that_lacks_a_place(tmp_path: Path) -> None:
    info = replace(INFO, optimizer="sgd", hyper_parameters=MOMENTUM)
    with trainer(info, 1) as t, pytest.raises(ModelError, match="sgd or adam, but got momentum"):
        Saver(str(tmp_path / "c"), t, EpochOrder(range(SAMPLES)))


def test_ctrl_c_leaves_a_checkpoint_of_the_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    through, stopped, rest = (tmp_path / n for n in ("through.circle", "c.odt", "rest.circle"))
    odt("--epochs", 2, "--export-circle", through)
    step = Saver.step

    def press(self: Saver, epoch: int, number: int) -> None:
        step(self, epoch, number)
        if (epoch, number) == (2, 1):
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Saver, "step", press)
            result = invoke("--epochs", 2, "--export-checkpoint", stopped)
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.exit_code == INTERRUPTED
    progress = read_resume(stopped).progress
    assert (progress.epoch, progress.position, progress.step) == (2, 1, 4)
    odt("--checkpoint", stopped, "--epochs", 2, "--export-circle", rest)
    assert rest.read_bytes() == through.read_bytes()


def test_another_model_s_checkpoint_gives_a_table(tmp_path: Path) -> None:
    path = tmp_path / "c.odt"
    odt("--epochs", 0, "--num-of-trainable-ops", 2, "--export-checkpoint", path)
    result = invoke("--checkpoint", path, "--num-of-trainable-ops", -1)
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: {path}: must be of this model and optimizer, but got 6 differences: fc1_w "
        "(weight) is (128, 784) float32 in training and absent in the checkpoint. odt -v lists "
        "all.\n"
    )
