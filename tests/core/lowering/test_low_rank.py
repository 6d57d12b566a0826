"""Low-rank adapters: gradients, merging, files, and what training them takes."""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from model_builder import ModelBuilder
from support.judges import litert
from support.paths import MODELS

import odt
from odt.cli.main import main
from odt.core.export.adapter_file import read_adapters
from odt.core.formats.reader import read_model
from odt.core.lowering.low_rank import PAGES, adapt, adaptable, model_hash, new_adapters, whole_hash
from odt.core.recipe.lowered_model import lower_model
from odt.errors import DataError, ModelError, OptionError, UnsupportedError
from odt.kernels.rows.opdef import Array

RNG = np.random.default_rng(6)
RELU = 1


def samples(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def network(path: Path) -> odt.Model:
    """1×1 convolution with stride, two batched products and dense layers, with activations."""
    model = ModelBuilder("tflite", seed=1)
    x = model.add_input((1, 4, 4, 6))
    w, b = model.add_weight((8, 1, 1, 6), 6, "conv/w"), model.add_constant(samples(8), "conv/b")
    options = {"stride_w": 2, "stride_h": 2, "padding": 0, "fused_activation_function": RELU}
    y = model.add_operator("CONV_2D", (x, w, b), (1, 2, 2, 8), **options)  # type: ignore[arg-type]
    shape = model.add_constant([-1, 4, 8])
    y = model.add_operator("RESHAPE", (y, shape), (1, 4, 8))
    y = model.add_operator("BATCH_MATMUL", (y, model.add_weight((8, 5), 8, "mm/w")), (1, 4, 5))
    w = model.add_weight((1, 7, 5), 5, "mm2/w")
    y = model.add_operator("BATCH_MATMUL", (y, w), (1, 4, 7), adj_y=True)
    y = model.add_operator("RESHAPE", (y, model.add_constant([-1, 28])), (1, 28))
    y = model.add_dense(y, 9, fused_activation_function=RELU)
    y = model.add_operator("SOFTMAX", [model.add_dense(y, 3)], (1, 3), beta=1.0)
    model.write(path, y)
    return odt.load_model(path)


def with_b(trainer: odt.Trainer) -> None:
    """Sets every B to random values."""
    for name in trainer.weights:
        if name.endswith("lora_b"):
            trainer.weights[name] = samples(*trainer.weights[name].shape) * 0.3


def test_adapters_change_nothing_at_first(tmp_path: Path) -> None:
    base, x = network(tmp_path / "m.tflite"), samples(5, 4, 4, 6)
    with odt.Trainer(base) as plain, odt.Trainer(odt.lora(base, 2, alpha=5)) as adapted:
        assert np.array_equal(plain.predict(x), adapted.predict(x))
        assert len(adapted.weights) == 2 * 5
        assert all(name.endswith(("lora_a", "lora_b")) for name in adapted.weights)


def test_gradients_agree_with_finite_differences(tmp_path: Path) -> None:
    model = odt.lora(network(tmp_path / "m.tflite"), 2, alpha=3, seed=4)
    with odt.Trainer(model) as trainer:
        with_b(trainer)
        trainer.export_adapters(tmp_path / "a.npz")
    found = odt.check(odt.load_model(tmp_path / "m.tflite", adapters=tmp_path / "a.npz"))
    assert found, found.findings
    assert "10 tensors, each finite and not zero" in found.findings[1]
    assert "does not depend" not in found.findings[1]


def test_a_dense_layer_computes_the_formula(tmp_path: Path) -> None:
    model = ModelBuilder("circle", seed=2)
    y = model.add_dense(model.add_input((1, 6)), 4)
    model.write(tmp_path / "m.circle", y)
    x = samples(3, 6)
    with odt.Trainer(odt.lora(tmp_path / "m.circle", 2, alpha=7), loss="mse") as trainer:
        with_b(trainer)
        a, b = (trainer.weights[f"dense_0/w/lora_{k}"].astype(float) for k in "ab")
        w = odt.load_model(tmp_path / "m.circle").parameters["dense_0/w"]
        assert abs(a).max() <= 1 / np.sqrt(6)
        np.testing.assert_allclose(trainer.predict(x), x @ (w + 7 / 2 * b @ a).T, rtol=1e-5)


def test_a_weight_that_is_read_in_two_orientations_gets_no_adapter(tmp_path: Path) -> None:
    """No product B A is right for both layers; that of one would be merged into the weight."""
    model = ModelBuilder("tflite", seed=3)
    tied = model.add_weight((4, 4), 4, "tied")
    y = model.add_operator("BATCH_MATMUL", (model.add_input((1, 3, 4)), tied), (1, 3, 4))
    y = model.add_operator("BATCH_MATMUL", (y, tied), (1, 3, 4), adj_y=True)
    y = model.add_operator("BATCH_MATMUL", (y, model.add_weight((4, 4), 4, "last")), (1, 3, 4))
    model.write(tmp_path / "m.tflite", y)
    with odt.Trainer(odt.lora(tmp_path / "m.tflite", 2), loss="mse") as trainer:
        assert {*trainer.weights} == {"last/lora_a", "last/lora_b"}


def test_merged_weights_compute_what_adapters_do(tmp_path: Path) -> None:
    base, x = network(tmp_path / "m.tflite"), samples(20, 4, 4, 6)
    y = np.eye(3, dtype=np.float32)[np.arange(20) % 3]
    with odt.Trainer(odt.lora(base, 2), batch_size=8) as trainer:
        trainer.fit(x, y, epochs=3)
        ours = trainer.predict(x)
        trainer.export(tmp_path / "merged.tflite")
    np.testing.assert_allclose(litert(tmp_path / "merged.tflite", [x])[0], ours, atol=1e-5)
    before, after = ((tmp_path / f"{n}.tflite").read_bytes() for n in ("m", "merged"))
    assert len(before) == len(after)
    one, other = read_model(tmp_path / "m.tflite"), read_model(tmp_path / "merged.tflite")
    assert [n.op for n in one.graph.nodes] == [n.op for n in other.graph.nodes]
    kept, changed = bytearray(before), set()
    for i, tensor in enumerate(one.graph.tensors):
        offset, size = one.spans[tensor.buffer]
        if tensor.data is not None and before[offset : offset + size] != after[offset:][:size]:
            kept[offset : offset + size] = after[offset : offset + size]
            changed.add(one.graph.tensors[i].name)
    assert bytes(kept) == after
    assert changed == {"conv/w", "mm/w", "mm2/w", "dense_5/w", "dense_6/w"}


@pytest.mark.parametrize(
    ("chosen", "count"),
    [(odt.select("*/lora_*", "dense_6/*"), 2), (odt.Trainable(last=-1), 8)],
    ids=["patterns", "all"],
)
def test_other_weights_can_train_with_the_adapters(
    chosen: odt.Trainable, count: int, tmp_path: Path
) -> None:
    """α / r never trains."""
    base, x = network(tmp_path / "m.tflite"), samples(20, 4, 4, 6)
    y = np.eye(3, dtype=np.float32)[np.arange(20) % 3]
    with odt.Trainer(odt.lora(base, 2), trainable=chosen, batch_size=8) as trainer:
        others = {"dense_6/w", "dense_6/b"}
        assert len(trainer.weights) == 10 + count
        assert others < set(trainer.weights)
        trainer.fit(x, y, epochs=3)
        ours = trainer.predict(x)
        trainer.export(tmp_path / "merged.tflite")
    np.testing.assert_allclose(litert(tmp_path / "merged.tflite", [x])[0], ours, atol=1e-5)


def test_the_file_gives_the_adapters_back(tmp_path: Path) -> None:
    base, x = network(tmp_path / "m.tflite"), samples(4, 4, 4, 6)
    with odt.Trainer(odt.lora(base, 3, alpha=2, target="mm*", seed=1)) as trainer:
        assert len(trainer.weights) == 4
        with_b(trainer)
        trainer.export_adapters(tmp_path / "a.npz")
        ours = trainer.predict(x)
        trainer.export(tmp_path / "merged.tflite")
    again = odt.load_model(tmp_path / "m.tflite", adapters=tmp_path / "a.npz")
    with odt.Trainer(again) as trainer:
        assert np.array_equal(trainer.predict(x), ours)
    again.save(tmp_path / "saved.tflite")
    assert (tmp_path / "saved.tflite").read_bytes() == (tmp_path / "merged.tflite").read_bytes()
    again.save_adapters(tmp_path / "b.npz")
    assert (tmp_path / "b.npz").read_bytes() == (tmp_path / "a.npz").read_bytes()


def test_adapters_of_another_model_are_refused(tmp_path: Path) -> None:
    odt.lora(network(tmp_path / "m.tflite"), 2).save_adapters(tmp_path / "a.npz")
    with odt.Trainer(tmp_path / "m.tflite", batch_size=8) as trainer:
        trainer.export(tmp_path / "same.circle")
        trainer.fit(samples(8, 4, 4, 6), np.eye(3, dtype=np.float32)[np.arange(8) % 3])
        trainer.export(tmp_path / "other.tflite")
    with pytest.raises(ModelError, match="with the model for which they were made"):
        odt.load_model(tmp_path / "other.tflite", adapters=tmp_path / "a.npz")
    odt.load_model(tmp_path / "same.circle", adapters=tmp_path / "a.npz")


def test_a_hash_reads_a_few_pages_of_each_weight(tmp_path: Path) -> None:
    """Adapters with the hash of all values, which earlier files hold, are accepted too."""
    b = ModelBuilder("circle")
    w = b.add_constant(b.rng.normal(size=(64, 4096)).astype(np.float32), "w")
    b.write(
        tmp_path / "m.circle",
        b.add_operator("FULLY_CONNECTED", (b.add_input((1, 4096)), w, -1), (1, 64)),
    )
    graph = lower_model(read_model(tmp_path / "m.circle")).graph
    adapters = new_adapters(graph, 1)
    adapt(graph, replace(adapters, model=whole_hash(graph)))
    data = graph.tensors[w].data
    assert data is not None
    changed = 0
    for row in range(0, 64, 4):
        new = data.copy()
        new[row : row + 4] += 1
        tensors = list(graph.tensors)
        tensors[w] = tensors[w].with_values(new)
        other = replace(graph, tensors=tuple(tensors))
        changed += model_hash(other) != adapters.model
        with pytest.raises(ModelError, match="Give the original model file"):
            adapt(other, replace(adapters, model=whole_hash(graph)))
    assert changed == PAGES


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    odt.lora(network(tmp_path / "m.tflite"), 2).save_adapters(tmp_path / "a.npz")
    data = (tmp_path / "a.npz").read_bytes()
    path = tmp_path / "bad.npz"
    model = read_model(tmp_path / "m.tflite")
    graph = lower_model(model).graph
    for k in range(0, len(data), 97):
        path.write_bytes(data[:k] + bytes([data[k] ^ 0xFF]) + data[k + 1 :])
        with suppress(DataError, ModelError):
            adapt(graph, read_adapters(path, model, lambda: graph))
    arrays: dict[str, Any] = dict(np.load(tmp_path / "a.npz"))
    for name, value in (("0.a", arrays["0.a"][:1]), ("0.b", arrays["0.b"] * np.nan)):
        np.savez(path, **{**arrays, name: value})
        with pytest.raises(DataError, match="must be adapters written by odt"):
            read_adapters(path, model, lambda: graph)
    described = json.loads(arrays["adapters"].tobytes()) | {"alpha": -1}
    np.savez(path, **{**arrays, "adapters": np.frombuffer(json.dumps(described).encode(), "u1")})
    with pytest.raises(DataError, match="alpha -1"):
        read_adapters(path, model, lambda: graph)


def test_weights_that_others_read_get_no_adapter(tmp_path: Path) -> None:
    """A tied embedding; nor does a convolution of 3 × 3."""
    model = ModelBuilder("tflite", seed=3)
    ids = model.add_input((1, 4), dtype="int32")
    table = model.add_weight((9, 6), 6, "table")
    y = model.add_operator("GATHER", (table, ids), (1, 4, 6), axis=0)
    y = model.add_operator("RESHAPE", (y, model.add_constant([-1, 24])), (1, 24))
    y = model.add_dense(y, 6)
    y = model.add_operator("RESHAPE", (y, model.add_constant([-1, 2, 3, 1])), (1, 2, 3, 1))
    w = model.add_weight((1, 3, 3, 1), 9, "conv/w")
    options = {"stride_w": 1, "stride_h": 1, "padding": 0}
    y = model.add_operator("CONV_2D", (y, w, -1), (1, 2, 3, 1), **options)  # type: ignore[arg-type]
    y = model.add_operator("RESHAPE", (y, model.add_constant([-1, 6])), (1, 6))
    y = model.add_operator("FULLY_CONNECTED", (y, table, -1), (1, 9))
    model.write(tmp_path / "m.tflite", y)
    graph = lower_model(read_model(tmp_path / "m.tflite")).graph
    (only,) = new_adapters(graph, 2).members
    assert graph.tensors[only.tensor].name.startswith("dense")
    for name in ("table", "conv/w"):
        with pytest.raises(OptionError, match="matches none"):
            new_adapters(graph, 2, name)


def test_ranks_and_factors_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    network(tmp_path / "m.tflite")
    graph = lower_model(read_model(tmp_path / "m.tflite")).graph
    alphas: tuple[Any, ...] = (0.0, float("nan"), 1e39, "2")
    for alpha in alphas:
        with pytest.raises(OptionError, match=r"`alpha=`: must be a number above 0"):
            new_adapters(graph, 2, alpha=alpha)
    with pytest.raises(OptionError, match=r"`rank=`: must be a whole number from 1 to"):
        new_adapters(graph, 0)
    largest = max(adaptable(graph), key=lambda pair: min(pair[1]))
    label, rank = graph.label(largest[0]), min(largest[1])
    assert new_adapters(graph, rank).rank == rank
    for value in (rank + 1, 2**31 - 1):  # which would also exceed any memory
        with pytest.raises(OptionError) as raised:
            new_adapters(graph, value)
        assert str(raised.value) == (
            f"`rank=`: must be at most {rank}, the largest rank of {label}, but got {value}"
        )


def test_training_takes_less_memory(tmp_path: Path) -> None:
    model = odt.new_model("mlp", input_shape=(784,), outputs=10, hidden=(256,))
    full, low = (odt.plan(m, batch_size=8) for m in (model, odt.lora(model, 4)))
    assert low.parameters < full.parameters / 20
    assert low.optimizer < full.optimizer / 20
    assert low.arenas < full.arenas / 3
    assert low.peak < full.peak - 1_500_000


def test_a_resumed_run_gives_the_same_adapters(tmp_path: Path) -> None:
    model = odt.lora(network(tmp_path / "m.tflite"), 2)
    x, y = samples(20, 4, 4, 6), np.eye(3, dtype=np.float32)[np.arange(20) % 3]
    for name, parts in (("a", [4]), ("b", [2, 4])):
        for k, epochs in enumerate(parts):
            checkpoint = tmp_path / "c.odt" if k else None
            with odt.Trainer(model, batch_size=8, checkpoint=checkpoint) as trainer:
                trainer.fit(x, y, epochs=epochs, save_to=tmp_path / "c.odt")
                trainer.export_adapters(tmp_path / f"{name}.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with odt.Trainer(model) as trainer, pytest.raises(OptionError, match=r"must end in \.odt"):
        trainer.save_checkpoint(tmp_path / "c.ckpt")


def test_int8_weights_are_adapted(tmp_path: Path) -> None:
    path = MODELS / "mlperf-tiny-kws-dscnn-hybrid.tflite"
    model = odt.lora(path, 2, target="CONV_2D")
    x = samples(3, *model.inputs[0].shape[1:])
    with odt.Trainer(model) as trainer:
        assert trainer.weights
        with_b(trainer)
        trainer.export(tmp_path / "merged.tflite", float_weights=True)
        np.testing.assert_allclose(
            litert(tmp_path / "merged.tflite", [x])[0], trainer.predict(x), atol=1e-4
        )


def test_the_commands(tmp_path: Path) -> None:
    network(tmp_path / "m.tflite")
    np.save(tmp_path / "x.npy", samples(16, 4, 4, 6))
    np.save(tmp_path / "y.npy", np.eye(3, dtype=np.float32)[np.arange(16) % 3])

    def run(*words: str, status: int = 0) -> str:
        full = [str(tmp_path / w) if w.partition(".")[2] else w for w in words]
        result = CliRunner().invoke(main, full)
        assert result.exit_code == status, result.output
        return result.output

    assert "for 5 weights" in run("lora", "m.tflite", "--rank", "2", "-o", "a.npz")
    line = ["train", "m.tflite", "--adapters", "a.npz", "--load-input", "x.npy"]
    line += ["--load-expected", "y.npy", "--epochs", "1"]
    assert "a.npz" in run(*line, "--dropout", "*lora_a=0", "--print-config")
    run(*line, "--export-adapters", "b.npz", "--export-tflite", "one.tflite")
    run("lora", "m.tflite", "--merge", "b.npz", "-o", "two.tflite")
    assert (tmp_path / "one.tflite").read_bytes() == (tmp_path / "two.tflite").read_bytes()
    assert (tmp_path / "one.tflite").read_bytes() != (tmp_path / "m.tflite").read_bytes()
    data = ["--load-input", "x.npy"]
    found = [
        run("eval", *model, *data, "--load-expected", "y.npy", "--metric", "accuracy")
        for model in (["m.tflite", "--adapters", "b.npz"], ["one.tflite"], ["m.tflite"])
    ]
    one, merged, plain = (float(text.split("[0] ")[1].split()[0]) for text in found)
    assert one == pytest.approx(merged, abs=2e-4) != plain
    run("predict", "m.tflite", "--adapters", "b.npz", *data, "--output", "p.npy")
    run("predict", "one.tflite", *data, "--output", "q.npy")
    p, q = (np.load(tmp_path / f"{name}.npy") for name in "pq")
    np.testing.assert_allclose(p, q, atol=1e-5)
    assert "adam" in run("plan", "m.tflite", "--adapters", "a.npz")
    assert "original model file" in run(
        "lora", "one.tflite", "--merge", "b.npz", "-o", "c.tflite", status=1
    )
    assert "one of them" in run("lora", "m.tflite", "-o", "a.npz", status=1)
    assert "must end in .npz" in run("lora", "m.tflite", "--rank", "2", "-o", "a.tflite", status=1)
    assert "--adapters" in run(*line[:2], *line[4:], "--export-adapters", "b.npz", status=1)
    assert "must end in .odt" in run(*line, "--export-checkpoint", "c.ckpt", status=1)


@pytest.mark.parametrize("scheme", ["int4-weights", "int2-weights", "int4-block32-weights"])
def test_adapters_are_not_merged_into_few_bits(scheme: Any, tmp_path: Path) -> None:
    base = odt.new_model("mlp", input_shape=(64,), outputs=3, hidden=[32], seed=1)
    odt.quantize(base, scheme=scheme).model.save(tmp_path / "m.tflite")
    out, x = tmp_path / "out.tflite", samples(6, 64)
    with odt.Trainer(odt.lora(tmp_path / "m.tflite", 2), loss="mse", batch_size=6) as trainer:
        trainer.fit(x, samples(6, 3), epochs=2)
        ours = trainer.predict(x)
        trainer.export_adapters(tmp_path / "a.npz")
        with pytest.raises(UnsupportedError, match=r"in a file of their own .* 2 or 4 bits"):
            trainer.export(out)
    words = ["lora", str(tmp_path / "m.tflite"), "--merge", str(tmp_path / "a.npz"), "-o", str(out)]
    result = CliRunner().invoke(main, words)
    assert "or give --export-weights float" in result.stderr
    assert not out.exists()
    result = CliRunner().invoke(main, [*words, "--export-weights", "float"])
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(odt.predict(out, x), ours, atol=1e-5)
    words = ["train", str(tmp_path / "m.tflite"), "--adapters", str(tmp_path / "a.npz")]
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", ours)
    words += ["--load-input", str(tmp_path / "x.npy"), "--load-expected", str(tmp_path / "y.npy")]
    result = CliRunner().invoke(main, [*words, "--export-tflite", str(tmp_path / "other.tflite")])
    assert result.exit_code == 1
    assert "Epoch" not in result.output  # before training
