"""Asks the rows of operators on quantized tensors: QuantizedDef and the integer kernels.

A new one needs `quantized` in kernels/ops/NAME.py, its kernel in kernels/integer/NAME.py and its
file in tests/op_db. What to do when one of these fails stands in the assertion's message.
"""

from dataclasses import replace

import numpy as np
import pytest
from op_db import OP_DB, OpInfo, Sample
from support.allocation import MAX_BYTES, peak_of
from support.op_run import Arrays, Case, draw, row_of, spec_of

from odt.core.formats.flatbuffer.operator_options import tensor_type
from odt.core.lowering.binding import names_of
from odt.core.model.integer_operators import CONVERSIONS
from odt.errors import ShapeError
from odt.kernels.families.requantize import QuantizedTensor
from odt.kernels.geometry.quantize import (
    Quantization,
    dequantize,
    limits,
    one_scale,
    quantize,
    range_quantization,
)
from odt.kernels.registry import INTEGER, integer_constants, integer_names, operator_names
from odt.kernels.rows.opdef import Array, OpDef, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef

INT8, INT32 = np.dtype(np.int8), np.dtype(np.int32)
TYPES = {tensor_type(k) for k in range(20)}
ROWS = {
    row.name: row.quantized for row in map(row_of, operator_names()) if row.quantized is not None
}
EACH = pytest.mark.parametrize("op", sorted(ROWS))


def samples(names: list[str]) -> pytest.MarkDecorator:
    """Parametrizes a test with all small samples of operators on real numbers."""
    infos = [OP_DB[name] for name in names]
    pairs = [(info, s) for info in infos for s in info.samples if is_real(info, s)]
    ids = [f"{info.name}-{sample.label}" for info, sample in pairs]
    return pytest.mark.parametrize(("info", "sample"), pairs, ids=ids)


def is_real(info: OpInfo, sample: Sample) -> bool:
    """Whether all inputs but positions and sizes are real numbers."""
    stops = row_of(info.name).stops
    inputs = draw(info, sample, np.float64)
    return all(a.dtype.kind == "f" for n, a in inputs.items() if n not in stops)


def test_every_integer_kernel_has_a_row_that_says_quantized() -> None:
    missing = sorted(integer_names() - {*CONVERSIONS} - ROWS.keys())
    assert not missing, f"give OP `quantized=QuantizedDef(…)` in kernels/ops/<name>.py of {missing}"


@EACH
def test_facts_fit_the_row(op: str) -> None:
    row, facts = row_of(op), ROWS[op]
    least = [*facts.versions.values()]
    assert facts.versions.keys() <= TYPES & {"INT8", "UINT8", "INT16", "INT4"}
    assert not least or min(least) > 1, "leave out types of version 1"
    assert facts.int8 or not facts.int16, "int16 activations are computed where int8 ones are"
    assert facts.int8 or not facts.layers or len(facts.layers) > 1
    assert bool(facts.hybrid) <= bool(facts.layers), "hybrid operators are layers"
    assert set(facts.hybrid) <= {"int8", "int4"}
    assert not facts.refused or not facts.int8
    assert facts.range is None or facts.range[0] < facts.range[1]
    names = names_of(row.inputs).plain
    for layer in facts.layers:
        assert names[layer.w] in {n.rstrip("?") for n in row.grads}, "weights train"
        assert f"{names[layer.b]}?" in row.inputs, "a layer may be without bias"
    assert all(f"{names[k]}?" in row.inputs for k in facts.absent), "these are optional inputs"


@EACH
def test_facts_of_an_integer_kernel_have_one(op: str) -> None:
    facts = ROWS[op]
    told = facts.bytes_only or facts.one_scale or facts.pads_input
    assert not told or op in integer_names(), f"write kernels/integer/{op.lower()}.py"


@samples([op for op, facts in ROWS.items() if facts.values == "moved"])
def test_operators_that_move_values_move_integers(info: OpInfo, sample: Sample) -> None:
    real = draw(info, sample, np.float64)
    inputs = {n: as_integers(a) if a.dtype.kind == "f" else a for n, a in real.items()}
    row = row_of(info.name)
    case = Case.make(row, row.attrs(sample.options, sample.statics), inputs)
    expected = info.reference({**sample.options, **sample.statics}, inputs)
    for name, y in case.forward().items():
        assert y.dtype == INT8, f"{name}: infer and run must keep the type of integers"
        np.testing.assert_array_equal(y, expected[name])


def as_integers(a: Array) -> Array:
    """Quantizes to int8 over the whole range, so that few values are equal."""
    most = float(np.abs(a).max(initial=0)) or 1.0
    return np.asarray(np.rint(a / most * 127), INT8)


INTEGER_ROWS = [op for op in ROWS if op in integer_names() and len(ROWS[op].layers) < 2]


@samples(INTEGER_ROWS)
def test_integer_kernels_compute_the_definition(info: OpInfo, sample: Sample) -> None:
    """The output is at most one step from the reference, on the numbers of the integers."""
    case, expected, to = integer_case(info, sample)
    y = case.forward()["y"]
    assert y.dtype == INT8
    steps = np.rint(expected / float(to.scale[0])) + int(to.zero_point[0])
    beyond = np.abs(y - np.clip(steps, *limits(INT8)))
    assert beyond.max(initial=0) <= 1, f"off by {beyond.max()} steps"


@samples(INTEGER_ROWS)
def test_integer_rows_take_the_batches_and_axes_of_the_real_ones(
    info: OpInfo, sample: Sample
) -> None:
    real, case = row_of(info.name), integer_case(info, sample)[0]
    for name in ("add_batch_axis", "permute"):
        is_missing = getattr(real, name) is not None and getattr(case.row, name) is None
        assert not is_missing, f"{case.row.name} must have {name}, as {info.name} has"
    batched = frozenset(sample.inputs.keys() - {*sample.constants})
    inputs = {n: spec_of(a) for n, a in draw(info, sample, np.float64).items()}
    mixes = real.mixes_samples(real.attrs(sample.options, sample.statics), inputs, batched)
    assert case.row.mixes_samples(case.attrs, case.specs, batched) == mixes, (
        f"mixes_samples of {case.row.name} must be that of {info.name}"
    )


@pytest.mark.parametrize("op", INTEGER_ROWS)
def test_an_integer_call_allocates_nothing_that_grows(op: str) -> None:
    sample = OP_DB[op].large
    assert sample is not None
    case = integer_case(OP_DB[op], sample)[0]
    _, arrays, prepared = case.bind(case.row.forward)
    peak = peak_of(case.row.forward, case.attrs, {**arrays, **prepared})
    assert peak < MAX_BYTES, f"{case.row.name} allocates {peak} bytes: use out=, workspace"


def integer_case(info: OpInfo, sample: Sample) -> tuple[Case, Array, Quantization]:
    """Returns the integer row with a sample's inputs, the reference of y, and y's quantization."""
    facts, inputs = ROWS[info.name], draw(info, sample, np.float64)
    tensors, integers = quantized_inputs(row_of(info.name), facts, inputs)
    real = {n: dequantize(integers[n], t.quantization) for n, t in tensors.items()}
    expected = np.asarray(info.reference({**sample.options, **sample.statics}, real)["y"])
    to = tensors["x"].quantization if facts.one_scale else output_quantization(facts, expected)
    tensors["y"] = QuantizedTensor(to, INT8)
    row = row_of(INTEGER + info.name)
    arrays = {**integers, **integer_constants(info.name)(tensors)}
    attrs = row.attrs({**sample.options, "quantized": tensors}, sample.statics)
    named = {n: arrays[n] for n in names_of(row.inputs).plain if n in arrays}
    return Case.make(row, attrs, named), expected, to


def quantized_inputs(
    row: OpDef, facts: QuantizedDef, inputs: Arrays
) -> tuple[dict[str, QuantizedTensor], Arrays]:
    """Quantizes inputs: activations over their range, weights around 0, biases by both scales."""
    tensors: dict[str, QuantizedTensor] = {}
    names = names_of(row.inputs).plain
    layer = facts.layers[0] if facts.layers else None
    weights, bias = (names[layer.w], names[layer.b]) if layer else ("", "")
    for name, a in inputs.items():
        if name == bias:
            continue
        scale = one_scale(float(np.abs(a).max()) / 127, 0)
        spread = range_quantization(float(a.min()), float(a.max()), INT8)
        tensors[name] = QuantizedTensor(scale if name == weights else spread, INT8)
    integers = {n: quantize(inputs[n], t.quantization, INT8) for n, t in tensors.items()}
    if layer and bias in inputs:
        scale = one_scale(tensors[names[layer.x]].scale * tensors[weights].scale, 0)
        tensors[bias] = QuantizedTensor(scale, INT32)
        integers[bias] = quantize(inputs[bias], scale, INT32)
    tensors = {n: replace(t, shape=integers[n].shape) for n, t in tensors.items()}
    constants = {weights, bias} & integers.keys()
    return tensors | {n: replace(tensors[n], data=integers[n]) for n in constants}, integers


def output_quantization(facts: QuantizedDef, y: Array) -> Quantization:
    lo, hi = facts.range or (float(y.min(initial=0)), float(y.max(initial=0)))
    return one_scale((hi - lo) / 256, -128) if facts.range else range_quantization(lo, hi, INT8)


@pytest.mark.parametrize(
    "op", ["ADD", "HARD_SWISH", "LEAKY_RELU", "MEAN", "MUL", "QUANTIZE", "SUB"]
)
def test_quotients_of_scales_are_limited(op: str) -> None:
    small, large = (QuantizedTensor(one_scale(scale, 0), INT8) for scale in (1e-37, 1e4))
    tensors = {**dict.fromkeys(("a", "b", "x"), large), "y": small}
    with np.errstate(all="raise"), pytest.raises(ShapeError, match="quotients of scales"):
        row_of(INTEGER + op).attrs({"quantized": tensors}, {"axes": np.zeros(1, np.int32)})


def test_the_product_of_scales_is_limited() -> None:
    """LiteRT computes it in float32."""
    scales = {"a": 1e30, "b": 1e30, "y": 1e38}
    tensors = {n: QuantizedTensor(one_scale(s, 0), np.dtype(np.int16)) for n, s in scales.items()}
    with pytest.raises(ShapeError, match="quotients of scales"):
        row_of(INTEGER + "MUL").attrs({"quantized": tensors}, {})


def test_hard_swish_of_far_smaller_steps_is_0() -> None:
    row, one = row_of(INTEGER + "HARD_SWISH"), QuantizedTensor(one_scale(1.0, 0), INT8)
    large = QuantizedTensor(one_scale(1e30, 7), INT8)
    attrs = row.attrs({"quantized": {"x": one, "y": large}}, {})
    table = row.forward.prepare(attrs, {"x": TensorSpec((1,), INT8)})["table"]
    assert table.tolist() == [7] * 256
