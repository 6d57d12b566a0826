"""Plans whose weights are integers in memory.

A call computes the real numbers of a weight before each call that reads them. They live in the
arena until that call, so that forward and backward each need memory for one weight at a time.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from odt.core.planning.plan import Call, Delivery, Plan, Region, Value
from odt.dataclass import dataclass
from odt.kernels.geometry.quantize import steps_to_real
from odt.kernels.geometry.weight_quantization import WeightQuantization
from odt.kernels.native.library import compiled_of
from odt.kernels.native.updates import dequantize_units, dequantize_units_fits
from odt.kernels.rows.opdef import Array, Compiled, Kernel, TensorSpec


@dataclass(frozen=True, slots=True)
class StoredAttrs:
    """Attributes of the call that computes real numbers: the quantization of its weight."""

    quantization: WeightQuantization


def _dequantize(attrs: StoredAttrs, *, x: Array, y: Array) -> None:
    steps_to_real(x, *attrs.quantization.first.along_axis(x.ndim), y)


COMPILED = Compiled(dequantize_units, dequantize_units_fits)
DEQUANTIZE = Kernel(_dequantize, reads=("x",), writes=("y",), compiled=COMPILED)


def can_store(plan: Plan, tensor: int) -> bool:
    """Whether a tensor can be integers in a plan.

    It has a quantization of a byte, without blocks, and no views.
    """
    quantization = plan.graph.tensors[tensor].quantization
    if quantization is None or quantization.dtype.itemsize > 1 or quantization.first.blocks:
        return False
    name = f"t{tensor}"
    return not any(value.base == name for value in plan.values.values())


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
        values[name] = replace(values[name], spec=spec)
    entries: list[Call | Delivery] = []
    for entry in plan.entries:
        if isinstance(entry, Delivery):
            entries.append(entry)
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


def _dequantization(
    reader: Call, integers: Value, real: Value, quantization: WeightQuantization
) -> Call:
    """Returns the call that computes real numbers for a call that reads them."""
    attrs, specs = StoredAttrs(quantization), {"x": integers.spec, "y": real.spec}
    return Call(
        f"{reader.label.split(' ')[0]} DEQUANTIZE",
        reader.phase,
        DEQUANTIZE,
        attrs,
        {"x": integers.name, "y": real.name},
        reads=("x",),
        writes=("y",),
        workspace=(),
        specs=specs,
        flops=2 * real.spec.size,
        compiled=compiled_of(DEQUANTIZE, attrs, specs),
    )
