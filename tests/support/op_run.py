"""Runs one kernel of a row: inputs are read-only, other arrays hold arbitrary values at first."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from op_db import OpInfo, Sample

from odt.core.lowering.binding import expand
from odt.kernels.native import library
from odt.kernels.registry import LOSSES, find_operator
from odt.kernels.rows.opdef import Array, Attrs, Compiled, Kernel, OpDef, Specs, TensorSpec

Arrays = dict[str, Array]

GUARD, MARK = 1 << 16, 0x5C  # bytes beside an array, and their value


def row_of(name: str) -> OpDef:
    row = LOSSES[name].op if name in LOSSES else find_operator(name)
    assert row is not None, f"{name}: tests/op_db has a row, but kernels has none"
    return row


def spec_of(a: Array) -> TensorSpec:
    return TensorSpec(a.shape, a.dtype)


def rubbish(spec: TensorSpec, kind: int = 0) -> Array:
    """Returns memory with arbitrary values: NaN, and for integers and bools one of two patterns."""
    if spec.has_gradient:
        return np.full(spec.shape, np.nan if kind == 0 else -1e30, spec.dtype)
    if spec.dtype.kind == "b":
        return np.full(spec.shape, kind == 0)
    pattern = np.full(spec.nbytes, (0x55, 0xAA)[kind], np.uint8)
    return pattern.view(spec.dtype).reshape(spec.shape)


def between_guards(a: Array) -> Array:
    """Returns a copy with GUARD bytes on both sides."""
    room = np.full(a.nbytes + 2 * GUARD, MARK, np.uint8)
    found = room[GUARD : GUARD + a.nbytes].view(a.dtype).reshape(a.shape)
    found[...] = a
    return found


def check_guards(arrays: Arrays) -> None:
    """Checks that no kernel wrote beside arrays of `between_guards`; others are passed over."""
    for name, a in arrays.items():
        room = a.base
        if isinstance(room, np.ndarray) and room.nbytes == a.nbytes + 2 * GUARD:
            beside = np.concatenate([room[:GUARD], room[GUARD + a.nbytes :]])
            assert (beside == MARK).all(), f"the kernel writes outside of {name}"


def converted(a: Array, dtype: Any) -> Array:
    """Returns floats in a dtype, and complex numbers with parts of that dtype."""
    kinds = {"f": np.dtype(dtype), "c": np.result_type(dtype, np.complex64)}
    return a.astype(kinds.get(a.dtype.kind, a.dtype))


def normal(rng: np.random.Generator, spec: TensorSpec) -> Array:
    """Draws normal numbers, for complex ones both parts."""
    a = np.asarray(rng.normal(size=spec.shape)).astype(spec.dtype)
    if spec.dtype.kind == "c":
        a.imag = rng.normal(size=spec.shape)
    return a


def draw(info: OpInfo, sample: Sample, dtype: Any, seed: int = 0) -> Arrays:
    """Draws the sample's inputs; floats are converted to a dtype (`converted`)."""
    rng = np.random.default_rng(seed)
    found: Arrays = {}
    for name, given in sample.inputs.items():
        how = info.draws.get(name, info.draw)
        a = np.asarray(given if isinstance(given, np.ndarray) else how(rng, given))
        found[name] = converted(a, dtype)
    return found


@dataclass
class Case:
    """An operator with given inputs: attrs, specs of all names, and the results of forward.

    Attributes:
        arrays: inputs; outputs and auxiliary values after `forward`; gradients of the outputs.
    """

    row: OpDef
    attrs: Attrs
    arrays: Arrays
    specs: dict[str, TensorSpec]
    outputs: tuple[str, ...]

    @staticmethod
    def make(row: OpDef, attrs: Attrs, inputs: Mapping[str, Array]) -> "Case":
        arrays = dict(inputs)
        specs = {n: spec_of(a) for n, a in arrays.items()}
        outputs = dict(row.infer(attrs, specs))
        specs |= outputs
        specs |= row.aux(attrs, specs)
        return Case(row, attrs, arrays, specs, tuple(outputs))

    def forward(self, kind: int = 0) -> Arrays:
        self.arrays |= self.run(self.row.forward, kind)
        return {n: self.arrays[n] for n in self.outputs}

    def seed_gradients(self, seed: int = 1) -> Arrays:
        """Draws a random dy for each output that can have a gradient."""
        rng = np.random.default_rng(seed)
        found = {
            f"d{n}": normal(rng, self.specs[n]) for n in self.outputs if self.specs[n].has_gradient
        }
        self.arrays |= found
        return found

    def gradients(self) -> dict[str, Kernel]:
        """Returns input → kernel for the present inputs with a gradient."""
        found: dict[str, Kernel] = {}
        if not any(self.specs[n].has_gradient for n in self.outputs):
            return found
        for name, kernel in self.row.grads.items():
            for known in expand((name,), self.arrays):
                if known in self.arrays and self.specs[known].has_gradient:
                    member = kernel if isinstance(kernel, Kernel) else None
                    if not isinstance(kernel, Kernel):
                        member = kernel(int(known[len(name) - 1 :]))
                    assert member is not None
                    found[known] = member
        return found

    def gradient(self, name: str, kind: int = 0) -> Array:
        return self.run(self.gradients()[name], kind, of=name)[f"d{name}"]

    def bind(
        self, kernel: Kernel, kind: int = 0, of: str = "", alias: tuple[str, str] | None = None
    ) -> tuple[Arrays, Arrays, Mapping[str, Any]]:
        """Returns the arguments of a kernel: written arrays, all arrays, prepared arguments.

        Args:
            kernel: forward, or the gradient by the input `of`.
            kind: pattern of the arbitrary values in written arrays and workspace.
            of: input of the gradient.
            alias: (written, read) that are to be the same memory.
        """
        if of and self.row.backward is not None:
            self.arrays |= self.run(self.row.backward, kind)
        specs = self.specs | {n: spec_of(a) for n, a in self.arrays.items()}
        specs |= self.row.shared(self.attrs, specs)
        if of:
            specs[f"d{of}"] = specs[of]
        arrays: Arrays = {}
        for name in expand(kernel.reads, specs):
            arrays[name] = self.arrays[name].copy()
            arrays[name].flags.writeable = alias is not None and name == alias[1]
        written = {n: between_guards(rubbish(specs[n], kind)) for n in expand(kernel.writes, specs)}
        if alias is not None and self.fits(alias, written, arrays):
            written[alias[0]] = arrays[alias[1]].reshape(specs[alias[0]].shape, copy=False)
        arrays |= written
        for name, spec in kernel.workspace(self.attrs, specs).items():
            assert name not in specs, f"{name} is workspace, and an array of the operator"
            arrays[name] = between_guards(rubbish(spec, kind))
        return written, arrays, kernel.prepare(self.attrs, specs)

    @staticmethod
    def fits(alias: tuple[str, str], written: Arrays, read: Arrays) -> bool:
        """Whether both exist and have the same size, so that the planner may alias them."""
        one, other = alias
        return one in written and other in read and written[one].nbytes == read[other].nbytes

    def run(
        self, kernel: Kernel, kind: int = 0, of: str = "", alias: tuple[str, str] | None = None
    ) -> Arrays:
        written, arrays, prepared = self.bind(kernel, kind, of, alias)
        kernel.run(self.attrs, **arrays, **prepared)
        check_guards(arrays)
        return written


def make_case(info: OpInfo, sample: Sample, dtype: Any = np.float64) -> Case:
    row = row_of(info.name)
    return Case.make(row, row.attrs(sample.options, sample.statics), draw(info, sample, dtype))


def grown(sample: Sample, inputs: Arrays, times: int, seed: int = 5) -> Arrays:
    """Returns the inputs of a larger batch, with different additional samples."""
    rng = np.random.default_rng(seed)
    found = dict(inputs)
    for name, a in inputs.items():
        if name in sample.constants:
            continue
        parts = [a]
        for _ in range(times - 1):
            flat = a.reshape(-1)
            order = rng.permutation(flat.size)
            parts.append(flat[order].reshape(a.shape))
        found[name] = np.concatenate(parts)
    return found


def as_kernel(kernel: Kernel, compiled: Compiled) -> Kernel:
    """Wraps a compiled form as a NumPy kernel."""

    def run(attrs: Attrs, **arrays: Array) -> None:
        compiled.bind(attrs, **arrays)()

    return replace(kernel, run=run, workspace=compiled.workspace, prepare=compiled.prepare)


def best_form(kernel: Kernel, attrs: Attrs, specs: Specs) -> Kernel:
    """Returns the compiled form of a kernel if it supports these specs, else the kernel."""
    compiled = library.compiled_of(kernel, attrs, specs)
    return as_kernel(kernel, compiled) if compiled else kernel


def kernels(case: Case) -> Iterator[tuple[str, Kernel, str]]:
    """Yields every kernel of a case after `forward`: label, kernel, and input of the gradient."""
    yield "forward", case.row.forward, ""
    if case.row.backward is not None:
        yield "backward", case.row.backward, ""
    for name, kernel in case.gradients().items():
        yield f"d{name}", kernel, name
