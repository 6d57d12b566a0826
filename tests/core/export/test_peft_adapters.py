"""Adapters in the files of PEFT, which this test reads and writes by hand."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from model_builder import ModelBuilder

import odt
from odt.cli.main import main
from odt.core.storage.atomic_files import AtomicFile
from odt.errors import DataError, ModelError
from odt.kernels.rows.opdef import Array

RNG = np.random.default_rng(7)
PREFIX = "base_model.model."
ARRAYS = "adapter_model.safetensors"
CONFIG = {"peft_type": "LORA", "r": 2, "lora_alpha": 6}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Weights `net.fc.weight` (4, 6) and `conv/w` (5, 1, 1, 4), and two of one name."""
    builder = ModelBuilder("tflite", seed=1)
    y = builder.add_input((1, 6))
    w = builder.add_weight((4, 6), 6, "net.fc.weight")
    y = builder.add_operator("FULLY_CONNECTED", (y, w, -1), (1, 4))
    y = builder.add_operator("RESHAPE", (y, builder.add_constant([-1, 1, 1, 4])), (1, 1, 1, 4))
    w, b = builder.add_weight((5, 1, 1, 4), 4, "conv/w"), builder.add_constant(np.zeros(5, "f4"))
    y = builder.add_operator("CONV_2D", (y, w, b), (1, 1, 1, 5), stride_w=1, stride_h=1, padding=0)
    y = builder.add_operator("RESHAPE", (y, builder.add_constant([-1, 5])), (1, 5))
    for _ in range(2):
        w = builder.add_weight((5, 5), 5, "twice")
        y = builder.add_operator("FULLY_CONNECTED", (y, w, -1), (1, 5))
    builder.write(tmp_path / "m.tflite", y)
    return tmp_path / "m.tflite"


def read(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Reads a file of float32 arrays; returns its header and them."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    arrays = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = (8 + length + n for n in entry["data_offsets"])
            assert entry["dtype"] == "F32"
            arrays[name] = np.frombuffer(data[begin:end], "<f4").reshape(entry["shape"])
    return header, arrays


def write(folder: Path, arrays: dict[str, tuple[str, Array]], **config: Any) -> Path:
    """Writes adapters as PEFT does; an array is its dtype and the stored numbers."""
    header, data = {}, b""
    for name, (dtype, values) in arrays.items():
        offsets = [len(data), len(data) + values.nbytes]
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": offsets}
        data += values.tobytes()
    write_bytes(folder, json.dumps(header).encode(), data)
    (folder / "adapter_config.json").write_text(json.dumps(CONFIG | config))
    return folder


def write_bytes(folder: Path, header: bytes, data: bytes, length: int | None = None) -> None:
    folder.mkdir(exist_ok=True)
    size = len(header) if length is None else length
    (folder / ARRAYS).write_bytes(struct.pack("<Q", size) + header + data)
    (folder / "adapter_config.json").write_text(json.dumps(CONFIG))


def pair(module: str, a: Array, b: Array, dtype: str = "F32") -> dict[str, tuple[str, Array]]:
    return {
        f"{PREFIX}{module}.lora_A.weight": (dtype, a),
        f"{PREFIX}{module}.lora_B.weight": (dtype, b),
    }


def matrices(units: int, width: int) -> tuple[Array, Array]:
    """Returns A and B of rank 2 whose values bfloat16 holds."""
    a, b = RNG.integers(-8, 9, (2, width)) / 8, RNG.integers(-8, 9, (units, 2)) / 8
    return a.astype("f4"), b.astype("f4")


def change(path: Path, adapters: Path, name: str) -> Array:
    """Returns what merged adapters add to a weight."""
    base, adapted = odt.load_model(path), odt.load_model(path, adapters)
    adapted.save(path.with_name("merged.tflite"))
    merged = odt.load_model(path.with_name("merged.tflite"))
    return np.asarray(merged.parameters[name] - base.parameters[name])


def test_the_files_have_peft_s_names_and_shapes(model: Path, tmp_path: Path) -> None:
    adapted = odt.lora(model, 3, alpha=4.5)
    adapted.save_adapters(tmp_path / ARRAYS)
    header, arrays = read(tmp_path / ARRAYS)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["peft_type"]) == (3, 4.5, "LORA")
    modules = config["target_modules"]
    assert modules[:2] == ["net.fc", "conv/w"]
    assert len(set(modules)) == 4  # weights of one name are numbered
    assert set(arrays) == {f"{PREFIX}{m}.lora_{k}.weight" for m in modules for k in "AB"}
    a = arrays[f"{PREFIX}net.fc.lora_A.weight"]
    assert np.array_equal(a, adapted.parameters["net.fc.weight/lora_a"])
    assert arrays[f"{PREFIX}net.fc.lora_B.weight"].shape == (4, 3)
    assert arrays[f"{PREFIX}conv/w.lora_A.weight"].shape == (3, 4, 1, 1)
    assert arrays[f"{PREFIX}conv/w.lora_B.weight"].shape == (5, 3, 1, 1)
    assert header["__metadata__"]["format"] == "pt"  # as transformers requires
    begin = 8 + struct.unpack("<Q", (tmp_path / ARRAYS).read_bytes()[:8])[0]
    assert begin % 8 == 0


def test_both_files_hold_the_same_adapters(model: Path, tmp_path: Path) -> None:
    x, y = (RNG.normal(size=(8, n)).astype(np.float32) for n in (6, 5))
    (tmp_path / "peft").mkdir()
    with odt.Trainer(odt.lora(model, 2, alpha=3), loss="mse", batch_size=4) as trainer:
        trainer.fit(x, y, epochs=2)
        trainer.export_adapters(tmp_path / "a.npz")
        trainer.export_adapters(tmp_path / "peft" / ARRAYS)
        ours = trainer.predict(x)
    for path in (tmp_path / "a.npz", tmp_path / "peft", tmp_path / "peft" / ARRAYS):
        assert np.array_equal(odt.predict(odt.load_model(model, path), x), ours)
    again = odt.load_model(model, tmp_path / "peft")
    again.save_adapters(tmp_path / "b.npz")
    assert (tmp_path / "b.npz").read_bytes() == (tmp_path / "a.npz").read_bytes()


def test_adapters_of_another_model_are_refused(model: Path, tmp_path: Path) -> None:
    odt.lora(model, 2).save_adapters(tmp_path / ARRAYS)
    with odt.Trainer(model, loss="mse", batch_size=8) as trainer:
        trainer.fit(*(RNG.normal(size=(8, n)).astype(np.float32) for n in (6, 5)))
        trainer.export(tmp_path / "other.tflite")
    with pytest.raises(ModelError, match="with the model for which they were made"):
        odt.load_model(tmp_path / "other.tflite", tmp_path / ARRAYS)


@pytest.mark.parametrize(
    ("dtype", "stored"),
    [
        ("F32", lambda a: a),
        ("F64", lambda a: a.astype("f8")),
        ("F16", lambda a: a.astype("f2")),
        ("BF16", lambda a: (a.view("u4") >> 16).astype("u2")),
    ],
)
def test_adapters_of_peft_are_added_to_the_weight(
    dtype: str, stored: Callable[[Array], Array], model: Path, tmp_path: Path
) -> None:
    a, b = matrices(4, 6)
    folder = write(tmp_path / "peft", pair("net.fc", stored(a), stored(b), dtype))
    added = change(model, folder, "net.fc.weight")
    np.testing.assert_allclose(added, 6 / 2 * b.astype("f8") @ a, atol=1e-6)


def test_scales_and_filters_are_those_of_peft(model: Path, tmp_path: Path) -> None:
    a, b = matrices(5, 4)
    arrays = pair("conv/w", a[..., None, None], b[..., None, None])
    folder = write(tmp_path / "peft", arrays, use_rslora=True, lora_alpha=5)
    added = change(model, folder, "conv/w")
    np.testing.assert_allclose(added[:, 0, 0], 5 / np.sqrt(2) * b.astype("f8") @ a, atol=1e-6)


def test_adapters_that_do_not_fit_are_refused(model: Path, tmp_path: Path) -> None:
    a, b = matrices(4, 6)
    good = pair("net.fc", a, b)
    cases: list[tuple[dict[str, tuple[str, Array]], dict[str, Any], str]] = [
        (pair("fc", a, b), {}, "got fc. Its weights are net.fc, conv/w, tensor_"),
        (
            pair("net.fc", a[:, :5], b),
            {},
            r"A of net.fc must have shape \(2, 6\), .* but got \(2, 5\)",
        ),
        (good, {"r": 4}, r"A of net.fc of shape \(2, 6\), and r 4"),
        (good, {"lora_alpha": -1}, "r 2, lora_alpha -1"),
        (good, {"lora_alpha": 1e300}, r"r 2, lora_alpha 1e\+300"),  # no number of float32
        (good, {"r": True}, "r True"),
        (good, {"peft_type": "IA3"}, "peft_type IA3"),
        (good, {"use_dora": True, "bias": "all"}, "got use_dora, bias"),
        (good, {"init_lora_weights": "pissa_niter_4"}, "got init_lora_weights pissa_niter_4"),
        (good, {"init_lora_weights": "OLoRA"}, "which changed them. Convert the adapters in PEFT"),
        (
            {**good, "base_model.model.head.weight": ("F32", a)},
            {},
            "an array base_model.model.head",
        ),
        (dict([*good.items()][:1]), {}, "only one of A and B of net.fc"),
        (pair("net.fc", a, b * np.float32("nan")), {}, "numbers that are not finite"),
        (pair("net.fc", a.astype("f8") * 1e39, b.astype("f8"), "F64"), {}, "not finite as float32"),
        (pair("net.fc", a.astype("i4"), b, "I32"), {}, "of dtype I32, not F64, F32, F16, BF16"),
        ({}, {}, "no array"),
    ]
    for arrays, config, message in cases:
        folder = write(tmp_path / "peft", arrays, **config)
        with pytest.raises(DataError, match=message) as error:
            odt.load_model(model, folder)
        assert "\n" not in str(error.value)
    (folder / "adapter_config.json").unlink()
    with pytest.raises(DataError, match="must be the file that PEFT writes beside adapters, but"):
        odt.load_model(model, folder)


def test_hostile_headers_are_refused(model: Path, tmp_path: Path) -> None:
    a, b = matrices(4, 6)
    write(tmp_path / "peft", pair("net.fc", a, b))
    file = tmp_path / "peft" / ARRAYS
    data = file.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    name_a, name_b = json.loads(data[8 : 8 + length])

    def entry(shape: Any, offsets: Any, dtype: Any = "F32") -> dict[str, Any]:
        return {"dtype": dtype, "shape": shape, "data_offsets": offsets}

    good = {name_a: entry([2, 6], [0, 48]), name_b: entry([4, 2], [48, 80])}
    headers = [
        b"",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b"[]",
        b'{"a":1}',
        b'{"__metadata__":{"format":1}}',
        json.dumps(good).encode()[:-1] + b', "' + name_a.encode() + b'":{}}',
        *(
            json.dumps({**good, **changes}).encode()
            for changes in (
                {name_a: entry([2, 6], [0, 47])},
                {name_a: entry([2, 6], [48, 0])},
                {name_a: entry([2, 6], [32, 80])},
                {name_a: entry([2, 6], [-48, 0])},
                {name_a: entry([2, 6], [0.0, 48.0])},
                {name_a: entry([2, 6], [0, 48, 96])},
                {name_a: entry([2, 6], {"0": 48})},
                {name_a: entry([-2, -6], [0, 48])},
                {name_a: entry([True, 12], [0, 48])},
                {name_a: entry([2**62, 2**62], [0, 2**126])},
                {name_a: entry([12] + [1] * 65, [0, 48])},
                {name_a: entry("ab", [0, 48])},
                {name_a: entry([2, 6], [0, 48], ["F32"])},
                {name_a: {"shape": [2, 6], "data_offsets": [0, 48]}},
                {name_b: entry([4, 2], [49, 81])},
                {name_b: entry([4, 1], [48, 64])},
                {"": entry([0], [80, 80])},
                {"\ud800\n" * 1000: entry([0], [80, 80])},
            )
        ),
    ]
    lengths = (0, 1, length - 1, len(data), 2**24 + 1, 2**63, 2**64 - 1)
    files = [struct.pack("<Q", len(header)) + header + data[8 + length :] for header in headers]
    files += [struct.pack("<Q", n) + data[8:] for n in lengths]
    files += [data[:n] for n in (0, 7, 8, 100, len(data) - 1)] + [data + b"\0"]
    for content in files:
        file.write_bytes(content)
        with pytest.raises(DataError, match="must be adapters of PEFT in safetensors") as error:
            odt.load_model(model, file)
        assert len(str(error.value).splitlines()) == 1
        assert len(str(error.value)) < 1000
    with file.open("wb") as big:  # a header as long as its file, which holds nothing on the disk
        big.write(struct.pack("<Q", 2**40 - 8))
        big.truncate(2**40)
    with pytest.raises(DataError, match="a header of 1099511627768 bytes, above"):
        odt.load_model(model, file)


def test_adapters_for_which_there_is_no_room_change_neither_file(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / name for name in (ARRAYS, "adapter_config.json")]
    for path in files:
        path.write_bytes(b"former")
    flush = AtomicFile.flush

    def full(file: AtomicFile) -> str:
        if str(file.path).endswith(ARRAYS):
            raise DataError("no space left")
        return flush(file)

    monkeypatch.setattr(AtomicFile, "flush", full)
    with pytest.raises(DataError, match="no space"):
        odt.lora(model, 3).save_adapters(tmp_path / ARRAYS)
    assert [path.read_bytes() for path in files] == [b"former"] * 2


def test_other_file_names_are_refused_before_training(model: Path, tmp_path: Path) -> None:
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, np.zeros((4, 6), "f4"))
    np.save(y, np.zeros((4, 5), "f4"))
    out, bad = tmp_path / ARRAYS, tmp_path / "mine.safetensors"
    data = ("--load-input", x, "--load-expected", y)
    train = ("train", model, "--adapters", out, *data, "--loss", "mse", "--epochs", 1)

    def run(*words: object) -> tuple[int, str]:
        result = CliRunner().invoke(main, [str(word) for word in words])
        return result.exit_code, result.output

    assert run("lora", model, "--rank", 2, "-o", out)[0] == 0
    for command in (("lora", model, "--rank", 2, "-o", bad), (*train, "--export-adapters", bad)):
        code, text = run(*command)
        assert code == 1
        assert f"Give {tmp_path / 'mine' / ARRAYS}" in text
        assert "Epoch" not in text
    assert run(*train, "--export-adapters", out)[0] == 0  # replaces what it has read
    assert run("lora", model, "--merge", tmp_path, "-o", tmp_path / "merged.tflite")[0] == 0
