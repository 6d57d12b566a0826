"""Plans whose weights are in memory as the file stores them: as integers, or in blocks.

A call computes the real numbers of a weight before each call that reads them. They live in the
arena until that call, so that forward and backward each need memory for one weight at a time. Dense
layers decode weights as they pack them, those of few rows read packed integers as they are, and
tables are decoded row by row.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np

from odt.core.planning.plan import Call, Delivery, Phase, Plan, Region, Value
from odt.dataclass import dataclass
from odt.kernels.families import gather
from odt.kernels.geometry.decoders import Decoder, IntegerDecoder, RoundingDecoder
from odt.kernels.geometry.softmax_geometry import ChunkedAttrs
from odt.kernels.geometry.weight_quantization import WeightQuantization
from odt.kernels.native import stored_products
from odt.kernels.native.binding import in_order
from odt.kernels.native.library import compiled_of
from odt.kernels.native.stored_weights import (
    decode,
    decode_fits,
    decode_rows,
    decode_rows_fits,
    packed_dense,
    packed_dense_fits,
)
from odt.kernels.registry import find_operator
from odt.kernels.rows.opdef import Array, Compiled, Kernel, Specs, TensorSpec

TABLES = {"GATHER": ("x", "indices"), "EMBEDDING_LOOKUP": ("table", "ids")}  # operands


@dataclass(frozen=True, slots=True)
class StoredAttrs:
    """Attributes of the calls that read a stored weight.

    Attributes:
        decoder: computes its real numbers.
        shape: its shape.
        reader: operator that reads it, for messages.
    """

    decoder: Decoder
    shape: tuple[int, ...]
    reader: str


def _decode(attrs: StoredAttrs, *, x: Array, y: Array) -> None:
    attrs.decoder.decode(x, y)


def _only_compiled(attrs: StoredAttrs, **arrays: Array) -> None:
    raise AssertionError("plans use it as a compiled kernel alone")


def _planes(attrs: StoredAttrs, s: Specs) -> Specs:
    """Returns the workspace for the values of x in the order in which bytes hold integers."""
    return {"planes": TensorSpec((s["x"].size,), s["x"].dtype)}


def _select_rows(
    attrs: StoredAttrs, *, x: Array, indices: Array, y: Array, at: Array, step: Array
) -> None:
    gather.find(attrs.reader, indices.reshape(-1, 1), attrs.shape[:1], at, step)
    attrs.decoder.decode_rows(x, at, y.reshape(at.size, -1, copy=False))


def _rows_workspace(attrs: StoredAttrs, s: Specs) -> Specs:
    return gather.workspace(TensorSpec((*s["indices"].shape, 1), s["indices"].dtype))


def _compiled_rows_workspace(attrs: StoredAttrs, s: Specs) -> Specs:
    return gather.compiled_workspace(TensorSpec((*s["indices"].shape, 1), s["indices"].dtype))


def _call_select_rows(
    attrs: StoredAttrs, *, x: Array, indices: Array, y: Array, at: Array, extent: Array
) -> Callable[[], None]:
    rows = gather.bind_find(attrs.reader, indices, attrs.shape[:1], at, extent)
    return in_order([*rows, decode_rows(attrs, x=x, at=at, y=y)])


DECODE = Kernel(_decode, reads=("x",), writes=("y",), compiled=Compiled(decode, decode_fits))
PACKED_DENSE = Kernel(
    _only_compiled,
    reads=("x", "w", "b?"),
    writes=("y",),
    compiled=Compiled(packed_dense, packed_dense_fits, _planes),
)
STORED_DENSE = Kernel(
    _only_compiled, reads=("x", "w", "b?"), writes=("y",), compiled=stored_products.FORWARD
)
STORED_GRAD_X = Kernel(
    _only_compiled, reads=("dy", "w"), writes=("dx",), compiled=stored_products.GRAD_X
)
SELECT_ROWS = Kernel(
    _select_rows,
    reads=("x", "indices"),
    writes=("y",),
    workspace=_rows_workspace,
    compiled=Compiled(_call_select_rows, decode_rows_fits, _compiled_rows_workspace),
)


def only_as_real_numbers(plan: Plan) -> frozenset[str]:
    """Returns the values that cannot be in memory as integers or blocks.

    A plan has a view of a part of them, or they are outputs.
    """
    real = {plan.root(name) for name in plan.outputs}
    for view, root in plan.roots.items():
        if plan.values[view].spec.size != plan.values[root].spec.size:
            real.add(root)
    return frozenset(real)


def tables(plan: Plan) -> frozenset[str]:
    """Returns the values of which operators select rows."""
    calls = (e for e in plan.entries if isinstance(e, Call) and _operator(e) in TABLES)
    return frozenset(plan.root(v) for call in calls for v in call.values(call.reads))


def with_stored_weights(
    plan: Plan,
    stored: Collection[int],
    integers: Mapping[int, WeightQuantization],
    rounded: Mapping[int, WeightQuantization],
) -> Plan:
    """Returns a plan that reads weights as the file stores them.

    Args:
        plan: plan that reads their real numbers.
        stored: tensors of weights that do not train.
        integers: quantizations of weights that train as integers.
        rounded: quantizations of weights that train as floats, and are rounded before each call
            that reads them.
    """
    decoders: dict[str, Decoder] = {}
    specs: dict[str, TensorSpec] = {}
    real = only_as_real_numbers(plan)
    for i in stored:
        value, tensor = plan.values.get(f"t{i}"), plan.graph.tensors[i]
        is_constant = value is not None and value.region is Region.CONSTANT
        if is_constant and tensor.decoder is not None and f"t{i}" not in real:
            assert tensor.data is not None, "weights are constants"
            decoders[f"t{i}"] = tensor.decoder
            specs[f"t{i}"] = TensorSpec(tensor.data.shape, tensor.data.dtype)
    for i, quantization in integers.items():
        if f"t{i}" in plan.values:
            decoders[f"t{i}"] = IntegerDecoder(quantization.first)
            shape = plan.values[f"t{i}"].spec.shape
            specs[f"t{i}"] = TensorSpec(shape, np.dtype(quantization.dtype))
    for i, quantization in rounded.items():
        if f"t{i}" in plan.values:
            decoders[f"t{i}"] = RoundingDecoder(quantization)
            specs[f"t{i}"] = plan.values[f"t{i}"].spec
    if not decoders:
        return plan
    views = {name for name, root in plan.roots.items() if root in decoders}
    values = {n: v for n, v in plan.values.items() if n not in views}
    values |= {n: replace(values[n], spec=spec) for n, spec in specs.items()}
    entries: list[Call | Delivery] = []
    for entry in plan.entries:
        if isinstance(entry, Delivery):
            entries.append(entry)
            continue
        number = len(entries)
        direct = _on_packed(entry, number, values, decoders)
        direct = direct or _on_rows(entry, number, values, decoders)
        direct = direct or _on_chunks(entry, number, values, decoders)
        entries += [direct] if direct else _after_decoding(plan, entry, number, values, decoders)
    return replace(plan, entries=tuple(entries), values=values)


def _after_decoding(
    plan: Plan, call: Call, number: int, values: dict[str, Value], decoders: Mapping[str, Decoder]
) -> list[Call]:
    """Returns the calls that decode the stored weights that a call reads, and then the call.

    Args:
        plan: plan of the call, in which values are real numbers.
        call: the call.
        number: position of the first of the calls.
        values: values of the new plan, to which the real numbers are added.
        decoders: decoders of the stored weights.
    """
    calls: list[Call] = []
    real: dict[str, str] = {}  # stored weight, or view of it → value of its real numbers
    for name in dict.fromkeys(call.values(call.reads)):
        root = plan.root(name)
        if root not in decoders:
            continue
        if root not in real:
            value = _in_arena(plan.values[root], f"{number + len(calls)}.{root}")
            calls.append(_decoding(call, values[root], value, decoders[root]))
            values[value.name], real[root] = value, value.name
        if name != root:
            view = _in_arena(plan.values[name], f"{real[root]}.{name}", real[root])
            values[view.name], real[name] = view, view.name
    if real:
        call = replace(call, arrays={n: real.get(v, v) for n, v in call.arrays.items()})
    return [*calls, call]


def _in_arena(value: Value, name: str, base: str | None = None) -> Value:
    """Returns the value of the real numbers of a weight, or of a view of it."""
    return replace(value, name=name, region=Region.ARENA, tensor=None, base=base)


def _on_packed(
    call: Call, number: int, values: dict[str, Value], decoders: Mapping[str, Decoder]
) -> Call | None:
    """Returns a call of a dense layer that reads stored weights; None for other calls.

    Args:
        call: the call, which reads real numbers.
        number: position of the call.
        values: values of the plan, to which scratch memory is added.
        decoders: decoders of the stored weights.
    """
    name = call.arrays.get("w", "")
    if name not in decoders or list(call.arrays.values()).count(name) > 1:
        return None
    dense = find_operator("FULLY_CONNECTED")
    assert dense is not None
    kernels: tuple[Kernel, ...] = ()
    if call.kernel is dense.forward:
        kernels = PACKED_DENSE, STORED_DENSE
    elif call.kernel is dense.grads["x"]:
        kernels = (STORED_GRAD_X,)
    if "rounded" in call.workspace:  # to bfloat16, from real numbers
        kernels = ()
    attrs = StoredAttrs(decoders[name], call.specs["w"].shape, dense.name)
    specs = {n: spec for n, spec in call.specs.items() if n not in call.workspace}
    specs["w"] = values[name].spec
    for kernel in kernels:
        direct = _with_kernel(call, kernel, attrs, call.arrays, specs, number, values)
        if direct is not None:
            return direct
    return None


def _on_rows(
    call: Call, number: int, values: dict[str, Value], decoders: Mapping[str, Decoder]
) -> Call | None:
    """Returns a call that decodes the rows which GATHER or EMBEDDING_LOOKUP select.

    None for other calls; arguments as for `_on_packed`.
    """
    operator = _operator(call)
    if operator not in TABLES or call.phase is not Phase.FORWARD:
        return None
    table, indices = TABLES[operator]
    name = call.arrays[table]
    shape, selected = call.specs[table].shape, call.specs[indices].shape
    along_first_axis = call.specs["y"].shape == (*selected, *shape[1:])
    if operator == "GATHER" and call.attrs.resolved(call.specs) != (0, 0):
        along_first_axis = False
    if name not in decoders or not along_first_axis or not decoders[name].can_decode_rows(shape):
        return None
    attrs = StoredAttrs(decoders[name], shape, operator)
    arrays = {"x": name, "indices": call.arrays[indices], "y": call.arrays["y"]}
    specs = {"x": values[name].spec, "indices": call.specs[indices], "y": call.specs["y"]}
    return _with_kernel(call, SELECT_ROWS, attrs, arrays, specs, number, values)


def _on_chunks(
    call: Call, number: int, values: dict[str, Value], decoders: Mapping[str, Decoder]
) -> Call | None:
    """Returns a call of a layer in chunks that decodes its weights some units at a time.

    None for other calls; arguments as for `_on_packed`.
    """
    if not isinstance(call.attrs, ChunkedAttrs) or call.arrays["w"] not in decoders:
        return None
    name, shape = call.arrays["w"], call.attrs.shape
    if "dw" in call.writes or not decoders[name].can_decode_rows(shape):
        return None
    attrs = replace(call.attrs, decoder=decoders[name])
    specs = {n: spec for n, spec in call.specs.items() if n not in call.workspace}
    specs["w"] = values[name].spec
    return _with_kernel(call, call.kernel, attrs, call.arrays, specs, number, values)


def _operator(call: Call) -> str:
    """Returns the operator of a call of the forward phase."""
    return call.label.rpartition(" ")[2]


def _with_kernel(
    call: Call,
    kernel: Kernel,
    attrs: StoredAttrs | ChunkedAttrs,
    arrays: Mapping[str, str],
    specs: Specs,
    number: int,
    values: dict[str, Value],
) -> Call | None:
    """Returns a call with another kernel; None if it has neither a compiled form nor one in NumPy.

    Args:
        call: the call.
        kernel: the kernel.
        attrs: its attributes.
        arrays: name in the kernel → value, to which those of its workspace are added.
        specs: specs of all names.
        number: position of the call.
        values: values of the plan, to which those of the workspace are added.
    """
    compiled = compiled_of(kernel, attrs, specs)
    if compiled is None and kernel.run is _only_compiled:
        return None
    workspace = (compiled or kernel).workspace(attrs, specs)
    kept = {n: v for n, v in arrays.items() if n not in call.workspace}
    reads = tuple(n.rstrip("?") for n in kernel.reads)
    scratch = {n: f"{number}.stored.{n}" for n in workspace}
    values |= {v: Value(v, workspace[n], Region.ARENA) for n, v in scratch.items()}
    for name in call.values(call.workspace):
        del values[name]
    return replace(
        call,
        kernel=kernel,
        attrs=attrs,
        arrays={**kept, **scratch},
        reads=tuple(n for n in reads if n in kept),
        workspace=tuple(scratch),
        specs=specs,
        compiled=compiled,
    )


def _decoding(reader: Call, stored: Value, real: Value, decoder: Decoder) -> Call:
    """Returns the call that computes real numbers for a call that reads them."""
    attrs = StoredAttrs(decoder, real.spec.shape, "")
    specs = {"x": stored.spec, "y": real.spec}
    return Call(
        f"{reader.label.split(' ')[0]} DEQUANTIZE",
        reader.phase,
        DECODE,
        attrs,
        {"x": stored.name, "y": real.name},
        reads=("x",),
        writes=("y",),
        workspace=(),
        specs=specs,
        flops=2 * real.spec.size,
        compiled=compiled_of(DECODE, attrs, specs),
    )
