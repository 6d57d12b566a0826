"""Writes a step program as C: static memory, and the calls of kernels in order."""

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from odt.core.emit.c_literals import Declarations, comment_text, float_literal
from odt.core.emit.step_program import Argument, Pass, StepProgram
from odt.kernels.native.binding import argument_types
from odt.kernels.native.regions import Place
from odt.kernels.native.table import Row
from odt.kernels.rows.term import c_text

C_TYPES = {
    "float32": "float",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "bool": "uint8_t",
}
STATE_HEADER = 32  # bytes: digest of the program, step, learning rate, zeros


def header(program: StepProgram, name: str) -> str:
    """Returns NAME.h.

    Args:
        program: the step.
        name: prefix of the functions, a C identifier.
    """
    train, predict = _parameters(program.train), _parameters(program.predict, outputs=True)
    evaluate, upper = _parameters(program.evaluate), name.upper()
    scheduled = "" if program.rate.text == "rate" else ", which the schedule scales"
    arrays = "\n".join(f"   {line}" for line in _describe(program))
    return f"""/* Trains a model in static memory. Written by odt.

   One thread at a time may call these functions, and {name}_init first.

{arrays} */

#ifndef {upper}_H
#define {upper}_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

enum {{
  {upper}_BATCH = {program.batch}, /* samples */
  {upper}_WEIGHTS_SIZE = {sum(w.values.nbytes for w in program.weights)}, /* bytes of all weights */
  {upper}_STATE_SIZE = {_state_nbytes(program)} /* bytes of weights and optimizer state */
}};

/* What functions return: NOT_FINITE if the loss is NaN or infinite, and weights are as before;
   NO_STATE for bytes that {name}_save did not write. */
enum {{ {upper}_OK = 0, {upper}_NOT_FINITE = 1, {upper}_NO_STATE = 2 }};

/* Sets the weights to those of the model file, and resets the optimizer. */
void {name}_init(void);

/* Trains on a batch. The loss is that before the update. */
int {name}_train({train}, float *loss);

/* Computes the loss of a batch. */
int {name}_evaluate({evaluate}, float *loss);

/* Computes the outputs of a batch. */
void {name}_predict({predict});

/* The learning rate of the next steps{scheduled}; {name}_init resets it. */
void {name}_set_learning_rate(double value);

/* Copies all weights, {upper}_WEIGHTS_SIZE bytes, in the order of manifest.json. */
void {name}_get_weights(void *weights);
void {name}_set_weights(const void *weights);

/* Copies weights, optimizer state and learning rate: {upper}_STATE_SIZE bytes. */
void {name}_save(void *state);
int {name}_load(const void *state);

#ifdef __cplusplus
}}
#endif

#endif
"""


def _describe(program: StepProgram) -> Iterator[str]:
    """Yields a line for each array that functions take."""
    passes = (
        ("input", program.train.inputs),
        ("target", program.train.targets),
        ("output", program.predict.outputs),
    )
    for word, arguments in passes:
        for k, a in enumerate(arguments):
            shape = " × ".join(map(str, a.spec.shape))
            yield f"{word}_{k}: {c_type(a)}, {shape}  {comment_text(a.name)}".rstrip()


def c_type(a: Argument) -> str:
    """Returns the C type of an array's values."""
    return C_TYPES[a.spec.dtype.name]


def _parameters(run: Pass, *, outputs: bool = False) -> str:
    """Returns the parameters of a function for the arrays of a batch."""
    parameters = [f"const {c_type(a)} *input_{k}" for k, a in enumerate(run.inputs)]
    parameters += [f"const {c_type(a)} *target_{k}" for k, a in enumerate(run.targets)]
    if outputs:
        parameters += [f"{c_type(a)} *output_{k}" for k, a in enumerate(run.outputs)]
    return ", ".join(parameters)


def _state_nbytes(program: StepProgram) -> int:
    """Returns the bytes that `save` writes."""
    memory = (*program.weights, *program.state)
    return STATE_HEADER + sum(a.values.nbytes for a in memory)


class _Calls:
    """The calls of a program as C statements, and the constants that they read."""

    def __init__(self, program: StepProgram, declarations: Declarations) -> None:
        self._declarations = declarations
        self._numbers = program.numbers
        weights = [f"weights_{k}" for k in range(len(program.weights))]
        state = [f"state_{k}" for k in range(len(program.state))]
        sums = [f"sums_{k}" for k in range(len(program.sums))]
        self._regions = ["arena", *weights, *state, *sums]

    def statement(self, row: Row) -> str:
        """Returns the call of a kernel."""
        types = argument_types(row.name)
        operands = map(self._operand, row.operands, types)
        return f"{row.name}_base({', '.join(operands)});"

    def at(self, place: Place) -> str:
        """Returns the address of a place."""
        return f"AT({self._regions[place.region]}, {place.offset})"

    def _operand(self, a: Any, kind: Any) -> str:
        if kind is ctypes.c_int64:
            return str(int(a))
        if kind is ctypes.c_float:
            return float_literal(a)
        return "0" if a is None else self._pointer(a)

    def _pointer(self, a: Any) -> str:
        if isinstance(a, Place):
            return self.at(a)
        if isinstance(a, np.ndarray):
            return f"(void *){self._declarations.array(a)}"
        for k, numbers in enumerate(self._numbers):
            if a is numbers.array:
                return f"numbers_{k}"
        return self._declarations.struct(a)


def source(program: StepProgram, name: str, digest: int) -> str:
    """Returns NAME.c.

    Args:
        program: the step.
        name: prefix of the functions, a C identifier.
        digest: identifies the program in the buffers of `save`.
    """
    declarations = Declarations()
    calls = _Calls(program, declarations)
    functions = [
        *_function("train_forward", program.train.forward, calls),
        *_function("train_backward", program.train.backward, calls),
        *_function("evaluate", program.evaluate.forward, calls),
        *_function("predict", program.predict.forward, calls),
    ]
    lines = [
        f'#include "{name}.h"',
        "",
        "#include <math.h>",
        "#include <string.h>",
        "",
        '#include "kernels/float_mode.h"',
        '#include "kernels/kernels.h"',
        "",
        "#define AT(region, offset) ((void *)((char *)(region) + (offset)))",
        "",
        f"static _Alignas(64) unsigned char arena[{program.arena}];",
        *_memory(program, name),
        "",
        *declarations.lines,
        "",
        *_update(program),
        *functions,
        *_interface(program, name, calls),
        *_copies(program, name, digest),
    ]
    return "\n".join(lines)


def weights_source(program: StepProgram, name: str) -> str:
    """Returns NAME_weights.c: the first values of the weights."""
    declarations = Declarations()
    names = [declarations.array(w.values) for w in program.weights]
    lines = [
        "#include <stdint.h>",
        "",
        *declarations.lines,
        "",
        f"extern const void *const {name}_first_weights[];",
        f"const void *const {name}_first_weights[] = {{{', '.join(names)}}};",
    ]
    return "\n".join([*lines, ""])


def _memory(program: StepProgram, name: str) -> Iterator[str]:
    """Yields the declarations of memory beside the arena."""
    yield f"extern const void *const {name}_first_weights[];"
    memory = ("weights", program.weights), ("state", program.state), ("sums", program.sums)
    for prefix, arrays in memory:
        for k, a in enumerate(arrays):
            size = f"{prefix}_{k}[{a.values.nbytes}]"
            yield f"static _Alignas(64) unsigned char {size}; /* {comment_text(a.name)} */"
    for k, numbers in enumerate(program.numbers):
        yield f"static float numbers_{k}[{len(numbers.terms)}];"
    yield f"static double rate = {c_text(program.learning_rate)}; /* learning rate */"
    yield "static int64_t step;"


def _update(program: StepProgram) -> Iterator[str]:
    """Yields the function that fills the numbers of an update."""
    yield "static void begin_update(void) {"
    yield f"  double now = {program.rate.text};"
    for k, numbers in enumerate(program.numbers):
        for at, term in enumerate(numbers.terms):
            yield f"  numbers_{k}[{at}] = (float){c_text(term)};"
    yield "}"
    yield ""


def _function(name: str, rows: Sequence[Row], calls: _Calls) -> Iterator[str]:
    """Yields a function that makes calls."""
    yield f"static void {name}_calls(void) {{"
    for row in rows:
        yield f"  {calls.statement(row)}"
    yield "}"
    yield ""


def _interface(program: StepProgram, name: str, calls: _Calls) -> Iterator[str]:
    """Yields the functions that compute a batch."""
    upper = name.upper()
    flush = "  uint32_t mode = get_float_mode();", "  set_float_mode(mode | FLUSH);"
    yield f"int {name}_train({_parameters(program.train)}, float *loss) {{"
    yield from _fill(program.train, calls)
    yield from flush
    yield "  step += 1;"
    yield "  begin_update();"
    yield "  train_forward_calls();"
    yield f"  double sum = {_sum(program.train, calls)};"
    yield "  int is_finite = sum - sum == 0;"  # NaN for an infinite sum
    yield "  if (is_finite) train_backward_calls();"
    yield "  else step -= 1;"
    yield "  set_float_mode(mode);"
    yield "  *loss = (float)sum;"
    yield f"  return is_finite ? {upper}_OK : {upper}_NOT_FINITE;"
    yield "}"
    yield ""
    yield f"int {name}_evaluate({_parameters(program.evaluate)}, float *loss) {{"
    yield from _fill(program.evaluate, calls)
    yield from flush
    yield "  evaluate_calls();"
    yield f"  double sum = {_sum(program.evaluate, calls)};"
    yield "  set_float_mode(mode);"
    yield "  *loss = (float)sum;"
    yield f"  return sum - sum == 0 ? {upper}_OK : {upper}_NOT_FINITE;"
    yield "}"
    yield ""
    yield f"void {name}_predict({_parameters(program.predict, outputs=True)}) {{"
    yield from _fill(program.predict, calls)
    yield from flush
    yield "  predict_calls();"
    yield "  set_float_mode(mode);"
    for k, a in enumerate(program.predict.outputs):
        yield f"  memcpy(output_{k}, {calls.at(a.place)}, {a.spec.nbytes});"
    yield "}"
    yield ""


def _fill(run: Pass, calls: _Calls) -> Iterator[str]:
    """Yields the statements that fill in the samples of a batch."""
    for word, arguments in (("input", run.inputs), ("target", run.targets)):
        for k, a in enumerate(arguments):
            yield f"  memcpy({calls.at(a.place)}, {word}_{k}, {a.spec.nbytes});"
    for place, scale in run.scales:
        yield f"  *(float *){calls.at(place)} = {float_literal(scale)};"


def _sum(run: Pass, calls: _Calls) -> str:
    """Returns the sum of the losses."""
    return " + ".join(f"(double)*(float *){calls.at(place)}" for place in run.losses)


def _copies(program: StepProgram, name: str, digest: int) -> Iterator[str]:
    """Yields the functions that copy weights and state."""
    weights = [(f"weights_{k}", a.values.nbytes) for k, a in enumerate(program.weights)]
    state = [(f"state_{k}", a.values.nbytes) for k, a in enumerate(program.state)]
    upper = name.upper()
    yield f"void {name}_set_learning_rate(double value) {{ rate = value; }}"
    yield ""
    yield f"void {name}_init(void) {{"
    for k, (array, size) in enumerate(weights):
        yield f"  memcpy({array}, {name}_first_weights[{k}], {size});"
    for array, size in state:
        yield f"  memset({array}, 0, {size});"
    yield f"  step = 0, rate = {c_text(program.learning_rate)};"
    yield "}"
    yield ""
    yield f"void {name}_get_weights(void *weights) {{"
    yield from _each(weights, "memcpy(AT(weights, {at}), {array}, {size});")
    yield "}"
    yield ""
    yield f"void {name}_set_weights(const void *weights) {{"
    yield from _each(weights, "memcpy({array}, AT(weights, {at}), {size});")
    yield "}"
    yield ""
    yield f"static const uint64_t digest = {digest:#x}u;"
    yield ""
    yield f"void {name}_save(void *state) {{"
    yield f"  memset(state, 0, {STATE_HEADER});"
    yield "  memcpy(state, &digest, 8);"
    yield "  memcpy(AT(state, 8), &step, 8);"
    yield "  memcpy(AT(state, 16), &rate, 8);"
    yield from _each(weights + state, "memcpy(AT(state, {at}), {array}, {size});", STATE_HEADER)
    yield "}"
    yield ""
    yield f"int {name}_load(const void *state) {{"
    yield f"  if (memcmp(state, &digest, 8)) return {upper}_NO_STATE;"
    yield "  memcpy(&step, AT(state, 8), 8);"
    yield "  memcpy(&rate, AT(state, 16), 8);"
    yield from _each(weights + state, "memcpy({array}, AT(state, {at}), {size});", STATE_HEADER)
    yield f"  return {upper}_OK;"
    yield "}"
    yield ""


def _each(arrays: Sequence[tuple[str, int]], statement: str, at: int = 0) -> Iterator[str]:
    """Yields a statement for each array, whose copies are side by side from `at` on."""
    for array, size in arrays:
        yield "  " + statement.format(at=at, array=array, size=size)
        at += size
