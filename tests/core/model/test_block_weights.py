"""Weights in blocks of GGML: their real numbers, training around them, export."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.block_files import FORMATS, BlockBuilder, dense_file, language_model
from support.paths import TESTS

import odt
from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.core.planning import mapped_weights
from odt.core.planning.computation import Computation, Plans
from odt.core.planning.stored_weights import (
    DECODE,
    SELECT_ROWS,
    STORED_DENSE,
    StoredAttrs,
)
from odt.core.recipe.lowered_model import lower_model
from odt.errors import ModelError, UnsupportedError
from odt.kernels.geometry.block_formats import BLOCK_FORMATS
from odt.kernels.geometry.decoders import decoded
from odt.kernels.native.library import compiled_of, is_available
from odt.kernels.native.stored_weights import decode, decode_rows
from odt.kernels.rows.opdef import Array, TensorSpec

WORDS = 96
SPARSE = "sparse_categorical_crossentropy"


def assert_same_bits(a: Array, b: Array) -> None:
    np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))


def sequences(count: int = 40) -> tuple[Array, Array]:
    """Random sequences, in which each word follows from the one before."""
    first = np.random.default_rng(0).integers(0, WORDS, (count, 1))
    ids = (first * 5 ** np.arange(9)) % WORDS
    return ids[:, :8].astype(np.int32), ids[:, 1:].astype(np.int32)


@pytest.mark.parametrize("kind", FORMATS)
def test_values_are_those_of_the_gguf_package(kind: str) -> None:
    """Also of scales that are 0, −0, subnormal or the largest: recorded from gguf 0.19.0."""
    with np.load(TESTS / "golden" / "gguf" / "blocks.npz") as file:
        data, values = file[kind], file[f"{kind}/values"]
    block = BLOCK_FORMATS[kind]
    assert_same_bits(decoded(block, data, values.shape), values)
    at = np.array([5, 0, 5, 2])
    out = np.full((4, 64), np.nan, np.float32)
    block.decode_rows(data, at, out)
    assert_same_bits(out, values[at])
    if is_available():
        attrs = StoredAttrs(block, values.shape, "")
        specs = {"x": TensorSpec(data.shape, data.dtype), "y": TensorSpec(values.shape, out.dtype)}
        assert compiled_of(DECODE, attrs, specs)
        y = np.full(values.shape, np.nan, np.float32)
        decode(attrs, x=data, y=y)()
        assert_same_bits(y, values)
        out.fill(np.nan)
        decode_rows(attrs, x=data, at=at, y=out)()
        assert_same_bits(out, values[at])


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("rows", [1, 5, 48])
def test_a_dense_layer_computes_the_real_numbers(kind: str, rows: int, tmp_path: Path) -> None:
    w, bias = dense_file(tmp_path / "m.circle", kind)
    x = np.random.default_rng(0).normal(size=(rows, 64)).astype(np.float32)
    y = odt.predict(tmp_path / "m.circle", x)
    np.testing.assert_allclose(y, x @ w.T + bias, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", FORMATS)
def test_no_plan_holds_real_numbers_beyond_a_call(kind: str, tmp_path: Path) -> None:
    """Tables are decoded row by row, other weights in each reader, or before it."""
    language_model(tmp_path / "m.circle", kind)
    lowered = lower_model(read_model(tmp_path / "m.circle"))
    plan, _ = Plans(lowered.graphs).at(Computation(outputs=True), 2)
    calls = [entry for entry in plan.entries if hasattr(entry, "kernel")]
    assert [c.kernel is SELECT_ROWS for c in calls].count(True) == 1
    reads = STORED_DENSE if is_available() else DECODE
    assert [c.kernel is reads for c in calls].count(True) == 3
    in_blocks = {i: t for i, t in enumerate(lowered.graph.tensors) if t.is_in_blocks}
    assert len(in_blocks) == 3
    for i, tensor in in_blocks.items():
        assert plan.values[f"t{i}"].spec.dtype == np.uint8
        assert tensor.data is not None
        assert not tensor.data.flags.owndata


def test_pages_of_weights_are_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training computes the same, with pages of no more weights in use than the forecast has."""
    path, adapters = tmp_path / "m.circle", tmp_path / "a.npz"
    language_model(path, "GGML_Q4_1")
    odt.lora(odt.load_model(path), 2, seed=1).save_adapters(adapters)
    loss, outputs = trained(path, adapters, tmp_path / "usual.npz")
    plan = Plans(lower_model(read_model(path)).graphs).plan(Computation(outputs=True), 2)
    sizes = mapped_weights.mapped_weights(plan)
    assert not mapped_weights.releases(plan, sizes)
    assert mapped_weights.nbytes_in_use(plan, sizes) == sum(sizes.values()) == (96 + 128 + 128) * 40
    monkeypatch.setattr(mapped_weights, "IN_USE", 10_000)
    assert len(mapped_weights.releases(plan, sizes)) == 2  # at first, and before the second layer
    assert mapped_weights.nbytes_in_use(plan, sizes) == (96 + 128) * 40
    found, found_outputs = trained(path, adapters, tmp_path / "released.npz")
    assert found == loss
    assert_same_bits(found_outputs, outputs)


def trained(path: Path, adapters: Path, out: Path) -> tuple[float, Array]:
    """Trains adapters of a language model: the last loss, and predictions."""
    x, y = sequences()
    with odt.Trainer(
        odt.load_model(path, adapters), loss=SPARSE, batch_size=8, learning_rate=0.01
    ) as trainer:
        result = trainer.fit(x, y, epochs=3, seed=1)
        trainer.export_adapters(out)
        return result.history["loss"][-1], trainer.predict(x[:3])


@pytest.mark.parametrize("kind", FORMATS)
def test_adapters_train_as_on_the_same_weights_as_floats(kind: str, tmp_path: Path) -> None:
    path, plain = tmp_path / "m.circle", tmp_path / "float.circle"
    language_model(path, kind)
    with odt.Trainer(path, loss=SPARSE) as trainer:
        trainer.export(plain, float_weights=True)
    results = []
    for file in (path, plain):
        adapters = tmp_path / f"{file.stem}.npz"
        odt.lora(odt.load_model(file), 4, seed=1).save_adapters(adapters)
        results.append(trained(file, adapters, tmp_path / f"{file.stem}-trained.npz"))
    (loss, outputs), (plain_loss, plain_outputs) = results
    assert loss == pytest.approx(plain_loss, rel=1e-6)
    np.testing.assert_allclose(outputs, plain_outputs, rtol=1e-4, atol=1e-4)
    x, _ = sequences()
    adapted = odt.load_model(path, tmp_path / "m-trained.npz")
    np.testing.assert_allclose(odt.predict(adapted, x[:3]), outputs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", FORMATS)
def test_an_export_keeps_blocks_bit_for_bit(kind: str, tmp_path: Path) -> None:
    path, out = tmp_path / "m.circle", tmp_path / "out.circle"
    language_model(path, kind)
    x, y = sequences()
    with odt.Trainer(path, loss=SPARSE, batch_size=8, learning_rate=0.01) as trainer:
        before = trainer.evaluate(x, y)["loss"]
        trainer.fit(x, y, epochs=3, seed=1)
        assert trainer.evaluate(x, y)["loss"] < before
        trainer.export(out)
        np.testing.assert_allclose(odt.predict(out, x[:3]), trainer.predict(x[:3]), rtol=1e-5)
    old, new = read_model(path).graph.tensors, read_model(out).graph.tensors
    changed = [
        a.name
        for a, b in zip(old, new, strict=True)
        if a.data is not None and b.data is not None and a.data.tobytes() != b.data.tobytes()
    ]
    assert changed == ["norm"]
    assert out.stat().st_size == path.stat().st_size


def test_to_train_blocks_is_refused(tmp_path: Path) -> None:
    language_model(tmp_path / "m.circle", "GGML_Q4_0")
    with pytest.raises(UnsupportedError, match=r'node 2 \(FULLY_CONNECTED\), tensor 5 \("fc0"\)'):
        odt.Trainer(
            tmp_path / "m.circle", loss=SPARSE, trainable=odt.Trainable(patterns=["fc*"])
        ).session.allocate()


def test_adapters_are_not_merged_into_blocks(tmp_path: Path) -> None:
    path = tmp_path / "m.circle"
    language_model(path, "GGML_Q4_1")
    adapted = odt.lora(odt.load_model(path), 2)
    with pytest.raises(UnsupportedError, match="must stay in a file of their own"):
        adapted.save(tmp_path / "out.circle")
    assert not (tmp_path / "out.circle").exists()


def test_commands_take_files_of_blocks(tmp_path: Path) -> None:
    path = tmp_path / "m.circle"
    language_model(path, "GGML_Q8_0")
    x, y = sequences()
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    data = ("--load-input", tmp_path / "x.npy")
    target = ("--load-expected", tmp_path / "y.npy", "--loss", "sparse-categorical-crossentropy")
    adapters = tmp_path / "a.npz"

    def run(*words: object) -> str:
        result = CliRunner().invoke(main, [str(word) for word in words])
        assert result.exit_code == 0, result.output
        return result.output

    assert "in blocks of GGML_Q8_0" in run("inspect", path)
    run("check", path, "--loss", "sparse-categorical-crossentropy")
    run("plan", path, "--loss", "sparse-categorical-crossentropy")
    run("lora", path, "--rank", 2, "-o", adapters)
    run("train", path, "--adapters", adapters, *data, *target, "--export-adapters", adapters)
    run("train", path, "--adapters", adapters, *data, *target, "--run-dir", tmp_path / "run")
    assert (tmp_path / "run" / "adapters.npz").exists()
    run("eval", path, "--adapters", adapters, *data, *target)
    run("predict", path, *data, "--output", tmp_path / "p.npy")
    run("verify", path, path, *data)


def test_damaged_blocks_are_named(tmp_path: Path) -> None:
    b = BlockBuilder()
    x = b.add_input((1, 48))
    w = b.add_blocks("GGML_Q4_0", (4, 96), "w")
    b.graph.tensors[w].shape = [4, 48]
    b.write(tmp_path / "a.circle", b.add_operator("FULLY_CONNECTED", (x, w, -1), (1, 4)))
    with pytest.raises(ModelError, match=r"must be a multiple of 32, but got \(4, 48\)"):
        odt.predict(tmp_path / "a.circle", np.zeros((1, 48), np.float32))
    b.graph.tensors[w].shape = [4, 64]
    b.graph.tensors[x].shape = [1, 64]
    b.write(tmp_path / "b.circle", 2)
    with pytest.raises(ModelError, match="its GGML_Q4_0 blocks need 144 bytes, but got 216"):
        odt.predict(tmp_path / "b.circle", np.zeros((1, 64), np.float32))


def test_an_index_outside_a_table_is_named(tmp_path: Path) -> None:
    language_model(tmp_path / "m.circle", "GGML_Q4_0")
    with pytest.raises(odt.DataError, match=f"GATHER: indices of axis 0 must be 0 … {WORDS - 1}"):
        odt.predict(tmp_path / "m.circle", np.full((1, 8), WORDS, np.int32))
