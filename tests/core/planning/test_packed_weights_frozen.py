"""Frozen weights of integers stay as they are: dense layers read them directly."""

from pathlib import Path

import numpy as np
import pytest
from support.packed_files import PackedBuilder

import odt
from odt.core.formats.reader import read_model
from odt.core.planning.computation import Computation, Plans
from odt.core.planning.plan import Region
from odt.core.planning.stored_weights import DECODE, StoredAttrs
from odt.core.recipe.lowered_model import lower_model
from odt.kernels.geometry.block_formats import BLOCK_FORMATS, BlockFormat
from odt.kernels.geometry.decoders import IntegerDecoder, decoded
from odt.kernels.geometry.quantize import Quantization
from odt.kernels.geometry.weight_quantization import unpack
from odt.kernels.native import dense, library
from odt.kernels.native.convolution import panel_workspace
from odt.kernels.native.library import compiled_of, is_available
from odt.kernels.native.stored_products import FORWARD, GRAD_X
from odt.kernels.native.stored_weights import (
    decode,
    decode_rows,
    packed_dense,
    packed_dense_fits,
)
from odt.kernels.rows.opdef import Array, TensorSpec

FORMS = [(2, 0), (4, 0), (8, 0), (2, 32), (4, 32), (8, 32)]  # bits, block
needs_compiled = pytest.mark.skipif(not is_available(), reason="no compiled kernels")


def weight(bits: int, block: int, units: int, depth: int) -> tuple[IntegerDecoder, Array]:
    """A decoder, and random packed integers."""
    rng = np.random.default_rng(bits + block)
    count = units * depth // block if block else units
    scale = rng.uniform(0.01, 0.1, count).astype(np.float32)
    blocks = (1, block) if block else ()
    first = Quantization(scale, np.zeros(count, np.int64), 0, blocks)
    packed: Array = rng.integers(0, 256, units * depth * bits // 8).astype(np.uint8)
    if bits == 8:
        packed = packed.view(np.int8).reshape(units, depth)
    return IntegerDecoder(first, bits), packed


def expected(decoder: IntegerDecoder, packed: Array, shape: tuple[int, int]) -> Array:
    """The real numbers of packed integers, one at a time."""
    bits, scale = decoder.bits, decoder.quantization.scale
    count = shape[0] * shape[1]
    packed = packed.reshape(-1).view(np.uint8)
    values = [int(packed[k * bits // 8]) >> (k * bits % 8) & (2**bits - 1) for k in range(count)]
    signed = [v - 2**bits if v >= 2 ** (bits - 1) else v for v in values]
    each = np.repeat(scale, count // scale.size)
    real: Array = np.array(signed, np.float32) * each
    return real.reshape(shape)


@pytest.mark.parametrize(("bits", "block"), FORMS)
@pytest.mark.parametrize("shape", [(3, 64), (7, 160), (5, 2016)])
def test_packed_integers_become_real_numbers(bits: int, block: int, shape: tuple[int, int]) -> None:
    decoder, packed = weight(bits, block, *shape)
    real = expected(decoder, packed, shape)
    np.testing.assert_array_equal(decoded(decoder, packed, shape), real)
    y = np.full(shape, np.nan, np.float32)
    attrs = StoredAttrs(decoder, shape, "")
    DECODE.run(attrs, x=packed, y=y)
    np.testing.assert_array_equal(y, real)
    if is_available():
        specs = {"x": TensorSpec(packed.shape, packed.dtype), "y": TensorSpec(shape, y.dtype)}
        assert compiled_of(DECODE, attrs, specs)
        y.fill(np.nan)
        decode(attrs, x=packed, y=y)()
        np.testing.assert_array_equal(y, real)


@pytest.mark.parametrize(("bits", "block"), FORMS)
def test_rows_of_a_table_are_decoded_alone(bits: int, block: int) -> None:
    shape, at = (7, 160), np.array([6, 0, 3, 3])
    decoder, packed = weight(bits, block, *shape)
    real = expected(decoder, packed, shape)[at]
    assert decoder.can_decode_rows(shape)
    out = np.full((4, 160), np.nan, np.float32)
    decoder.decode_rows(packed, at, out)
    np.testing.assert_array_equal(out, real)
    if is_available():
        out.fill(np.nan)
        decode_rows(StoredAttrs(decoder, shape, ""), x=packed, at=at, y=out)()
        np.testing.assert_array_equal(out, real)


def test_a_part_of_a_byte_is_unpacked() -> None:
    out = np.full(5, 9, np.int8)
    unpack(np.array([0b11_00_10_01, 0b10], np.uint8), 2, out)
    assert out.tolist() == [1, -2, 0, -1, -2]


@needs_compiled
@pytest.mark.parametrize(("bits", "block"), FORMS)
@pytest.mark.parametrize("shape", [(3, 64), (9, 160), (64, 2016)])
@pytest.mark.parametrize("rows", [1, 3, 16])
def test_a_dense_layer_reads_packed_weights(
    bits: int, block: int, shape: tuple[int, int], rows: int
) -> None:
    decoder, packed = weight(bits, block, *shape)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, shape[1])).astype(np.float32)
    b = rng.normal(size=shape[0]).astype(np.float32)
    attrs = StoredAttrs(decoder, shape, "FULLY_CONNECTED")
    y, planes = np.full((rows, shape[0]), np.nan, np.float32), np.empty(x.size, np.float32)
    specs = {n: TensorSpec(a.shape, a.dtype) for n, a in (("x", x), ("w", packed), ("y", y))}
    assert packed_dense_fits(attrs, specs)
    packed_dense(attrs, x=x, w=packed, y=y, planes=planes, b=b)()
    exact = x.astype(np.float64) @ expected(decoder, packed, shape).T.astype(np.float64) + b
    np.testing.assert_allclose(y, exact, rtol=1e-4, atol=1e-4)


def in_blocks(kind: str, units: int, depth: int) -> tuple[BlockFormat, Array]:
    """A decoder of GGML's blocks, and random ones."""
    rng, form = np.random.default_rng(0), BLOCK_FORMATS[kind]
    blocks = rng.integers(0, 256, (units * depth // form.values, form.nbytes)).astype(np.uint8)
    scales = rng.uniform(-0.1, 0.1, (len(blocks), form.header // 2))
    blocks[:, : form.header] = scales.astype("<f2").view(np.uint8)
    return form, blocks.reshape(-1)


@needs_compiled
@pytest.mark.parametrize("form", [*FORMS[:5], *BLOCK_FORMATS])
@pytest.mark.parametrize("shape", [(16, 64), (208, 192), (1536, 576)])
def test_products_have_the_bits_of_decoded_weights(
    form: tuple[int, int] | str, shape: tuple[int, int]
) -> None:
    """Forward and by x, for weights of one panel and of several, and any number of threads."""
    units, depth = shape
    decoder, stored = in_blocks(form, *shape) if isinstance(form, str) else weight(*form, *shape)
    attrs, real = StoredAttrs(decoder, shape, ""), decoded(decoder, stored, shape)
    rng = np.random.default_rng(1)
    x, dy, b = (rng.normal(size=n).astype(np.float32) for n in ((30, depth), (30, units), units))
    dx, y, of_x, of_y = (np.full_like(a, np.nan) for a in (x, dy, x, dy))
    specs = {n: TensorSpec(a.shape, a.dtype) for n, a in (("x", x), ("dy", dy), ("w", stored))}
    specs |= {"y": specs["dy"], "dx": specs["x"]}
    assert FORWARD.fits(attrs, specs)
    assert GRAD_X.fits(attrs, specs)
    panel = np.empty(panel_workspace(depth, units)["panel"].shape, np.float32)
    dense.forward(None, x=x, w=real, y=of_y, b=b, clamp=(0.0, 1.0), panel=panel)()
    dense.grad_x(None, dy=dy, w=real, dx=of_x, relu_mask=(x, 0.0, np.inf))()
    panels = [
        np.full(k.workspace(attrs, specs)["panel"].shape, np.nan, np.float32)
        for k in (FORWARD, GRAD_X)
    ]
    calls = (
        FORWARD.bind(attrs, x=x, w=stored, y=y, b=b, clamp=(0.0, 1.0), panel=panels[0]),
        GRAD_X.bind(attrs, dy=dy, w=stored, dx=dx, relu_mask=(x, 0.0, np.inf), panel=panels[1]),
    )
    try:
        for threads in (1, 2, 3, 16):
            library.set_threads(threads)
            for array in (*panels, y, dx):
                array.fill(np.nan)
            for call in calls:
                call()
            np.testing.assert_array_equal(y.view(np.uint32), of_y.view(np.uint32))
            np.testing.assert_array_equal(dx.view(np.uint32), of_x.view(np.uint32))
    finally:
        library.set_threads(1)


def network(bits: int, block: int, path: Path) -> Path:
    """Two dense layers of packed weights, and one of floats."""
    b = PackedBuilder(bits)
    x, width = b.add_input((1, 128)), 128
    for units in (96, 160):
        integers = b.rng.integers(-2, 2, (units, width)).astype(np.int8)
        scale = b.rng.uniform(0.02, 0.1, (units, width // block if block else 1))
        scale = scale.astype(np.float16).astype(np.float32)
        w = b.add_packed(integers, scale if block else scale[:, 0], bits, block)
        bias = b.add_constant(b.rng.normal(size=units).astype(np.float32))
        y = b.add_operator("FULLY_CONNECTED", (x, w, bias), (1, units), fused_activation_function=1)
        x, width = y, units
    b.write(path, b.add_dense(x, 5))
    return path


def with_float_weights(path: Path) -> Path:
    """Writes the same model with float weights, in which nothing is packed."""
    to = path.with_name("float.tflite")
    odt.Trainer(path, loss="mean_squared_error").export(to, float_weights=True)
    return to


def samples() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(96, 128)).astype(np.float32)
    return x, rng.normal(size=(96, 5)).astype(np.float32)


@pytest.mark.parametrize(("bits", "block"), FORMS)
@pytest.mark.parametrize("batch", [2, 48])
def test_frozen_layers_train_others_as_float_weights_do(
    bits: int, block: int, batch: int, tmp_path: Path
) -> None:
    """The same training as that of the file with float weights, in which nothing is packed."""
    path = network(bits, block, tmp_path / "m.tflite")
    as_float = with_float_weights(path)
    x, y = samples()
    results = []
    for file in (path, as_float):
        with odt.Trainer(
            file,
            loss="mean_squared_error",
            batch_size=batch,
            learning_rate=1e-3,
            trainable=odt.Trainable(patterns=["dense_*"]),
        ) as trainer:
            trainer.fit(x, y, epochs=2, seed=1)
            trainer.export(tmp_path / "out.tflite")
            results.append(trainer.predict(x[:1]))
            np.testing.assert_allclose(
                odt.predict(tmp_path / "out.tflite", x[:1]), results[-1], rtol=1e-4, atol=1e-4
            )
    np.testing.assert_allclose(results[0], results[1], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("bits", "block"), FORMS)
def test_the_weights_of_adapters_stay_packed(bits: int, block: int, tmp_path: Path) -> None:
    """Adapters train as on the same weights as floats, and the plan holds the file's bytes."""
    path = network(bits, block, tmp_path / "m.tflite")
    as_float = with_float_weights(path)
    x, y = samples()
    losses = []
    for file in (path, as_float):
        model = odt.lora(odt.load_model(file), 4, target="w*", seed=1)
        with odt.Trainer(model, loss="mean_squared_error", learning_rate=1e-2) as trainer:
            losses.append(trainer.fit(x, y, epochs=2, seed=1).history["loss"])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
    lowered = lower_model(read_model(path))
    sizes = [t.data.nbytes for t in lowered.graph.tensors if t.decoder and t.data is not None]
    assert sizes == [96 * 128 * bits // 8, 160 * 96 * bits // 8]
    plan = Plans(lowered.graphs).plan(Computation(outputs=True), 4)
    held = [v.spec.nbytes for v in plan.values.values() if v.region is Region.CONSTANT]
    assert max(held) == 160 * 96 * bits // 8
