"""odt checkpoint: what is converted is what was there."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.paths import GOLDEN, MLP_SM

from odt.cli.main import main
from odt.core.checkpoints.checkpoint import Checkpoint, Entry
from odt.core.checkpoints.files import decode_any, write_any
from odt.core.checkpoints.progress import Progress
from odt.core.checkpoints.resume import read_resume
from odt.errors import ModelError

MODEL = MLP_SM / "model.circle"
DATA = ["--load-input", str(MLP_SM / "input.bin"), "--load-expected", str(MLP_SM / "expected.bin")]


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def odt(*arguments: object) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: object) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one state of training in odt's format and in onert's."""
    folder = tmp_path_factory.mktemp("made")
    for name in ("c.odt", "c.ckpt"):
        odt("train", MODEL, *DATA, "--epochs", 1, "--export-checkpoint", folder / name)
    return folder


@pytest.mark.parametrize("name", ["c.npz", "c.h5", "c.hdf5"])
def test_converting_there_and_back_restores_the_file(name: str, made: Path, tmp_path: Path) -> None:
    odt("checkpoint", "convert", made / "c.odt", tmp_path / name)
    assert (tmp_path / name).read_bytes()[:8] != b"odt ckpt"
    odt("checkpoint", "convert", tmp_path / name, tmp_path / "again.odt")
    assert (tmp_path / "again.odt").read_bytes() == (made / "c.odt").read_bytes()


def test_npz_and_h5_hold_arrays_by_name(made: Path, tmp_path: Path) -> None:
    odt("checkpoint", "convert", made / "c.odt", tmp_path / "c.npz")
    odt("checkpoint", "convert", made / "c.odt", tmp_path / "c.h5")
    checkpoint = read_resume(made / "c.odt").checkpoint
    assert checkpoint is not None
    with np.load(tmp_path / "c.npz") as npz, h5py.File(tmp_path / "c.h5") as h5:
        for entry, a in zip(checkpoint.entries, checkpoint.arrays, strict=True):
            name = f"{entry.role}/{entry.tensor}"
            np.testing.assert_array_equal(npz[name], a)
            np.testing.assert_array_equal(h5[name][()], a)
        assert json.loads(str(npz["header"]))["progress"]["step"] == 3


def test_odt_s_becomes_onert_s(made: Path, tmp_path: Path) -> None:
    odt("checkpoint", "convert", made / "c.odt", tmp_path / "c.ckpt", "--model", MODEL)
    assert (tmp_path / "c.ckpt").read_bytes() == (made / "c.ckpt").read_bytes()


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("last", [-1, 2])
def test_an_onert_checkpoint_converted_to_odts_format_resumes(
    optimizer: str, last: int, tmp_path: Path
) -> None:
    rule = ("--optimizer", optimizer, "--num-of-trainable-ops", last, "--learning-rate", 0.001,
            "--no-shuffle")  # fmt: skip  # an onert checkpoint has no epochs
    through, half, own, rest = (
        tmp_path / name for name in ("through.circle", "half.ckpt", "half.odt", "rest.circle")
    )
    odt("train", MODEL, *DATA, *rule, "--epochs", 3, "--export-circle", through)
    odt("train", MODEL, *DATA, *rule, "--epochs", 1, "--export-checkpoint", half)
    odt("checkpoint", "convert", half, own, "--model", MODEL)
    if optimizer == "adam" or last == -1:
        result = invoke("train", MODEL, *DATA, "--checkpoint", own, "--epochs", 2,
                        "--export-circle", rest)  # fmt: skip
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        assert rest.read_bytes() == through.read_bytes()
    odt("checkpoint", "convert", own, tmp_path / "again.ckpt", "--model", MODEL)
    assert (tmp_path / "again.ckpt").read_bytes() == half.read_bytes()


def test_what_is_shown(made: Path) -> None:
    shown = odt("checkpoint", "show", made / "c.odt")
    for line in ("format: odt", "optimizer: adam", "  learning_rate = 0.001", "  step = 3"):
        assert f"{line}\n" in shown
    assert "  fc1_w  weight  float32 [128, 784]\n" in shown
    shown = odt("checkpoint", "show", made / "c.ckpt")
    assert "format: onert\noptimizer: adam\n  step = 3\ntensors: 4\n" in shown
    assert "weight 401,408 bytes, m 401,408 bytes, v 401,408 bytes\n" in shown
    shown = odt("checkpoint", "show", made / "c.ckpt", "--model", MODEL)
    assert "  fc1_w  weight  float32 [128, 784]\n" in shown


@pytest.mark.parametrize("name", ["n.odt", "n.npz", "n.h5"])
def test_nominal_ones_have_names_and_shapes_only(name: str, made: Path, tmp_path: Path) -> None:
    odt("checkpoint", "convert", made / "c.odt", tmp_path / name, "--nominal")
    assert (tmp_path / name).stat().st_size < 10_000
    shown = odt("checkpoint", "show", tmp_path / name)
    assert "arrays: 12, names and shapes only\n" in shown
    assert "  fc1_w  weight  float32 [128, 784]\n" in shown
    words = refused("checkpoint", "convert", tmp_path / name, tmp_path / "c", "--model", MODEL)
    assert "must have a value, but the checkpoint is nominal" in words
    assert not (tmp_path / "c").exists()


def test_models_that_cannot_be_converted_are_an_error(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    convert = ("checkpoint", "convert")
    assert "--model: must be given" in refused(*convert, made / "c.odt", out)
    assert "--model: must be given" in refused(*convert, made / "c.ckpt", tmp_path / "out.odt")
    assert "--nominal: must go with" in refused(*convert, made / "c.odt", out, "--nominal")
    assert "not found" in refused(*convert, tmp_path / "none", out)
    assert list(tmp_path.iterdir()) == []


def test_another_model_gives_a_table(made: Path, tmp_path: Path) -> None:
    other = GOLDEN / "mnist" / "model.circle"
    convert = ("checkpoint", "convert", made / "c.odt", tmp_path / "out", "--model", other)
    assert "differences: " in refused(*convert)
    result = invoke("-v", *convert)
    assert result.exit_code == 1
    first, *table = result.stderr.splitlines()
    assert "must be of this model and optimizer, but got" in first
    assert len(table) == 1 + 20
    assert list(tmp_path.iterdir()) == []


def npz(change: Callable[[dict[str, np.ndarray]], object], data: bytes) -> bytes:
    with np.load(io.BytesIO(data)) as file:
        arrays = dict(file)
    change(arrays)
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **arrays)
    return out.getvalue()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: a.pop("header"), "must be a checkpoint as odt writes it"),
        (lambda a: a.update(header=np.array("{")), "its header must be"),
        (lambda a: a.pop("m/fc1_b"), "must be a checkpoint as odt writes it"),
        (lambda a: a.update({"m/fc1_b": np.zeros(3, "f4")}), "must be (128,) float32"),
        (lambda a: a.update({"m/fc1_b": np.zeros(128)}), "but got (128,) float64"),
    ],
)
def test_arrays_that_contradict_the_header_are_an_error(
    change: Callable[[dict[str, np.ndarray]], object], words: str, made: Path, tmp_path: Path
) -> None:
    odt("checkpoint", "convert", made / "c.odt", tmp_path / "c.npz")
    (tmp_path / "bad").write_bytes(npz(change, (tmp_path / "c.npz").read_bytes()))
    assert words in refused("checkpoint", "show", tmp_path / "bad")


@pytest.mark.parametrize("name", ["c.npz", "c.h5"])
def test_damaged_files_give_one_line(name: str, made: Path, tmp_path: Path) -> None:
    odt("checkpoint", "convert", made / "c.odt", tmp_path / name)
    data = (tmp_path / name).read_bytes()
    for size in (8, 100, 4096, len(data) // 2, len(data) - 1):
        with pytest.raises(ModelError) as e:
            decode_any(data[:size], "c")
        assert "\n" not in str(e.value)
    rng, told = np.random.default_rng(0), []
    for at in rng.integers(8, 4000, 100):
        broken = bytearray(data)
        broken[at] ^= 0xFF
        try:
            decode_any(bytes(broken), "c")
        except ModelError as problem:
            told.append(str(problem))
    assert len(told) > 10
    assert "\n" not in "".join(told)


def test_a_pickle_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    with zipfile.ZipFile(path, "w") as file, file.open("header.npy", "w") as f:
        np.save(f, np.array([{}], object), allow_pickle=True)
    assert "must be a checkpoint as odt writes it" in refused("checkpoint", "show", path)


@pytest.mark.parametrize("name", ["c.npz", "c.h5"])
def test_names_with_slashes_and_dots_are_names(name: str, tmp_path: Path) -> None:
    """A tensor may be called as another's folder would be."""
    names = ("a", "a/b", ".", "..", "ä b", "a%2Fb", "/", "")
    entries = tuple(Entry(n, "weight", (1,), "float32") for n in names)
    arrays = tuple(np.full(1, k, np.float32) for k in range(len(names)))
    found = Checkpoint("sgd", {"learning_rate": 0.1}, Progress(), entries, arrays)
    write_any(tmp_path / name, found, "c")
    again = decode_any((tmp_path / name).read_bytes(), "c")
    assert again.entries == entries
    assert [float(a[0]) for a in again.arrays] == [*range(len(names))]
