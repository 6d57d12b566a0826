"""The memory that a C program takes on its device."""

import ctypes
from collections.abc import Sequence

from odt.core.emit.batch_sizes import shared_structs
from odt.core.emit.c_data import ALIGNMENT
from odt.core.emit.kernel_files import source_of
from odt.core.emit.step_program import Pass, StepProgram
from odt.kernels.native.stack import PROGRAM, STACK
from odt.kernels.native.target import TARGETS

COUNTERS = 256  # bytes of the number of steps, the learning rate, and data of the C library


def array_nbytes(program: StepProgram) -> int:
    """Returns the bytes of the arrays of a program."""
    arrays = (*program.weights, *program.state, *program.sums)
    return program.arena + sum(a.values.nbytes for a in arrays)


def static_nbytes(program: StepProgram) -> int:
    """Returns the bytes of static memory of a program, which a linker may round up."""
    arrays = [a.values.nbytes for a in (*program.weights, *program.state, *program.sums)]
    aligned = sum(-(-n // ALIGNMENT) * ALIGNMENT for n in (program.arena, *arrays))
    return aligned + sum(4 * len(numbers.terms) for numbers in program.numbers) + COUNTERS


def stack_nbytes(program: StepProgram, target: str) -> int | None:
    """Returns a bound of the stack that a program takes; None for a target without one.

    Args:
        program: the step.
        target: name of the target.
    """
    if not TARGETS[target].has_stack_bounds:
        return None
    kernels = max(STACK[source_of(kernel)] for kernel in program.kernels)
    passes = program.train, program.evaluate, program.predict
    return PROGRAM + kernels + max(map(_shared_nbytes, passes))


def _shared_nbytes(passes: Sequence[Pass]) -> int:
    """Returns the bytes of the structs that many calls of passes read."""
    tables = [rows for run in passes for rows in (run.forward, run.backward)]
    return sum(ctypes.sizeof(a.struct) for rows in tables for a in shared_structs(rows).values())
