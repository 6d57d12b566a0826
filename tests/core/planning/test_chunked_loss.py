"""Layer and loss in chunks of rows: the same results as one after the other, with less memory."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.block_files import language_model

import odt
from odt.core.export.model_builder import ModelBuilder
from odt.core.planning import chunked_loss, output_loss
from odt.core.planning.plan import Call, Phase
from odt.core.planning.stored_weights import DECODE, STORED_DENSE, STORED_GRAD_X
from odt.core.training.trainer import TRAINING, VALIDATION
from odt.kernels.chunked_loss import kernel
from odt.kernels.geometry.block_formats import BLOCK_FORMATS
from odt.kernels.geometry.decoders import Decoder, IntegerDecoder, decoded
from odt.kernels.geometry.quantize import Quantization
from odt.kernels.geometry.softmax_geometry import ChunkedAttrs, cross_entropy_attrs
from odt.kernels.native.library import compiled_of, is_available
from odt.kernels.rows.opdef import Array, Compiled, TensorSpec

N, T, D, V = 3, 7, 6, 40
RNG = np.random.default_rng(2)
X = RNG.normal(size=(N, T, 5)).astype(np.float32)
Y = RNG.integers(-1, V, (N, T)).astype(np.int32)
LOSS = "sparse_categorical_crossentropy"
IDS = RNG.integers(0, V, (N, T)).astype(np.int32)
HEADS = ("plain", "no bias", "positions", "softmax", "twice", "tied")


def network(path: Path, head: str) -> Path:
    """A hidden layer and a last one; "tied" has the weights of the last one for an embedding."""
    built = ModelBuilder("circle", seed=1)
    if head == "tied":
        ids = built.add_input((1, T), "int32", name="ids")
        table = built.add_constant(built.rng.normal(size=(V, D)).astype(np.float32), "table")
        h = built.add_operator("GATHER", [table, ids], (1, T, D), axis=0)
        h = built.add_operator("TANH", [h], (1, T, D))
        y = built.add_operator("FULLY_CONNECTED", [h, table], (1, T, V), keep_num_dims=True)
        built.write(path, y)
        return path
    x = built.add_input((1, T, 5), name="x")
    names = iter(("hidden/w", "hidden/b", "head/w", "head/b"))

    def dense(x: int, depth: int, units: int, *, bias: bool = True, keeps: bool = True) -> int:
        w = built.rng.normal(size=(units, depth)).astype(np.float32)
        constants = [built.add_constant(w, next(names))]
        b = next(names)
        if bias:
            constants.append(built.add_constant(np.linspace(-1, 1, units, dtype=np.float32), b))
        shape = (1, T, units) if keeps else (T, units)
        return built.add_operator("FULLY_CONNECTED", [x, *constants], shape, keep_num_dims=keeps)

    h = built.add_operator("TANH", [dense(x, 5, D)], (1, T, D))
    if head == "twice":
        h = built.add_operator("ADD", [h, h], (1, T, D))
    y = dense(h, D, V, bias=head != "no bias", keeps=head != "positions")
    if head == "positions":
        shape = built.add_constant(np.array((1, T, V), np.int32))
        y = built.add_operator("RESHAPE", [y, shape], (1, T, V))
    if head == "softmax":
        y = built.add_operator("SOFTMAX", [y], (1, T, V), beta=1.0)
    built.write(path, y)
    return path


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("heads")
    return {head: network(folder / f"{head}.circle", head) for head in HEADS}


@pytest.fixture(params=["compiled", "numpy"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "numpy":
        monkeypatch.setenv("ODT_KERNELS", "numpy")
    return str(request.param)


def in_chunks(patch: pytest.MonkeyPatch, rows: int) -> None:
    """Joins layers and losses of any size, with chunks of some rows."""
    patch.setattr(output_loss, "LEAST_SAVED", -(10**9))
    patch.setattr(chunked_loss, "CHUNK", rows * V * 4)
    patch.setattr(chunked_loss, "LEAST_ROWS", 1)


def is_joined(t: odt.Trainer) -> bool:
    """Whether layer and loss are one call of the forward phase, in training and validation.

    It must be compiled if other calls are.
    """
    plans = [t.session.build().runtime.engine_of(k).plan for k in (TRAINING, VALIDATION)]
    calls = [
        entry
        for plan in plans
        for entry in plan.entries
        if isinstance(entry, Call) and "FULLY_CONNECTED" in entry.label
    ]
    joined = [call for call in calls if call.label.endswith(f"with loss 0 {LOSS}")]
    smooth = t.session.recipe.losses[0].options.get("label_smoothing", 0)
    assert smooth or len({call.compiled is None for call in calls}) == 1
    return [call.phase for call in joined] == [Phase.FORWARD] * 2


def fitted(
    path: Path, weights: Array | None = None, **options: Any
) -> tuple[dict[str, Array], list[float]]:
    """Weights after some steps, and the losses of epochs and evaluations."""
    given: dict[str, Any] = {"optimizer": odt.SGD(0.5), "batch_size": N, "loss": LOSS}
    x = IDS if path.stem == "tied" else X
    with odt.Trainer(path, **given | options) as t:
        logs = t.fit(x, Y, sample_weight=weights, epochs=3, shuffle=False).history
        losses = [*logs["loss"], t.evaluate(x, Y, weights)["loss"]]
        assert is_joined(t) == (output_loss.LEAST_SAVED < 0)
        return {name: np.array(a) for name, a in t.weights.items()}, losses


def assert_close(a: tuple[Any, Any], b: tuple[Any, Any]) -> None:
    np.testing.assert_allclose(a[1], b[1], rtol=1e-5)
    assert a[0].keys() == b[0].keys()
    for name, value in a[0].items():
        np.testing.assert_allclose(value, b[0][name], rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 5, 7, 64])
@pytest.mark.parametrize("head", HEADS)
def test_chunks_give_the_same(
    monkeypatch: pytest.MonkeyPatch, kernels: str, models: dict[str, Path], head: str, rows: int
) -> None:
    expected = fitted(models[head])
    in_chunks(monkeypatch, rows)
    assert_close(fitted(models[head]), expected)


OPTIONS: dict[str, dict[str, Any]] = {
    "one layer": {"trainable": odt.last(1)},
    "frozen head": {"trainable": odt.freeze("head/*")},
    "head alone": {"trainable": odt.select("head/*")},
    "bias alone": {"trainable": odt.select("head/b")},
    "micro-batches": {"micro_batch": 1},
    "workers": {"micro_batch": 1, "workers": 2},
    "clipping": {"clip_norm": 0.1},
    "smoothing": {"loss": odt.SparseCategoricalCrossentropy(label_smoothing=0.1)},
    "sum": {"reduction": "sum", "optimizer": odt.SGD(0.01)},
    "adam": {"optimizer": odt.Adam(0.01)},
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options_give_the_same(
    monkeypatch: pytest.MonkeyPatch, kernels: str, models: dict[str, Path], case: str
) -> None:
    expected = fitted(models["plain"], **OPTIONS[case])
    in_chunks(monkeypatch, 4)
    assert_close(fitted(models["plain"], **OPTIONS[case]), expected)


@pytest.mark.parametrize("shape", [(N,), (N, T)])
def test_weights_of_samples_and_positions(
    monkeypatch: pytest.MonkeyPatch, kernels: str, models: dict[str, Path], shape: tuple[int, ...]
) -> None:
    weights = RNG.uniform(0, 2, shape).astype(np.float32)
    expected = fitted(models["positions"], weights)
    in_chunks(monkeypatch, 4)
    assert_close(fitted(models["positions"], weights), expected)


def stored(kind: str, units: int, depth: int) -> tuple[Decoder, Array]:
    """A decoder, and random weights as it reads them."""
    rng = np.random.default_rng(1)
    if kind in BLOCK_FORMATS:
        block = BLOCK_FORMATS[kind]
        data = rng.integers(0, 256, (units * depth // block.values, block.nbytes)).astype(np.uint8)
        header = rng.uniform(0.01, 0.1, (len(data), block.header // 2)).astype("<f2")
        data[:, : block.header] = header.view(np.uint8)
        return block, data
    scale = rng.uniform(0.01, 0.1, units if kind == "int8 by unit" else 1)
    quantization = Quantization(scale, np.zeros(scale.size, np.int64), 0)
    return IntegerDecoder(quantization), rng.integers(-99, 99, (units, depth)).astype(np.int8)


def results(attrs: ChunkedAttrs, arrays: dict[str, Array], *, compiled: bool) -> dict[str, Array]:
    """What the kernel computes from arrays, into memory that holds NaN."""
    run = kernel(tuple(arrays), ("loss", "dx", "db", "terms", "best"))
    x, rows = arrays["x"], arrays["t"].size
    outputs = {
        "loss": np.full(1, np.nan, np.float32),
        "dx": np.full_like(x, np.nan),
        "db": np.full(attrs.shape[0], np.nan, np.float32),
        "terms": np.full(rows, np.nan, np.float32),
        "best": np.full(rows, -9, np.int32),
    }
    given = {**arrays, **outputs}
    specs = {n: TensorSpec(a.shape, a.dtype) for n, a in given.items()}
    form = compiled_of(run, attrs, specs) if compiled else run
    assert form is not None
    scratch = form.workspace(attrs, specs)
    given |= {n: np.full(s.shape, 99, s.dtype) for n, s in scratch.items()}
    if isinstance(form, Compiled):
        form.bind(attrs, **given, **form.prepare(attrs, specs))()
    else:
        run.run(attrs, **given, **run.prepare(attrs, specs))
    return outputs


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("kind", [*BLOCK_FORMATS, "int8 by unit", "int8"])
def test_stored_weights_are_decoded_some_units_at_a_time(
    monkeypatch: pytest.MonkeyPatch, kind: str, compiled: bool
) -> None:
    if compiled and not is_available():
        pytest.skip("needs compiled kernels")
    monkeypatch.setattr("odt.kernels.native.chunked_loss.BLOCK", 1)
    monkeypatch.setattr("odt.kernels.chunked_loss.UNITS", 80)
    units, depth, rows = 200, 64, 11
    decoder, w = stored(kind, units, depth)
    rng = np.random.default_rng(2)
    arrays = {
        "x": rng.normal(size=(rows, depth)).astype(np.float32),
        "w": decoded(decoder, w, (units, depth)),
        "b": rng.normal(size=units).astype(np.float32),
        "t": rng.integers(-1, units, rows).astype(np.int32),
        "scale": np.full(1, 0.25, np.float32),
    }
    loss = cross_entropy_attrs({"from_logits": True, "beta": 0.5}, {})
    attrs = ChunkedAttrs(loss, 4, (units, depth))
    expected = results(attrs, arrays, compiled=False)
    found = results(replace(attrs, decoder=decoder), arrays | {"w": w}, compiled=compiled)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("kind", BLOCK_FORMATS)
def test_a_head_in_blocks_is_never_whole(
    monkeypatch: pytest.MonkeyPatch, kernels: str, tmp_path: Path, kind: str
) -> None:
    language_model(tmp_path / "m.circle", kind)
    ids = RNG.integers(0, 96, (N, 9))
    x, y = ids[:, :8].astype(np.int32), ids[:, 1:].astype(np.int32)

    def trained() -> tuple[list[float], Array, int]:
        options: dict[str, Any] = {"loss": LOSS, "optimizer": odt.SGD(0.1), "batch_size": N}
        with odt.Trainer(tmp_path / "m.circle", **options) as t:
            history = t.fit(x, y, epochs=3, shuffle=False).history
            (weights,) = t.weights.values()
            plan = t.session.build().plan
            calls = [entry for entry in plan.entries if isinstance(entry, Call)]
            decode = DECODE, STORED_DENSE, STORED_GRAD_X
            return history["loss"], np.array(weights), sum(c.kernel in decode for c in calls)

    losses, weights, decoded_before = trained()
    in_chunks(monkeypatch, 5)
    found, found_weights, decoded_in_chunks = trained()
    np.testing.assert_allclose(found, losses, rtol=1e-5)
    np.testing.assert_allclose(found_weights, weights, rtol=1e-4, atol=1e-6)
    assert decoded_in_chunks == decoded_before - 2


def test_large_logits_are_never_whole(tmp_path: Path) -> None:
    """A batch has 20 MB of logits, and as many bytes of probabilities."""
    path = tmp_path / "large.circle"
    built = ModelBuilder("circle", seed=1)
    y = built.add_input((1, 512, D), name="x")
    for name, units in (("hidden/w", D), ("head/w", 10_000)):
        w = built.add_weight((units, D), D, name)
        shape = (1, 512, units)
        y = built.add_operator("FULLY_CONNECTED", [y, w], shape, keep_num_dims=True)
    built.write(path, y)
    for training in (odt.select("head/w"), odt.freeze("head/w"), None):
        options: dict[str, Any] = {} if training is None else {"trainable": training}
        with odt.Trainer(path, loss=LOSS, batch_size=1, **options) as t:
            assert is_joined(t)
            assert t.session.build().memory().arena < 10e6
    rows, whole = (
        odt.plan(path, loss=LOSS, batch_size=1, metrics=[metric]).peak
        for metric in ("accuracy", "top_5_accuracy")
    )
    assert rows < whole - 20e6
    with odt.Trainer(path, loss=LOSS, batch_size=1, metrics=["top_5_accuracy"]) as t:
        assert not is_joined(t)


def test_gradients_in_float64_are_those_of_finite_differences(
    monkeypatch: pytest.MonkeyPatch, models: dict[str, Path]
) -> None:
    in_chunks(monkeypatch, 4)
    result = odt.check(models["softmax"], X, Y, loss=LOSS)
    assert result, result


METRICS = ["accuracy", "perplexity", "f1"]


@pytest.mark.parametrize("metrics", [METRICS, [*METRICS, "top_3_accuracy"]])
def test_metrics_read_rows_or_outputs(
    monkeypatch: pytest.MonkeyPatch, kernels: str, models: dict[str, Path], metrics: list[str]
) -> None:
    """Without outputs, if all metrics can do without them."""

    def logs() -> list[dict[str, float]]:
        with odt.Trainer(models["softmax"], loss=LOSS, batch_size=2, metrics=metrics) as t:
            history = t.fit(X, Y, epochs=2, shuffle=False, validation_data=(X[:2], Y[:2])).history
            core = t.session.build()
            plans = [core.runtime.engine_of(k).plan for k in (TRAINING, VALIDATION)]
            reads_rows = output_loss.LEAST_SAVED < 0 and metrics == METRICS
            for plan in plans:
                assert (bool(plan.rows), bool(plan.outputs)) == (reads_rows, not reads_rows)
            assert t.predict(X).shape == (N, T, V)
            weighted = t.evaluate(X, Y, np.ones(N, np.float32))
            report = odt.evaluate(models["softmax"], X, Y, loss=LOSS, metrics=metrics)
            per_class = report.classes
            assert per_class is not None
            figures = {"recall": float(per_class.recall.mean())}
            assert per_class.confusion_matrix is not None
            assert per_class.confusion_matrix.sum() == np.count_nonzero(Y >= 0)
            each = {k: v[-1] for k, v in history.items()}
            return [each, weighted, dict(report.metrics), figures]

    expected = logs()
    in_chunks(monkeypatch, 4)
    for found, wanted in zip(logs(), expected, strict=True):
        assert found == pytest.approx(wanted, rel=1e-5)
