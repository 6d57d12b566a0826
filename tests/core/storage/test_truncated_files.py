"""A mapped file that becomes shorter while it is read ends a command in one line, not by SIGBUS."""

import mmap
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.datafiles import refused
from support.limits import FOREVER
from support.networks import InOrder
from support.paths import MLP_SM

from odt.core.checkpoints.resume import read_resume
from odt.core.data.columns import open_columns
from odt.core.data.dataset import DataSet, EpochOrder
from odt.core.export.exporter import export_model
from odt.core.formats.reader import read_model
from odt.core.model.model import Model
from odt.core.model.training_info import TrainingInfo
from odt.core.storage import mapped_files as mapped
from odt.core.storage.mapped_files import MappedFile
from odt.core.training.frozen_cache import CachePolicy
from odt.core.training.inference import Predictor
from odt.core.training.trainer import Trainer
from odt.datasets.source import ArrayPart, Sample
from odt.errors import LostFileError
from odt.kernels.rows.opdef import TensorSpec

NAMES = ("model.circle", "input.bin", "expected.bin")
SAMPLES, PAGE = 96, mmap.PAGESIZE
ODT = (sys.executable, "-m", "odt")
DATA = ("--load-input", "input.bin", "--load-expected", "expected.bin")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        shutil.copy(MLP_SM / name, tmp_path)
    return tmp_path


def train_and_cut(folder: Path, name: str, size: int, *more: str) -> str:
    """Cuts a file after the second epoch; gives the one line in which training ends."""
    command = [*ODT, "train", "model.circle", *DATA, "--epochs", "100000", *more]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        assert any(line.startswith("Epoch 2/") for line in run.stdout)
        os.truncate(folder / name, size)
        _, errors = run.communicate(timeout=FOREVER)
    assert run.returncode == 1, errors
    (line,) = errors.splitlines()
    assert line.startswith(f"Error: {name}: must not change while it is read, but it became short")
    assert not list(folder.glob(".odt-*"))
    return line


def weights_of(path: Path) -> dict[str, bytes]:
    graph = read_model(path).graph
    return {t.name: t.data.tobytes() for t in graph.tensors if t.data is not None}


@pytest.mark.parametrize(
    ("name", "size"),
    [("input.bin", 0), ("input.bin", 150_000), ("input.bin", 301_055), ("expected.bin", 0)],
)
def test_weights_are_written_when_data_become_shorter(name: str, size: int, folder: Path) -> None:
    line = train_and_cut(
        folder, name, size, "--export-circle", "v.circle", "--export-checkpoint", "c.odt"
    )
    state = read_resume(folder / "c.odt").checkpoint
    assert state is not None
    step = state.progress.step
    assert step > 0
    assert line.endswith(f"Training ended after step {step}; all requested files are written.")
    exported = weights_of(folder / "v.circle")
    arrays = zip(state.entries, state.arrays, strict=True)
    weights = {entry.tensor: array.tobytes() for entry, array in arrays if entry.role == "weight"}
    assert weights
    assert exported == exported | weights


@pytest.mark.parametrize(
    "more",
    [
        ("--export-circle", "v.circle"),
        ("--export-circle", "v.circle", "--num-of-trainable-ops", "2"),
        ("--export-circle", "v.circle", "--batch-size", "8", "--workers", "2"),
        ("--export-circle", "v.circle", "--export-checkpoint", "c.ckpt"),
    ],
)
def test_weights_are_rescued_when_the_model_becomes_shorter(
    more: tuple[str, ...], folder: Path
) -> None:
    line = train_and_cut(folder, "model.circle", 0, *more)
    assert not (folder / "v.circle").exists()
    assert "The weights are saved as v.circle.rescued.odt; put the model file back" in line
    shutil.copy(MLP_SM / "model.circle", folder)
    hint = ("--checkpoint", "v.circle.rescued.odt", "--epochs", "0")
    command = [*ODT, "train", "model.circle", *DATA, *hint, "--export-circle", "v.circle"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    state = read_resume(folder / "v.circle.rescued.odt").checkpoint
    assert state is not None
    exported = weights_of(folder / "v.circle")
    rescued = {
        e.tensor: a for e, a in zip(state.entries, state.arrays, strict=True) if e.role == "weight"
    }
    assert rescued
    assert {name: exported[name] for name in rescued} == {
        n: a.tobytes() for n, a in rescued.items()
    }


def open_data(folder: Path) -> DataSet:
    with Trainer(read_model(folder / "model.circle").graph, TrainingInfo(batch_size=8)) as t:
        specs = t.runtime.input_specs, t.runtime.target_specs
    return DataSet(
        open_columns(str(folder / "input.bin"), specs[0], "input"),
        open_columns(str(folder / "expected.bin"), specs[1], "expected output"),
    )


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("lost", NAMES)
def test_a_step_that_reads_a_hole_changes_nothing(lost: str, workers: int, folder: Path) -> None:
    data = open_data(folder)
    info = TrainingInfo(batch_size=8, trainable_ops=(1,))
    with Trainer(read_model(folder / "model.circle").graph, info, workers=workers) as trainer:
        list(trainer.train(data, InOrder(16), epochs=1))
        before = {i: a.tobytes() for i, a in trainer.parameters.tensors.items()}
        assert before
        os.truncate(folder / lost, 0)
        with pytest.raises(LostFileError, match=lost):
            list(trainer.train(data, InOrder(16), epochs=1))
        assert trainer.parameters.step == 2
        assert {i: a.tobytes() for i, a in trainer.parameters.tensors.items()} == before


def test_a_file_that_is_written_anew_in_place_stays_lost(folder: Path) -> None:
    path = folder / "input.bin"
    whole = path.read_bytes()
    with open(path, "rb") as f:
        file = MappedFile(f.fileno(), path)
    os.truncate(path, 0)
    assert file[PAGE] == 0
    path.write_bytes(whole)
    with pytest.raises(LostFileError, match="could not be read to its end"):
        file.check()


def test_without_the_compiled_module_sizes_are_looked_at(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped, "watch_mapped", lambda memory: None)
    data, out = open_data(folder), np.empty((8, 784), np.float32)
    data.inputs[0].read(range(8), out)
    os.truncate(folder / "input.bin", 301_055)
    with pytest.raises(LostFileError, match="became shorter"):
        data.inputs[0].read(range(8), out)


@pytest.mark.parametrize("size", [0, 5000, 300_000])
def test_hdf5_that_became_shorter_is_not_read_as_zeros(size: int, tmp_path: Path) -> None:
    path, out = tmp_path / "x.h5", np.empty((8, 784), np.float32)
    with h5py.File(path, "w") as f:
        f.create_dataset("value/0", data=np.ones((96, 784), np.float32), chunks=(8, 784))
    (column,) = open_columns(str(path), [TensorSpec((784,), np.dtype(np.float32))], "input")
    column.read(range(8), out)
    os.truncate(path, size)
    with pytest.raises(LostFileError, match=r"x\.h5"):
        column.read(range(88, 96), out)


def test_files_that_are_replaced_by_renaming_are_not_lost(folder: Path) -> None:
    data, out = open_data(folder), np.empty((8, 784), np.float32)
    (folder / "new.bin").write_bytes(b"")
    os.replace(folder / "new.bin", folder / "input.bin")
    data.inputs[0].read(range(8), out)
    assert out.any()


def test_the_watch_ends_with_the_map(folder: Path) -> None:
    """1,024 files are watched at once, and more than that one after the other."""
    for _ in range(1500):
        with open(folder / "input.bin", "rb") as f:
            file = MappedFile(f.fileno(), "input.bin")
    os.truncate(folder / "input.bin", 0)
    assert file[0] == 0
    assert file.has_hole


def test_holes_in_other_memory_still_end_the_process(folder: Path) -> None:
    script = (
        "import mmap, os, sys\n"
        "from odt.core.storage.mapped_files import MappedFile\n"
        "f = open('input.bin', 'r+b')\n"
        "file = MappedFile(f.fileno(), 'input.bin')\n"
        "other = mmap.mmap(f.fileno(), 0)\n"
        "f.truncate(0)\n"
        "print(file[0], file.has_hole, flush=True)\n"
        "other[0]\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )
    assert run.stdout == "0 True\n"
    assert run.returncode == -signal.SIGBUS


def test_predictions_of_a_shorter_file_are_not_written(folder: Path) -> None:
    data = DataSet(open_data(folder).inputs)
    with Predictor(read_model(folder / "model.circle").graph, 8) as predictor:
        run = predictor.run(data, range(SAMPLES))
        next(run)
        os.truncate(folder / "input.bin", 40_000)
        with pytest.raises(LostFileError, match=r"input\.bin"):
            list(run)


def cut(folder: Path) -> Model:
    model = read_model(folder / "model.circle")
    os.truncate(folder / "model.circle", 100)
    return model


def test_a_model_that_became_shorter_is_not_exported(folder: Path) -> None:
    with pytest.raises(LostFileError, match=r"model\.circle"):
        export_model(cut(folder), {}, folder / "v.circle")
    assert sorted(p.name for p in folder.iterdir()) == sorted(NAMES)


def test_a_frozen_part_of_a_shorter_model_is_not_kept(folder: Path) -> None:
    data = open_data(folder)
    info = TrainingInfo(batch_size=8, trainable_ops=(1,))
    keep = CachePolicy(SAMPLES)
    with Trainer(read_model(folder / "model.circle").graph, info, cache=keep) as trainer:
        parts = [range(SAMPLES)]
        with trainer.frozen(data, data.without_inputs(), parts) as cache:
            os.truncate(folder / "model.circle", 100)
            with pytest.raises(LostFileError, match=r"model\.circle"):
                list(trainer.train(cache, EpochOrder(range(SAMPLES)), epochs=1))


def test_a_shorter_source_makes_no_data_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(folder / "s.npz", x=np.ones((100, 5000), np.float32), y=np.arange(100) % 3)
    read = ArrayPart.read

    def cut(self: ArrayPart, k: int) -> Sample:
        os.truncate(folder / "s.npz", 4 * PAGE)
        return read(self, k)

    monkeypatch.setattr(ArrayPart, "read", cut)
    line = refused("--source", folder / "s.npz", "--out-dir", folder / "out")
    assert line.startswith(f"Error: {folder}/s.npz: must not change while it is read")
    assert not (folder / "out").exists()
