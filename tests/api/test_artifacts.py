"""Artifacts: a folder from a workstation trains on a device; mismatches are refused by name."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_builder import ModelBuilder
from support import base_packages

import odt
from odt.core.checkpoints import checkpoint as own_format
from odt.core.data.sidecar import Sidecar
from odt.core.formats.flatbuffer.tflite_metadata import read_record
from odt.core.formats.reader import read_model
from odt.core.model.record import Record
from odt.core.storage.atomic_folders import AtomicFolder
from odt.kernels.rows.opdef import TensorSpec
from odt.training.artifact_files import sha256

pytestmark = pytest.mark.usefixtures("training_alone")

FILES = ("model.circle", "checkpoint.odt", "recipe.toml")
RNG = np.random.default_rng(5)
X = RNG.normal(size=(40, 6)).astype(np.float32)
Y = np.eye(3, dtype=np.float32)[X[:, :3].argmax(1)]


def build(path: Path, kind: str, units: int = 5) -> Path:
    """A model of 6 → units → 3 by SOFTMAX."""
    builder = ModelBuilder(kind)
    y = builder.add_dense(builder.add_dense(builder.add_input((1, 6)), units), 3)
    builder.write(path, builder.add_operator("SOFTMAX", [y], (1, 3), beta=1.0))
    return path


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {kind: build(folder / f"m.{kind}", kind) for kind in ("circle", "tflite")}


@pytest.fixture(scope="module")
def made(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("artifacts") / "device"
    odt.generate_artifacts(
        models["circle"], out, x=X, y=Y, optimizer=odt.Adam(0.01), batch_size=8,
        trainable=odt.last(2), memory_budget="64MB", metrics="accuracy",
    )  # fmt: skip
    return out


@pytest.fixture
def device(made: Path, tmp_path: Path) -> Path:
    """A copy of the folder, as on a device."""
    return Path(shutil.copytree(made, tmp_path / "device"))


@pytest.mark.parametrize("kind", ["circle", "tflite"])
def test_the_device_trains_as_the_desk_would(
    kind: str, models: dict[str, Path], tmp_path: Path
) -> None:
    options: dict[str, Any] = {
        "optimizer": odt.SGD(0.05, momentum=0.9), "batch_size": 8, "clip_norm": 1.0,
        "metrics": ["accuracy"], "micro_batch": 4, "workers": 1, "schedule": odt.CosineDecay(),
        "dropout": 0.2, "ema": 0.9,
    }  # fmt: skip
    found = odt.generate_artifacts(
        models[kind], tmp_path / "d", frozen="dense_0/*", memory_budget=10**8, **options
    )
    assert len(found.losses) == 3
    assert found.losses[2] < found.losses[0]
    assert not found.data_losses
    assert f"model.{kind}" in str(found)
    with (
        odt.Trainer.from_artifacts(tmp_path / "d") as device,
        odt.Trainer(models[kind], trainable=odt.freeze("dense_0/*"), **options) as desk,
    ):
        assert device.session.memory_budget == 10**8
        assert device.fit(X, Y, epochs=2).history == desk.fit(X, Y, epochs=2).history
        assert np.array_equal(
            device.state.get_contiguous_parameters(), desk.state.get_contiguous_parameters()
        )
        device.export(tmp_path / f"new.{kind}")
        assert np.array_equal(device.predict(X), odt.Trainer(tmp_path / f"new.{kind}").predict(X))


def test_the_model_is_a_circle_plus_if_it_can_be(models: dict[str, Path], tmp_path: Path) -> None:
    odt.generate_artifacts(models["circle"], tmp_path / "d", optimizer=odt.Adam(0.5), batch_size=4)
    stored = odt.read_training_info(tmp_path / "d" / "model.circle")
    assert stored is not None
    assert (stored.optimizer, stored.learning_rate, stored.batch_size) == ("adam", 0.5, 4)
    odt.generate_artifacts(models["circle"], tmp_path / "d", optimizer="lion", trainable=["*/w"])
    assert odt.read_training_info(tmp_path / "d" / "model.circle") is None
    with odt.Trainer.from_artifacts(tmp_path / "d") as t:
        assert t.session.recipe.info.optimizer == "lion"
        assert t.state.trainable == ("dense_0/w", "dense_1/w")


def test_samples_lower_the_default_rate_of_a_trained_model(
    models: dict[str, Path], tmp_path: Path
) -> None:
    with odt.Trainer(models["circle"], optimizer=odt.Adam(0.05), batch_size=8) as t:
        t.fit(X, Y, epochs=5)
        t.export(tmp_path / "trained.circle")
    with pytest.warns(odt.OdtWarning, match="already trained"):
        found = odt.generate_artifacts(tmp_path / "trained.circle", tmp_path / "d", x=X, y=Y)
    assert len(found.data_losses) == 2  # 40 samples are two batches
    with odt.Trainer.from_artifacts(tmp_path / "d") as t:
        assert t.learning_rate == pytest.approx(1e-4)


def test_the_preprocessing_record_travels_in_the_model(
    models: dict[str, Path], tmp_path: Path
) -> None:
    X.tofile(tmp_path / "x.bin")
    Y.tofile(tmp_path / "y.bin")
    record = Record("features", ({"step": "divide", "by": 2.0},), ("a", "b", "c"))
    sidecar = Sidecar((TensorSpec((6,), X.dtype),), 40, record.classes, recipe=record.to_json())
    (tmp_path / "x.bin.json").write_bytes(sidecar.to_bytes())
    odt.generate_artifacts(
        models["tflite"], tmp_path / "d", x=tmp_path / "x.bin", y=tmp_path / "y.bin"
    )
    with odt.Trainer.from_artifacts(tmp_path / "d") as t:
        t.export(tmp_path / "new.tflite")
    assert read_record(read_model(tmp_path / "new.tflite")) == record


def test_a_huge_batch_is_not_drawn(models: dict[str, Path], tmp_path: Path) -> None:
    odt.generate_artifacts(models["circle"], tmp_path / "d", batch_size=2**31 - 1, micro_batch=8)
    odt.Trainer.from_artifacts(tmp_path / "d").close()


def test_adapters_travel_beside_the_model(models: dict[str, Path], tmp_path: Path) -> None:
    adapted = odt.lora(models["circle"], rank=2)
    odt.generate_artifacts(adapted, tmp_path / "d", optimizer=odt.Adam(0.01))
    with odt.Trainer.from_artifacts(tmp_path / "d") as t:
        assert all("lora" in name for name in t.state.trainable)
        t.fit(X, Y)
        t.export_adapters(tmp_path / "new.npz")


def test_a_nominal_folder_waits_for_its_weights(models: dict[str, Path], tmp_path: Path) -> None:
    odt.generate_artifacts(models["circle"], tmp_path / "d", nominal=True, optimizer="sgd")
    assert (tmp_path / "d" / "checkpoint.odt").stat().st_size < 3000
    with odt.Trainer.from_artifacts(tmp_path / "d") as t:
        with pytest.raises(odt.ModelError, match="but is nominal"):
            t.fit(X, Y)
        t.state.copy_buffer_to_parameters(np.full(t.state.parameters_size(), 0.5, np.float32))
        t.fit(X, Y)


def test_the_device_goes_on_from_its_own_checkpoint(device: Path, tmp_path: Path) -> None:
    with odt.Trainer.from_artifacts(device) as t:
        t.fit(X, Y, epochs=1)
        t.save_checkpoint(tmp_path / "mine.odt")
        weights = t.state.get_contiguous_parameters()
    with odt.Trainer.from_artifacts(device, checkpoint=tmp_path / "mine.odt") as t:
        assert np.array_equal(t.state.get_contiguous_parameters(), weights)
        assert len(t.fit(X, Y, epochs=2).history["loss"]) == 1


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def sign(device: Path) -> None:
    """Writes the SHA-256 of the present files into the manifest."""
    edit(
        device / "artifacts.json",
        lambda c: c.update(files={name: sha256(str(device / name)) for name in c["files"]}),
    )


@pytest.mark.parametrize("name", FILES)
def test_a_changed_file_is_named(name: str, device: Path) -> None:
    data = bytearray((device / name).read_bytes())
    data[len(data) // 2] ^= 1
    (device / name).write_bytes(data)
    with pytest.raises(odt.ModelError, match=f"{name}: must be the file that was validated, with"):
        odt.Trainer.from_artifacts(device)


@pytest.mark.parametrize(
    "name", ["model.circle", "checkpoint.odt", "recipe.toml", "artifacts.json"]
)
def test_a_missing_file_is_named(name: str, device: Path) -> None:
    (device / name).unlink()
    with pytest.raises(
        odt.ModelError, match=f"{name}: must be .*, but was not found|{name}: not found"
    ):
        odt.Trainer.from_artifacts(device)


def test_a_newer_format_is_named(device: Path) -> None:
    edit(device / "artifacts.json", lambda c: c.update(version=2))
    with pytest.raises(odt.ModelError, match=r"at most 1, but got 2\. Update odt"):
        odt.Trainer.from_artifacts(device)


def test_other_first_losses_are_named(device: Path) -> None:
    edit(device / "artifacts.json", lambda c: c["expected"]["losses"].__setitem__(1, 0.5))
    with pytest.raises(odt.ModelError, match=r"first losses must be .* instead of 0\.5 in step 2"):
        odt.Trainer.from_artifacts(device)
    odt.Trainer.from_artifacts(device, check=False).close()


def test_changed_weights_with_a_new_checksum_have_other_losses(device: Path) -> None:
    state = odt.CheckpointState.load(device / "checkpoint.odt")
    for name in state.parameters:
        state.parameters[name] = state.parameters[name] * 2
    state.save(device / "checkpoint.odt")
    sign(device)
    with pytest.raises(odt.ModelError, match="the first losses must be those of the workstation"):
        odt.Trainer.from_artifacts(device)


def test_a_checkpoint_of_another_model_is_named(
    device: Path, models: dict[str, Path], tmp_path: Path
) -> None:
    other = build(tmp_path / "other.circle", "circle", units=7)
    with odt.Trainer(other, trainable=odt.last(2)) as t:
        t.save_checkpoint(tmp_path / "other.odt")
    with pytest.raises(odt.ModelError, match=r"other\.odt: must be of this model and optimizer"):
        odt.Trainer.from_artifacts(device, checkpoint=tmp_path / "other.odt")
    shutil.copy(tmp_path / "other.odt", device / "checkpoint.odt")
    sign(device)
    with pytest.raises(odt.ModelError, match=r"checkpoint\.odt: must be of this model"):
        odt.Trainer.from_artifacts(device)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ('color = "red"', "keys must be .*, but got color"),
        ("workers = -1", "workers: must be as odt writes it"),
        ("workers", "must be a recipe in TOML"),
        ("metric = [1]", "metric: must be as odt writes it"),
        ('metric = "beauty"', "metric"),
    ],
)
def test_a_recipe_of_another_kind_is_refused(text: str, rule: str, device: Path) -> None:
    (device / "recipe.toml").write_text(text, encoding="utf-8")
    sign(device)
    with pytest.raises(odt.OdtError, match=rule):
        odt.Trainer.from_artifacts(device)


def test_what_artifacts_cannot_hold_is_refused(models: dict[str, Path], tmp_path: Path) -> None:
    class Own(odt.Schedule):
        def __call__(self, step: int) -> float:
            return 0.1

    model = models["circle"]
    for options, rule in (
        ({"teacher": model}, "must be left out of artifacts"),
        ({"frozen_int8": X}, "must be left out of artifacts"),
        ({"learning_rate": Own()}, "must be one of odt's in artifacts"),
        ({"loss": (lambda t, y: y, lambda t, y: y)}, "must be one of odt's in artifacts"),
        ({"trainable": []}, "must name a weight, but got an empty list"),
        ({"y": Y}, "must be given with `y=`, but got targets alone"),
        ({"steps": 0}, "must be a whole number of at least 1"),
        ({"steps": 101}, "must be at most 100"),
        ({"memory_budget": 1000}, "memory_budget"),
    ):
        with pytest.raises(odt.OptionError, match=rule):
            odt.generate_artifacts(model, tmp_path / "d", **options)
    assert not (tmp_path / "d").exists()
    assert not list(tmp_path.iterdir())


def test_a_folder_with_other_files_is_refused(made: Path, models: dict[str, Path]) -> None:
    def content() -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in made.iterdir()}

    (made / "notes.txt").write_text("mine", encoding="utf-8")
    before = content()
    with pytest.raises(odt.OptionError, match=r"new folder, or one of artifacts.*notes\.txt"):
        odt.generate_artifacts(models["circle"], made)
    assert content() == before
    (made / "notes.txt").unlink()
    with pytest.raises(odt.OptionError, match="new folder, or one of artifacts alone"):
        odt.generate_artifacts(models["circle"], models["circle"].parent)


def test_a_failed_run_leaves_the_old_folder(
    made: Path, models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {p.name: p.read_bytes() for p in made.iterdir()}

    def fail(*args: Any) -> None:
        raise odt.ModelError("full disk")

    monkeypatch.setattr(own_format, "encode", fail)
    with pytest.raises(odt.ModelError, match="full disk"):
        odt.generate_artifacts(models["circle"], made)
    assert {p.name: p.read_bytes() for p in made.iterdir()} == before
    assert [p.name for p in made.parent.iterdir()] == [made.name]


def test_a_killed_run_leaves_the_old_folder_or_none(tmp_path: Path) -> None:
    """The process ends without notice with half of the files written."""
    script = (
        "import os, signal, sys\n"
        "from odt.core.storage.atomic_folders import AtomicFolder\n"
        "with AtomicFolder(sys.argv[1]) as folder:\n"
        "    open(os.path.join(folder.temporary, 'half'), 'w').close()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    for target in (tmp_path / "new", tmp_path / "old"):
        if target.name == "old":
            with AtomicFolder(target) as folder:
                Path(folder.temporary, "whole").write_text("1", encoding="utf-8")
        done = subprocess.run([sys.executable, "-c", script, str(target)], check=False)
        assert done.returncode == -signal.SIGKILL
    assert [p.name for p in (tmp_path / "old").iterdir()] == ["whole"]
    assert not (tmp_path / "new").exists()
    assert len(list(tmp_path.iterdir())) == 2  # what is left of one of them
    with AtomicFolder(tmp_path / "old") as folder:
        Path(folder.temporary, "next").write_text("2", encoding="utf-8")
        beside = os.listdir(tmp_path)
        assert len(beside) == 2, "the killed run's folder is removed, and that of this run stays"
    assert [p.name for p in (tmp_path / "old").iterdir()] == ["next"]
    assert os.listdir(tmp_path) == ["old"]


def test_the_device_needs_only_the_base_packages(made: Path, tmp_path: Path) -> None:
    script = (
        "import sys\n"
        f"sys.path.insert(0, {str(Path(base_packages.__file__).parent)!r})\n"
        "from base_packages import OnlyBase\n"
        "sys.meta_path.insert(0, OnlyBase())\n"
        "import numpy as np, odt\n"
        "with odt.Trainer.from_artifacts(sys.argv[1]) as t:\n"
        "    t.fit(np.zeros((8, 6), 'f4'), np.eye(3, dtype='f4')[np.arange(8) % 3])\n"
        "    t.state.save(sys.argv[2] + '/s.odt')\n"
        "    t.export(sys.argv[2] + '/new.circle')\n"
        "odt.generate_artifacts(sys.argv[2] + '/new.circle', sys.argv[2] + '/again')\n"
    )
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, str(made), str(tmp_path)], check=True
    )
    assert (tmp_path / "again" / "artifacts.json").exists()
