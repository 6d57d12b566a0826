"""OpDef, the row that declares an operator: kernels as functions, their use of memory as data.

The planner, the runtime and the tests read only these rows. The values that forward saves for
backward are derived: they are the union of the gradients' `reads`.

Arrays are passed by name: inputs and outputs of the operator, `d` and a name for a gradient,
auxiliary values and workspace. In `inputs`, `b?` may be absent, and `xs*` is any number of tensors,
passed as xs0, xs1, ….
"""

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.rows.quantizeddef import QuantizedDef

Array: TypeAlias = np.ndarray[Any, Any]
Attrs: TypeAlias = Any
Specs: TypeAlias = "Mapping[str, TensorSpec]"
# Arguments of compiled kernels for an Epilogue: bounds, or the values that are compared with them.
Clamp: TypeAlias = tuple[float, float]
ReluMask: TypeAlias = tuple[Array, float, float]
Options: TypeAlias = Mapping[str, Any]
Names: TypeAlias = frozenset[str]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Shape and dtype of a tensor."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def has_gradient(self) -> bool:
        """Whether the values are real or complex numbers, so that they can have a gradient."""
        return self.dtype.kind in "fc"

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.shape} {self.dtype}"


class Arithmetic(StrEnum):
    """Kinds of arithmetic; the values are the names of their rates, in operations per second."""

    DENSE = "dense"
    CONVOLUTION = "convolution"
    DEPTHWISE = "depthwise"
    OTHER = "other"


def no_specs(attrs: Attrs, specs: Specs) -> Specs:
    return {}


def never_packed(attrs: Attrs, specs: Specs) -> "TensorSpec | None":
    return None


def no_arguments(attrs: Attrs, specs: Specs) -> Mapping[str, Any]:
    return {}


def no_attrs(options: Options, statics: Mapping[str, Array]) -> Attrs:
    return None


def one_per_output(attrs: Attrs, specs: Specs) -> int:
    return sum(s.size for n, s in specs.items() if n.startswith("y"))


def never_mixes_samples(attrs: Attrs, specs: Specs, batched: Names) -> bool:
    return False


def already_batch_first(attrs: Attrs) -> None:
    return None


def never(attrs: Attrs, specs: Specs) -> bool:
    return False


def always(attrs: Attrs, specs: Specs) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function that computes into given memory, and the names of the arrays it reads and writes.

    run(attrs, **arrays) gets one array for each name in reads, writes and workspace, and the
    keyword arguments of `prepare`. It allocates nothing whose size grows with a tensor, writes
    every element of writes, and does not change reads.

    Attributes:
        run: the computation.
        reads: names of the arrays it reads; forward values among them are saved.
        writes: names of the arrays it fills.
        workspace: specs of scratch arrays by name, unused after run returns.
        may_alias: pairs (written, read) that may be the same memory.
        view: whether, for these specs, the written array equals the first array read, possibly in
            another shape; then the plan has no call for it.
        cuts: whether, for these specs, the written arrays are consecutive parts of the memory of
            the first array read; then the plan has no call if that is a parameter or constant.
        prepare: returns keyword arguments for run that depend on attrs and specs only (geometry,
            index tables); called once, when the program is bound.
        compiled: the same computation in compiled code.
        epilogue: this computation as an epilogue of the kernel before it, if it can be one.
        digest: second form of a gradient, which reads a digest of the forward values.
        row_sums: form of a table's gradient in which rows that no index selects are absent.
    """

    run: Callable[..., None]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    workspace: Callable[[Attrs, Specs], Specs] = no_specs
    may_alias: frozenset[tuple[str, str]] = frozenset()
    view: Callable[[Attrs, Specs], bool] = never
    cuts: Callable[[Attrs, Specs], bool] = never
    prepare: Callable[[Attrs, Specs], Mapping[str, Any]] = no_arguments
    compiled: "Compiled | None" = None
    epilogue: "Epilogue | None" = None
    digest: "Digest | None" = None
    row_sums: "RowSums | None" = None


@dataclass(frozen=True, slots=True)
class RowSums:
    """A gradient of a table that is a sum of rows: row at[r] of it gets row r of dy.

    Attributes:
        fits: whether it is, for these specs; workspace `at` has the row of each row of dy.
        find: (attrs, entries of the table, **arrays and arguments of the kernel besides dy and its
            result) fills `at`.
        call_find: returns the compiled call that does; the forward phase has checked the indices.
    """

    fits: Callable[[Attrs, Specs], bool]
    find: Callable[..., None]
    call_find: Callable[..., Callable[[], object]]


@dataclass(frozen=True, slots=True)
class Digest:
    """Second form of a gradient by x, with the same bits, that reads a digest of forward values.

    Attributes:
        make: computes the array `digest` in the forward phase from the values that the first form
            of the gradient reads.
        gradient: computes dx from dy and `digest`.
        spec: spec of the digest.
        fits: whether this form supports these specs.
    """

    make: Kernel
    gradient: Kernel
    spec: Callable[[Attrs, Specs], TensorSpec]
    fits: Callable[[Attrs, Specs], bool] = always


@dataclass(frozen=True, slots=True)
class Epilogue:
    """A computation that another kernel can apply to its own result, in registers.

    Attributes:
        kind: "clamp": y = x limited to lo and hi; "relu_mask": dx = dy where lo < y < hi, else 0;
            "bias_gradient": db = the sums of dy over all but the last axis; "add": y = a + b, one
            of which is the result.
        lo, hi: the bounds.
    """

    kind: str
    lo: float = -np.inf
    hi: float = np.inf


BIAS_GRADIENT = Epilogue("bias_gradient")
ADDITION = Epilogue("add")

PACKS, PACKED = "packs", "packed"  # values of `packing`, see Compiled


@dataclass(frozen=True, slots=True)
class Compiled:
    """The compiled form of a kernel: the same reads and writes, and the same values up to rounding.

    Attributes:
        bind: (attrs, **arrays, **arguments of `prepare`) → a call on these arrays. An epilogue is
            passed as clamp=(lo, hi), relu_mask=(y, lo, hi), db=db or addend=a.
        fits: whether it supports these specs.
        workspace, prepare: as in Kernel.
        takes: kinds of Epilogue that it can apply, besides "add".
        takes_addend: whether it can apply "add"; the sum may then be the memory of the addend.
        in_blocks: whether `bind` of a weight's gradient takes `first`, the first of the units along
            axis 0 that dw has; then dw is a block of the gradient, with at least 16 units, and
            there is no epilogue.
        packed: specs → spec of the layer's weights in the layout of the kernel, if calls can share
            them, or None. `bind` then takes such an array as `panel`, with packing=PACKS for a call
            that only packs the weights, or packing=PACKED for one that finds them packed.
        in_sums: whether `bind` of a weight's gradient takes `adds`, one int64 that is read in each
            call: whether the gradient is added to what dw holds.
        divides: whether a call often reads weights that are too large for a core's cache: threads
            that divide them are then faster than workers that each read all of them.
        bf16: form that rounds the factors of products to bfloat16, for processors that multiply
            these faster.
    """

    bind: Callable[..., Callable[[], None]]
    fits: Callable[[Attrs, Specs], bool]
    workspace: Callable[[Attrs, Specs], Specs] = no_specs
    prepare: Callable[[Attrs, Specs], Mapping[str, Any]] = no_arguments
    takes: frozenset[str] = frozenset()
    takes_addend: Callable[[Attrs, Specs], bool] = never
    in_blocks: bool = False
    packed: Callable[[Attrs, Specs], TensorSpec | None] = never_packed
    in_sums: bool = False
    divides: Callable[[Attrs, Specs], bool] = never
    bf16: "Compiled | None" = None


@dataclass(frozen=True, slots=True)
class OpDef:
    """The row of an operator.

    Every input is in exactly one of grads, stops, static and zero_state.

    Attributes:
        name: BuiltinOperator name in the schema, or name of the loss.
        inputs: names in schema order.
        infer: specs of the inputs (without statics) → specs of the outputs; raises ShapeError.
        forward: fills the outputs and the auxiliary values.
        grads: input → kernel of its gradient; `xs*` → a function from the index to the kernel.
        stops: inputs that have no gradient by definition.
        static: inputs whose values must be known when the graph is lowered; they are passed to
            `attrs` and never to a kernel.
        zero_state: variable tensors that hold the state: zero before each run and never passed to
            a kernel.
        outputs: names in schema order.
        aux: values, besides the outputs, that forward saves for backward.
        backward: computes values that several gradients read, before the first gradient; None if
            there are none.
        shared: specs of the values that `backward` computes.
        attrs: the schema's options (snake case, enumerations as integers) and the values of the
            static inputs → a frozen dataclass, or None. The options include `output_types`, the
            dtypes of the outputs in the file.
        keeps_activation: whether the fused activation is part of the formula; otherwise it becomes
            a separate node.
        scale_batch: (attrs for the file's batch, specs at the file's batch, how many times larger
            the batch is) → attrs for that batch. None: attrs do not depend on the batch.
        flops: specs of inputs and outputs → number of arithmetic operations of the forward pass; a
            multiplication and an addition count as two.
        arithmetic: kind of these operations.
        add_batch_axis: (attrs for one sample, number of samples) → attrs for these samples along a
            new leading axis of every batched input; the inputs have the same rank. None: the
            operator has no such form.
        batch_first: attrs → attrs of the same operator with axes 0 and 1 of x and y exchanged, so
            that axis 0 is the batch instead of time; None if it is the batch already.
        permute: (attrs, permutation) → attrs of the same operator on inputs whose axis perm[k] was
            axis k, with the same permutation of the outputs; raises ShapeError if they fix the
            order. None: the order of the axes is fixed.
        takes_complex: whether inputs and outputs may be complex.
        mixes_samples: whether a sample's output depends on other samples of the batch (axis 0),
            given the names of the batched inputs: selecting rows from a table does not mix
            samples, selecting rows from a batch does.
        usual: usual values of integer inputs that are neither positions nor flags, by name, for
            random data; for example, of a sample rate.
        quantized: facts about files with quantized tensors; None if there are none.
    """

    name: str
    inputs: tuple[str, ...]
    infer: Callable[[Attrs, Specs], Specs]
    forward: Kernel
    grads: Mapping[str, Kernel | Callable[[int], Kernel]]
    stops: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    zero_state: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ("y",)
    aux: Callable[[Attrs, Specs], Specs] = no_specs
    backward: Kernel | None = None
    shared: Callable[[Attrs, Specs], Specs] = no_specs
    attrs: Callable[[Options, Mapping[str, Array]], Attrs] = no_attrs
    keeps_activation: bool = False
    scale_batch: Callable[[Attrs, Specs, int], Attrs] | None = None
    mixes_samples: Callable[[Attrs, Specs, Names], bool] = never_mixes_samples
    flops: Callable[[Attrs, Specs], int] = one_per_output
    arithmetic: Arithmetic = Arithmetic.OTHER
    add_batch_axis: Callable[[Attrs, int], Attrs] | None = None
    batch_first: Callable[[Attrs], Attrs | None] = already_batch_first
    permute: Callable[[Attrs, tuple[int, ...]], Attrs] | None = None
    takes_complex: bool = False
    usual: tuple[tuple[str, int], ...] = ()
    quantized: QuantizedDef | None = None


# Number of elements that are processed at a time, and of each scratch array: it stays in the cache.
TILE = 16384
