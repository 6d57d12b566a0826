"""The calls of a program as C statements, for any number of samples."""

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from odt.core.emit.batch_sizes import (
    Linear,
    LinearPlace,
    LinearStruct,
    shared_structs,
    struct_key,
)
from odt.core.emit.c_data import DataBlock
from odt.core.emit.c_literals import Declarations, array_bytes, float_literal
from odt.core.emit.kernel_files import function_of
from odt.core.emit.step_program import Pass, StepProgram
from odt.kernels.native.binding import argument_types
from odt.kernels.native.regions import Place
from odt.kernels.native.table import Row
from odt.kernels.rows.term import Term, c_text


class CallWriter:
    """Writes calls as statements, and declares the constants that they read.

    The statements are for a variable `samples`, an int64_t.
    """

    def __init__(
        self, program: StepProgram, name: str, declarations: Declarations, constants: DataBlock
    ) -> None:
        """Names the memory of a program.

        Args:
            program: the step.
            name: prefix of its functions.
            declarations: gets the structs that calls read.
            constants: gets the arrays that calls read.
        """
        self._name = name
        self._declarations, self._constants = declarations, constants
        self._numbers = program.numbers
        weights = [f"weights_{k}" for k in range(len(program.weights))]
        state = [f"state_{k}" for k in range(len(program.state))]
        sums = [f"sums_{k}" for k in range(len(program.sums))]
        self._regions = ["arena", *weights, *state, *sums]

    def statements(self, rows: Sequence[Row]) -> Iterator[str]:
        """Yields the calls of kernels, after the structs that many of them read."""
        structs = shared_structs(rows)
        names = {key: f"shared_{k}" for k, key in enumerate(structs)}
        for key, a in structs.items():
            yield from self._struct(names[key], a)
        for row in rows:
            yield from self._call(row, names)

    def fill(self, run: Pass) -> Iterator[str]:
        """Yields the statements that fill in the samples of a batch."""
        for word, arguments in (("input", run.inputs), ("target", run.targets)):
            for k, a in enumerate(arguments):
                size = _bytes(a.spec.nbytes, run)
                yield f"memcpy({self.at(a.place)}, {word}_{k}, {size});"
        for place, scale in run.scales:
            value = f"(float){c_text(scale)}" if isinstance(scale, Term) else float_literal(scale)
            yield f"*(float *){self.at(place)} = {value};"

    def outputs(self, run: Pass) -> Iterator[str]:
        """Yields the statements that copy the outputs of a batch."""
        for k, a in enumerate(run.outputs):
            yield f"memcpy(output_{k}, {self.at(a.place)}, {_bytes(a.spec.nbytes, run)});"

    def loss(self, run: Pass) -> str:
        """Returns the expression of the sum of the losses."""
        return " + ".join(f"(double)*(float *){self.at(place)}" for place in run.losses)

    def at(self, place: Place | LinearPlace) -> str:
        """Returns the address of a place."""
        return f"AT({self._regions[place.region]}, {_integer(place.offset)})"

    def _call(self, row: Row, shared: Mapping[object, str]) -> Iterator[str]:
        """Yields a call, in a block with its own structs that depend on the samples.

        Args:
            row: the call.
            shared: names of the structs of many calls, by key.
        """
        operands: list[str] = []
        declarations: list[str] = []
        for k, (a, kind) in enumerate(zip(row.operands, argument_types(row.name), strict=True)):
            if isinstance(a, LinearStruct):
                key = struct_key(a)
                operands.append(shared.get(key, f"shape_{k}"))
                if key not in shared:
                    declarations += self._struct(f"shape_{k}", a)
            else:
                operands.append(self._operand(a, kind))
        call = f"{function_of(row.name, self._name)}({', '.join(operands)});"
        if not declarations:
            yield call
            return
        yield "{"
        yield from (f"  {line}" for line in (*declarations, call))
        yield "}"

    def _struct(self, name: str, a: LinearStruct) -> Iterator[str]:
        """Yields the declaration of a struct for the samples."""
        kind, constant = self._declarations.struct(a.struct)
        count = len(a.struct) if isinstance(a.struct, ctypes.Array) else 1
        yield f"{kind} {name}[{count}];"
        yield f"memcpy({name}, {constant}, sizeof {name});"
        for field, value in a.fields.items():
            yield f"{name}{field} = {_integer(value)};"

    def _operand(self, a: Any, kind: Any) -> str:
        if kind is ctypes.c_int64:
            return _integer(a)
        if kind is ctypes.c_float:
            return float_literal(a)
        return "0" if a is None else self._pointer(a)

    def _pointer(self, a: Any) -> str:
        if isinstance(a, Place | LinearPlace):
            return self.at(a)
        if isinstance(a, np.ndarray):
            return self._constants.address(array_bytes(a))
        for k, numbers in enumerate(self._numbers):
            if a is numbers.array:
                return f"numbers_{k}"
        _, constant = self._declarations.struct(a)
        return constant


def _integer(a: int | Linear) -> str:
    """Returns an integer, or an expression of the variable `samples`."""
    if not isinstance(a, Linear):
        return str(int(a))
    product = "samples" if a.each == 1 else f"{a.each} * samples"
    return f"{a.start} + {product}" if a.start else product


def _bytes(nbytes: int, run: Pass) -> str:
    """Returns the bytes of an array for the samples."""
    return str(nbytes) if run.most == 1 else f"{nbytes // run.most} * (size_t)samples"
