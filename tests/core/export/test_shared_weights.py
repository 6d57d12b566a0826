"""Weights that several signatures read: trained in one, LiteRT computes all with them."""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from click.testing import CliRunner
from support.judges import litert
from support.model_forms import (
    CLASSES,
    FORMS,
    IMAGE,
    Form,
    Int8Int4,
    Integer,
    TwoCopies,
    TwoSignatures,
    write_form,
)
from support.subgraphs import Subgraphs

import odt
from odt.cli.main import main
from odt.core.export.add_classes import add_classes
from odt.core.export.cut import cut
from odt.core.export.exporter import export_model
from odt.core.formats.reader import read_model
from odt.core.lowering.class_head import class_head
from odt.core.model.model import Model
from odt.core.recipe.lowered_model import lower_model
from odt.errors import OdtWarning, UnsupportedError
from odt.kernels.rows.opdef import Array
from odt.training.exports import check_export

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (16, *IMAGE[1:])).astype(np.float32)
Y = np.eye(CLASSES, dtype=np.float32)[RNG.integers(0, CLASSES, 16)]


class TwoIntegers(TwoSignatures, Integer):
    def embedding(self, buffers: dict[str, int]) -> int:
        x = self.activation(IMAGE, 1 / 32, 0)
        self.graph.tensors[x].name = "image"
        z = self.features(x)
        for tensor in self.graph.tensors:
            if tensor.buffer:
                tensor.buffer = buffers[tensor.name]
        self.sign(x, z)
        return z

    def sign(self, x: int, z: int) -> None:
        self.add_signature("embed", {"image": x}, {"features": z})
        self.model.signature_defs[-1].subgraph_index = 1

    def network(self) -> int:
        x = self.activation(IMAGE, 1 / 32, 0)
        y = self.classes_of(self.features(x))
        self.add_signature("classify", {"image": x}, {"scores": y})
        buffers = {t.name: t.buffer for t in self.graph.tensors}
        self.subgraph(lambda: (self.embedding(buffers),))
        return y


class TwoInt4(TwoIntegers, Int8Int4):
    pass


class ZeroBiases(TwoSignatures):
    """All biases are zeros of their own buffers; those of one size have the same values."""

    def __init__(self, file_format: str = "tflite") -> None:
        super().__init__(file_format)
        for name in ("conv", "hidden", "last"):
            self.values[f"{name}/bias"][:] = 0


class ZeroCopies(TwoCopies, ZeroBiases):
    pass


class SecondFirst(TwoSignatures):
    """The subgraph of `embed` is the first."""

    def build(self, *outputs: int) -> bytes:
        self.graph.outputs = list(outputs)
        main, other = self.model.subgraphs
        self.model.subgraphs, self.graph = [other, main], other
        for signature in self.model.signature_defs:
            signature.subgraph_index = 1 - (signature.subgraph_index or 0)
        return super().build(*other.outputs)


MAKERS: dict[str, Callable[[], Form]] = {
    **{name: make for name, make in FORMS.items() if name.startswith("two signatures")},
    "zero biases": ZeroBiases,
    "copies with zero biases": ZeroCopies,
    "int8": TwoIntegers,
    "int4 beside int8": TwoInt4,
}


def signature(path: Path, key: str, x: Array) -> Array:
    """What LiteRT computes by a signature, sample by sample."""
    kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(str(path), experimental_op_resolver_type=kernels)
    run = interpreter.get_signature_runner(key)
    ((name, detail),) = run.get_input_details().items()
    outputs = []
    for sample in x:
        given = sample[np.newaxis]
        if detail["dtype"] != np.float32:
            given = np.clip(np.rint(given * 32), -128, 127).astype(detail["dtype"])
        ((_, y),) = run(**{name: given}).items()
        outputs.append(y)
    return np.concatenate(outputs)


def features_of_first(path: Path, folder: Path, x: Array) -> Array:
    """The features that the first signature computes, by a cut of its subgraph in LiteRT."""
    model = read_model(path)
    node = next(n for n in model.graph.nodes if n.op == "MEAN")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OdtWarning)
        part = cut(model, before=(node.outputs[0],))
    export_model(part.model, {}, folder / "features.tflite", "tflite")
    quantized = model.graph.tensors[model.graph.inputs[0]].spec.dtype.kind != "f"
    given = np.clip(np.rint(x * 32), -128, 127) if quantized else x
    return litert(folder / "features.tflite", [given], xnnpack=False)[0]


def trained(path: Path, out: Path, key: str, targets: Array, float_weights: bool = False) -> None:
    model = odt.load_model(path, signature=key)
    with odt.Trainer(model, loss="mse", learning_rate=0.05, batch_size=4) as trainer:
        trainer.fit(X, targets, epochs=3)
        trainer.export(out, float_weights=float_weights)


@pytest.mark.parametrize("suffix", ["tflite", "circle"])
@pytest.mark.parametrize("form", MAKERS)
def test_training_one_signature_changes_the_weights_of_all(
    form: str, suffix: str, tmp_path: Path
) -> None:
    path, out = tmp_path / "m.tflite", tmp_path / f"out.{suffix}"
    write_form(MAKERS[form], path)
    trained(path, out, "classify", Y)
    if suffix == "circle":
        odt.Model(read_model(out))
        export_model(read_model(out), {}, tmp_path / "out.tflite", "tflite")
        out = tmp_path / "out.tflite"
    after = signature(out, "embed", X)
    np.testing.assert_array_equal(after, features_of_first(out, tmp_path, X))
    assert (after != signature(path, "embed", X)).any()
    if "cop" not in form and "bias" not in form:
        assert out.stat().st_size == path.stat().st_size


@pytest.mark.parametrize("form", MAKERS)
def test_training_another_signature_changes_the_first(form: str, tmp_path: Path) -> None:
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    write_form(MAKERS[form], path)
    trained(path, out, "embed", RNG.normal(size=(16, 4)).astype(np.float32))
    after = features_of_first(out, tmp_path, X)
    np.testing.assert_array_equal(after, signature(out, "embed", X))
    assert (after != features_of_first(path, tmp_path, X)).any()


@pytest.mark.parametrize("form", MAKERS)
def test_an_export_of_float_weights_too(form: str, tmp_path: Path) -> None:
    """The other signature keeps its types, and gets the trained weights in them."""
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    write_form(MAKERS[form], path)
    trained(path, out, "classify", Y, float_weights=True)
    after = signature(out, "embed", X).astype(float)
    before = signature(path, "embed", X)
    assert (after != before).any()
    if form in ("int8", "int4 beside int8"):  # its outputs are integers
        after = (after + 128) * 6 / 255
    assert np.abs(after - features_of_first(out, tmp_path, X)).max() < 0.1


def test_merged_adapters_change_all_signatures(tmp_path: Path) -> None:
    """The layer of 1 × 1 is in both subgraphs."""
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    _autoencoder(path)
    adapted = odt.lora(odt.load_model(path, signature="auto"), 2, seed=1)
    x = RNG.uniform(-1, 1, (16, 6)).astype(np.float32)
    with odt.Trainer(adapted, loss="mse", learning_rate=0.05, batch_size=4) as trainer:
        trainer.fit(x, x, epochs=5)
        trainer.export(out)
        trainer.export_adapters(tmp_path / "a.npz")
    _check_autoencoder(out, path, x)
    merged = odt.load_model(path, tmp_path / "a.npz", signature="auto")
    merged.save(tmp_path / "merged.tflite")
    _check_autoencoder(tmp_path / "merged.tflite", path, x)


def _autoencoder(path: Path) -> None:
    """`auto`, and its halves `encode` and `decode`, which begins in the middle."""
    b = Subgraphs("tflite", 1)
    x = b.add_input((1, 6), name="x")
    weights = [b.add_weight(shape, 6, name) for name, shape in (("E", (3, 6)), ("D", (6, 3)))]
    biases = [b.add_constant(np.zeros(n, np.float32), f"bias{n}") for n in (3, 6)]
    h = b.add_operator("FULLY_CONNECTED", (x, weights[0], biases[0]), (1, 3))
    y = b.add_operator("FULLY_CONNECTED", (h, weights[1], biases[1]), (1, 6))
    b.add_signature("auto", {"x": x}, {"y": y})
    main = b.graph.tensors

    def half(k: int, key: str, width: int, units: int) -> Callable[[], tuple[int, ...]]:
        def make() -> tuple[int, ...]:
            x = b.add_input((1, width), name="x")
            w, c = (
                b.add_tensor(main[i].shape, name="", buffer=main[i].buffer)
                for i in (weights[k], biases[k])
            )
            z = b.add_operator("FULLY_CONNECTED", (x, w, c), (1, units))
            b.add_signature(key, {"x": x}, {"z": z})
            b.model.signature_defs[-1].subgraph_index = k + 1
            return (z,)

        return make

    b.subgraph(half(0, "encode", 6, 3))
    b.subgraph(half(1, "decode", 3, 6))
    b.write(path, y)


def _check_autoencoder(out: Path, path: Path, x: Array) -> None:
    code = signature(out, "encode", x)
    np.testing.assert_allclose(signature(out, "decode", code), signature(out, "auto", x), atol=1e-6)
    assert (code != signature(path, "encode", x)).any()


def test_halves_of_a_network_follow(tmp_path: Path) -> None:
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    _autoencoder(path)
    x = RNG.uniform(-1, 1, (16, 6)).astype(np.float32)
    with odt.Trainer(
        odt.load_model(path, signature="auto"), loss="mse", learning_rate=0.05, batch_size=4
    ) as trainer:
        trainer.fit(x, x, epochs=5)
        trainer.export(out)
    _check_autoencoder(out, path, x)
    assert out.stat().st_size == path.stat().st_size
    code = RNG.uniform(-1, 1, (16, 3)).astype(np.float32)
    with odt.Trainer(
        odt.load_model(out, signature="decode"), loss="mse", learning_rate=0.05, batch_size=4
    ) as trainer:
        trainer.fit(code, x, epochs=5)
        trainer.export(tmp_path / "again.tflite")
    _check_autoencoder(tmp_path / "again.tflite", path, x)


def test_a_weight_of_another_layer_with_equal_values_stays(tmp_path: Path) -> None:
    """Both biases are zeros in one buffer; only the first is that of the layer that trains."""
    b = Subgraphs("tflite", 1)
    x = b.add_input((1, 4), name="x")
    w, bias = b.add_weight((4, 4), 4, "w"), b.add_constant(np.zeros(4, np.float32), "bias")
    y = b.add_operator("FULLY_CONNECTED", (x, w, bias), (1, 4))
    b.add_signature("train_me", {"x": x}, {"y": y})
    buffer = b.graph.tensors[bias].buffer

    def other() -> tuple[int, ...]:
        x = b.add_input((1, 4), name="x")
        v, c = b.add_weight((4, 4), 4, "v"), b.add_tensor((4,), name="c", buffer=buffer)
        z = b.add_operator("FULLY_CONNECTED", (x, v, c), (1, 4))
        b.add_signature("other", {"x": x}, {"z": z})
        b.model.signature_defs[-1].subgraph_index = 1
        return (z,)

    b.subgraph(other)
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    b.write(path, y)
    samples = RNG.uniform(-1, 1, (16, 4)).astype(np.float32)
    with odt.Trainer(
        odt.load_model(path, signature="train_me"), loss="mse", learning_rate=0.05, batch_size=4
    ) as trainer:
        trainer.fit(samples, np.ones((16, 4), np.float32), epochs=3)
        trainer.export(out)
    np.testing.assert_array_equal(
        signature(out, "other", samples), signature(path, "other", samples)
    )
    changed = _constants(read_model(out, "train_me"))["bias"]
    assert changed.all()


def _constants(model: Model) -> dict[str, Array]:
    return {t.name: t.data for t in model.graph.tensors if t.data is not None}


def test_a_copy_of_two_weights_that_differ_later_is_named(tmp_path: Path) -> None:
    """Two layers begin with equal weights; it is unknown which of them a third one is."""
    b = Subgraphs("tflite", 1)
    x = b.add_input((1, 4), name="x")
    w = b.add_weight((4, 4), 4, "w")
    shared = b.graph.tensors[w].buffer
    v = b.add_tensor((4, 4), name="v", buffer=shared)
    h = b.add_operator("FULLY_CONNECTED", (x, w, -1), (1, 4), fused_activation_function=1)
    y = b.add_operator("FULLY_CONNECTED", (h, v, -1), (1, 4))
    b.add_signature("first", {"x": x}, {"y": y})

    def other() -> tuple[int, ...]:
        x = b.add_input((4, 4), name="x")
        u = b.add_tensor((4, 4), name="u", buffer=shared)
        z = b.add_operator("ADD", (x, u), (4, 4))
        b.add_signature("second", {"x": x}, {"z": z})
        b.model.signature_defs[-1].subgraph_index = 1
        return (z,)

    b.subgraph(other)
    b.write(tmp_path / "m.tflite", y)
    samples = RNG.uniform(-1, 1, (16, 4)).astype(np.float32)
    model = odt.load_model(tmp_path / "m.tflite", signature="first")
    with odt.Trainer(model, loss="mse", learning_rate=0.05, batch_size=4) as trainer:
        trainer.fit(samples, samples, epochs=1)
        with pytest.warns(OdtWarning, match=r"signature second keeps the values of tensor 1 \(\"u"):
            trainer.export(tmp_path / "out.tflite")


def test_ranges_that_move_are_refused(tmp_path: Path) -> None:
    write_form(TwoIntegers, tmp_path / "m.tflite")
    model = odt.load_model(tmp_path / "m.tflite", signature="classify")
    with odt.Trainer(
        model, loss="mse", quant_ranges="follow", learning_rate=0.05, batch_size=4
    ) as trainer:
        with pytest.raises(UnsupportedError, match=r"ranges .* got embed\. Leave"):
            check_export(trainer.session)
        trainer.fit(X, Y, epochs=1)
        with pytest.raises(UnsupportedError, match=r"ranges .* got embed"):
            trainer.export(tmp_path / "out.tflite")


def test_new_classes_of_a_layer_that_another_signature_reads(tmp_path: Path) -> None:
    """`logits` ends before SOFTMAX and keeps three classes, which one line says."""
    b = Subgraphs("tflite", 1)
    x = b.add_input((1, 4), name="x")
    w = b.add_weight((3, 4), 4, "w")
    y = b.add_operator("FULLY_CONNECTED", (x, w, -1), (1, 3))
    y = b.add_operator("SOFTMAX", (y,), (1, 3), beta=1.0)
    b.add_signature("scores", {"x": x}, {"y": y})
    buffer = b.graph.tensors[w].buffer

    def logits() -> tuple[int, ...]:
        x, w = b.add_input((1, 4), name="x"), b.add_tensor((3, 4), buffer=buffer)
        z = b.add_operator("FULLY_CONNECTED", (x, w, -1), (1, 3))
        b.add_signature("logits", {"x": x}, {"z": z})
        b.model.signature_defs[-1].subgraph_index = 1
        return (z,)

    b.subgraph(logits)
    b.write(tmp_path / "m.tflite", y)
    model = read_model(tmp_path / "m.tflite")
    with pytest.warns(OdtWarning, match="signature logits keeps its 3 classes"):
        new = add_classes(model, class_head(lower_model(model).graph), 1, ())
    odt.Model(new).save(tmp_path / "new.tflite")
    samples = RNG.normal(size=(4, 4)).astype(np.float32)
    assert signature(tmp_path / "new.tflite", "scores", samples).shape == (4, 4)
    old = signature(tmp_path / "m.tflite", "logits", samples)
    np.testing.assert_array_equal(signature(tmp_path / "new.tflite", "logits", samples), old)


@pytest.mark.parametrize("command", ["replace-head", "quantize", "cut"])
def test_signatures_that_are_left_out_are_named(command: str, tmp_path: Path) -> None:
    write_form(TwoSignatures, tmp_path / "m.tflite")
    options = {
        "replace-head": ("--classes", "4"),
        "quantize": ("--scheme", "float16"),
        "cut": ("--before", "3"),
    }[command]
    words = [command, str(tmp_path / "m.tflite"), *options, "-o", str(tmp_path / "out.tflite")]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0
    line = "the new model has one subgraph, without the signature embed."
    assert result.stderr.count(line) == 1
    assert [s.key for s in read_model(tmp_path / "out.tflite").signatures] == ["classify"]


@pytest.mark.parametrize("command", ["replace-head", "quantize", "quantize int8", "lora"])
def test_commands_rewrite_the_chosen_signature(command: str, tmp_path: Path) -> None:
    """`classify` is the second subgraph here."""
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    write_form(SecondFirst, path)
    np.save(tmp_path / "x.npy", X)
    options: dict[str, tuple[object, ...]] = {
        "replace-head": ("--classes", 4, "-o", out),
        "quantize": ("--scheme", "float16", "-o", out),
        "quantize int8": ("--calibrate", tmp_path / "x.npy", "-o", out),
        "lora": ("--rank", 1, "-o", tmp_path / "a.npz"),
    }
    words = [command.split(maxsplit=1)[0], path, "--signature", "classify", *options[command]]
    result = CliRunner().invoke(main, [str(w) for w in words])
    assert result.exit_code == 0, result.output
    if command == "lora":
        assert f"odt train {path} --signature classify --adapters" in result.output
        merge = ["lora", path, "--signature", "classify", "--merge", tmp_path / "a.npz", "-o", out]
        assert CliRunner().invoke(main, [str(w) for w in merge]).exit_code == 0
    scores = signature(out, "classify", X)
    assert scores.shape == (16, 4 if command == "replace-head" else CLASSES)
    if command != "replace-head":
        np.testing.assert_allclose(scores, signature(path, "classify", X), atol=0.03)


def test_a_damaged_subgraph_stays_as_it_is(tmp_path: Path) -> None:
    class Damaged(TwoSignatures):
        def embedding(self, buffers: dict[str, int]) -> int:
            z = super().embedding(buffers)
            self.graph.operators[0].outputs = [z]  # which the last operator makes too
            return z

    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    write_form(Damaged, path)
    trained(path, out, "classify", Y)
    assert out.stat().st_size > path.stat().st_size  # buffers that it reads keep their values
    assert [s.key for s in read_model(out).signatures] == ["classify", "embed"]


def test_other_subgraphs_do_not_matter_without_weights_that_change(tmp_path: Path) -> None:
    write_form(TwoCopies, tmp_path / "m.tflite")
    model = read_model(tmp_path / "m.tflite")
    export_model(model, {}, tmp_path / "out.tflite")
    assert (tmp_path / "out.tflite").read_bytes() == (tmp_path / "m.tflite").read_bytes()
