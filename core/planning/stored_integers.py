"""Plans whose weights are integers in memory.

A call computes the real numbers of a weight before each call that reads them. They live in the
arena until that call, so that forward and backward each need memory for one weight at a time.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from odt.core.planning.plan import Call, Delivery, Plan, Region
from odt.dataclass import dataclass
from odt.kernels.geometry.quantize import steps_to_real
from odt.kernels.geometry.weight_quantization import WeightQuantization
from odt.kernels.native.library import compiled_of
from odt.kernels.native.updates import dequantize_units, dequantize_units_fits
from odt.kernels.rows.opdef import Array, Compiled, Kernel, TensorSpec


@dataclass(frozen=True, slots=True)
class StoredAttrs:
    quantization: WeightQuantization


def _dequantize(attrs: StoredAttrs, *, x: Array, y: Array) -> None:
    steps_to_real(x, *attrs.quantization.first.along_axis(x.ndim), y)


COMPILED = Compiled(dequantize_units, dequantize_units_fits)
DEQUANTIZE = Kernel(_dequantize, reads=("x",), writes=("y",), compiled=COMPILED)
KEYS = ("x",), ("y",), ()  # what it reads and writes, and its workspace


def can_store(plan: Plan, tensor: int) -> bool:
    """Whether a tensor can be integers in a plan: it has a quantization of a byte, and no views."""
    quantization = plan.graph.tensors[tensor].quantization
    name = f"t{tensor}"
    views = any(value.base == name for value in plan.values.values())
    return quantization is not None and quantization.dtype.itemsize == 1 and not views


def with_stored_integers(plan: Plan, stored: Mapping[int, WeightQuantization]) -> Plan:
    """Returns a plan that reads the integers of weights.

    Args:
        plan: plan that reads their real numbers.
        stored: tensor of the graph → how it is stored.
    """
    names = {f"t{i}": q for i, q in stored.items() if f"t{i}" in plan.values}
    values = dict(plan.values)
    for name, quantization in names.items():
        spec = TensorSpec(values[name].spec.shape, np.dtype(quantization.dtype))
        values[name] = replace(values[name], spec=spec)
    entries: list[Call | Delivery] = []
    for entry in plan.entries:
        if isinstance(entry, Delivery):
            entries.append(entry)
            continue
        read = dict.fromkeys(n for n in entry.values(entry.reads) if n in names)
        arrays = entry.arrays
        for name in read:
            real, whole = f"{len(entries)}.{name}", plan.values[name]
            values[real] = replace(whole, name=real, region=Region.ARENA, tensor=None)
            specs = {"x": values[name].spec, "y": whole.spec}
            label, attrs = f"{entry.label.split(' ')[0]} DEQUANTIZE", StoredAttrs(names[name])
            operands = {"x": name, "y": real}
            work, compiled = 2 * whole.spec.size, compiled_of(DEQUANTIZE, attrs, specs)
            entries.append(
                Call(label, entry.phase, DEQUANTIZE, attrs, operands, *KEYS, specs, work, compiled)
            )
            arrays = {n: real if v == name else v for n, v in arrays.items()}
        entries.append(replace(entry, arrays=arrays) if read else entry)
    return replace(plan, entries=tuple(entries), values=values)
