"""Plans whose weights are integers in memory.

A call computes the real numbers of a weight before each call that reads them. They live in the
arena until that call, so that forward and backward each need memory for one weight at a time.

Integers of 2 and 4 bits that do not train are packed, as in the file. Dense layers of few rows read
them as they are.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from odt.core.planning.plan import Call, Delivery, Phase, Plan, Region, Value
from odt.dataclass import dataclass
from odt.kernels.geometry.quantize import steps_to_real
from odt.kernels.geometry.weight_quantization import WeightQuantization, unpack
from odt.kernels.native.library import compiled_of
from odt.kernels.native.updates import (
    dequantize_units,
    dequantize_units_fits,
    packed_dense,
    packed_dense_fits,
    unpack_units,
    unpack_units_fits,
)
from odt.kernels.rows.opdef import Array, Compiled, Kernel, Specs, TensorSpec


@dataclass(frozen=True, slots=True)
class StoredAttrs:
    """Attributes of the call that computes real numbers: the quantization of its weight."""

    quantization: WeightQuantization


def _dequantize(attrs: StoredAttrs, *, x: Array, y: Array) -> None:
    steps_to_real(x, *attrs.quantization.first.along_axis(x.ndim), y)


def _unpack(attrs: StoredAttrs, *, x: Array, y: Array) -> None:
    unpack(x, attrs.quantization.bits, y.reshape(-1, copy=False))
    first = attrs.quantization.first
    real = first.rows(y)
    steps_to_real(real, *first.along_axis(y.ndim), real)


@dataclass(frozen=True, slots=True)
class PackedAttrs:
    """Attributes of a dense layer with packed weights: their quantization, and their shape."""

    quantization: WeightQuantization
    shape: tuple[int, ...]


def _packed_dense(
    attrs: PackedAttrs, *, x: Array, w: Array, y: Array, planes: Array, b: Array | None = None
) -> None:
    raise AssertionError("plans use it as a compiled kernel alone")


def _planes(attrs: PackedAttrs, s: Specs) -> Specs:
    """Returns the workspace for the values of x in the order in which bytes hold integers."""
    return {"planes": TensorSpec((s["x"].size,), s["x"].dtype)}


COMPILED = Compiled(dequantize_units, dequantize_units_fits)
UNPACK = Kernel(
    _unpack, reads=("x",), writes=("y",), compiled=Compiled(unpack_units, unpack_units_fits)
)
PACKED_DENSE = Kernel(
    _packed_dense,
    reads=("x", "w", "b?"),
    writes=("y",),
    compiled=Compiled(packed_dense, packed_dense_fits, _planes),
)
DEQUANTIZE = Kernel(_dequantize, reads=("x",), writes=("y",), compiled=COMPILED)


def can_store(plan: Plan, tensor: int) -> bool:
    """Whether a tensor can be integers in a plan.

    It has a quantization of a byte, without blocks unless it is packed, and no views.
    """
    quantization = plan.graph.tensors[tensor].quantization
    if quantization is None or quantization.dtype.itemsize > 1:
        return False
    if quantization.first.blocks and not is_packed(plan, tensor):
        return False
    name = f"t{tensor}"
    return not any(value.base == name for value in plan.values.values())


def is_packed(plan: Plan, tensor: int) -> bool:
    """Whether the graph of a plan has the packed integers of a weight."""
    entry = plan.graph.tensors[tensor]
    packs = entry.quantization is not None and entry.quantization.bits > 0
    return packs and entry.data is not None and entry.data.dtype == np.uint8


def with_stored_integers(plan: Plan, stored: Mapping[int, WeightQuantization]) -> Plan:
    """Returns a plan that reads the integers of weights.

    Args:
        plan: plan that reads their real numbers.
        stored: tensor of the graph → how it is stored.
    """
    quantizations = {f"t{i}": q for i, q in stored.items() if f"t{i}" in plan.values}
    values = dict(plan.values)
    for name, quantization in quantizations.items():
        spec = TensorSpec(values[name].spec.shape, np.dtype(quantization.dtype))
        tensor = values[name].tensor
        if tensor is not None and is_packed(plan, tensor):
            data = plan.graph.tensors[tensor].data
            assert data is not None, "packed weights are constants"
            spec = TensorSpec(data.shape, data.dtype)
        values[name] = replace(values[name], spec=spec)
    entries: list[Call | Delivery] = []
    for entry in plan.entries:
        if isinstance(entry, Delivery):
            entries.append(entry)
            continue
        dense = _on_packed(entry, len(entries), values, quantizations)
        if dense is not None:
            entries.append(dense)
            continue
        operands = entry.arrays
        for name in dict.fromkeys(n for n in entry.values(entry.reads) if n in quantizations):
            weight = plan.values[name]
            real = replace(weight, name=f"{len(entries)}.{name}", region=Region.ARENA, tensor=None)
            values[real.name] = real
            entries.append(_dequantization(entry, values[name], real, quantizations[name]))
            operands = {n: real.name if v == name else v for n, v in operands.items()}
        entries.append(entry if operands is entry.arrays else replace(entry, arrays=operands))
    return replace(plan, entries=tuple(entries), values=values)


def _on_packed(
    call: Call,
    number: int,
    values: dict[str, Value],
    quantizations: Mapping[str, WeightQuantization],
) -> Call | None:
    """Returns a call of a dense layer that reads packed weights; None for other calls.

    Args:
        call: the call, which reads real numbers.
        number: position of the call.
        values: values of the plan, to which scratch memory is added.
        quantizations: weights that are integers.
    """
    name = call.arrays.get("w", "")
    if call.phase is not Phase.FORWARD or not call.label.endswith("FULLY_CONNECTED"):
        return None
    if name not in quantizations or values[name].spec.dtype != np.uint8:
        return None
    attrs = PackedAttrs(quantizations[name], call.specs["w"].shape)
    specs = {**call.specs, "w": values[name].spec}
    compiled = compiled_of(PACKED_DENSE, attrs, specs)
    if compiled is None or list(call.arrays.values()).count(name) > 1:
        return None
    ((scratch, spec),) = compiled.workspace(attrs, specs).items()
    planes = Value(f"{number}.{scratch}", spec, Region.ARENA)
    values[planes.name] = planes
    kept = {n: v for n, v in call.arrays.items() if n not in call.workspace}
    return replace(
        call,
        kernel=PACKED_DENSE,
        attrs=attrs,
        arrays={**kept, scratch: planes.name},
        workspace=(scratch,),
        specs=specs,
        compiled=compiled,
    )


def _dequantization(
    reader: Call, integers: Value, real: Value, quantization: WeightQuantization
) -> Call:
    """Returns the call that computes real numbers for a call that reads them."""
    attrs, specs = StoredAttrs(quantization), {"x": integers.spec, "y": real.spec}
    packed = quantization.bits > 0 and integers.spec.dtype == np.uint8
    kernel = UNPACK if packed else DEQUANTIZE
    return Call(
        f"{reader.label.split(' ')[0]} DEQUANTIZE",
        reader.phase,
        kernel,
        attrs,
        {"x": integers.name, "y": real.name},
        reads=("x",),
        writes=("y",),
        workspace=(),
        specs=specs,
        flops=2 * real.spec.size,
        compiled=compiled_of(kernel, attrs, specs),
    )
