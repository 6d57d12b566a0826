"""Writes a step program as C: static memory, and the calls of kernels in order."""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from odt.core.emit.c_calls import CallWriter
from odt.core.emit.c_data import DataBlock
from odt.core.emit.c_export import export_function
from odt.core.emit.c_literals import Declarations, array_bytes, comment_text
from odt.core.emit.model_image import ModelImage
from odt.core.emit.step_program import Argument, Pass, StepProgram
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
COUNT_LABELS = """
/* Returns the samples times the fraction of their labels that are not ignored, because not below 0.
   Without any, losses are 0 for any number. */
static double count_labels(const int32_t *labels, int64_t samples, int64_t each) {
  int64_t counted = 0;
  for (int64_t i = 0; i < samples * each; i++) counted += labels[i] >= 0;
  return (double)(counted > 0 ? counted : 1) / (double)each;
}
"""
STATE_HEADER = 32  # bytes: digest of the program, step, learning rate, random seed or zeros


def header(program: StepProgram, name: str, *, exports: bool) -> str:
    """Returns NAME.h.

    Args:
        program: the step.
        name: prefix of the functions, a C identifier.
        exports: whether there is a function that exports.
    """
    upper = name.upper()
    train, evaluate = _parameters(program.train), _parameters(program.evaluate)
    predict = _parameters(program.predict, outputs=True)
    scheduled = "" if program.rate.text == "rate" else ", which the schedule scales"
    seeded = ", random seed" if program.origin else ""
    averaged = "; their moving averages" if program.averages else ""
    arrays = "\n".join(f"   {line}" for line in _describe(program))
    return f"""/* Trains a model in static memory. Written by odt.

   One thread at a time may call these functions, and {name}_init first.

{arrays} */

#ifndef {upper}_H
#define {upper}_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

enum {{
  {upper}_BATCH = {program.batch}, /* samples of a whole batch */
  {upper}_WEIGHTS_SIZE = {sum(w.values.nbytes for w in program.weights)}, /* bytes of all weights */
  {upper}_STATE_SIZE = {_state_nbytes(program)} /* bytes of weights and optimizer state */
}};

/* What functions return. Whatever is not OK changes nothing.
   NOT_FINITE: the loss is NaN or infinite.
   NO_STATE: {name}_save of this program did not write these bytes.
   NOT_READY: {name}_init was not called before.
   BAD_SIZE: a batch cannot have this number of samples.
   NOT_WRITTEN: a function that was given did not write bytes of the model file. */
enum {{
  {upper}_OK = 0,
  {upper}_NOT_FINITE = 1,
  {upper}_NO_STATE = 2,
  {upper}_NOT_READY = 3,
  {upper}_BAD_SIZE = 4,
  {upper}_NOT_WRITTEN = 5
}};

/* Sets the weights to those of the model file, and resets the optimizer. */
void {name}_init(void);

/* Trains on a batch of {_numbers_of(program, program.train)}. The loss is that before the update.
   Returns OK, NOT_FINITE, NOT_READY or BAD_SIZE. */
int {name}_train({train}, int samples, float *loss);

/* Computes the loss of a batch of {_numbers_of(program, program.evaluate)}.
   Returns OK, NOT_FINITE, NOT_READY or BAD_SIZE. */
int {name}_evaluate({evaluate}, int samples, float *loss);

/* Computes the outputs of a batch of {_numbers_of(program, program.predict)}.
   Returns OK, NOT_READY or BAD_SIZE. */
int {name}_predict({predict}, int samples);

/* The learning rate of the next steps{scheduled}; {name}_init resets it.
   Returns OK, or NOT_FINITE if it is NaN or infinite. */
int {name}_set_learning_rate(double value);
{_set_seed(name) if program.origin else ""}
/* Copies all weights, {upper}_WEIGHTS_SIZE bytes, in the order of manifest.json{averaged}.
   Both return OK or NOT_READY. */
int {name}_get_weights(void *weights);
int {name}_set_weights(const void *weights);

/* Copies weights, optimizer state, number of steps{seeded} and learning rate: all in all
   {upper}_STATE_SIZE bytes. The first returns OK or NOT_READY, the other one OK or NO_STATE; it
   may be called instead of {name}_init. */
int {name}_save(void *state);
int {name}_load(const void *state);
{_export(name) if exports else ""}
#ifdef __cplusplus
}}
#endif

#endif
"""


def _set_seed(name: str) -> str:
    """Returns the declaration of the function that sets the random seed."""
    return f"""
/* The seed of the random numbers of the next steps, as `seed` of training; {name}_init sets 0. */
void {name}_set_seed(uint64_t seed);
"""


def _export(name: str) -> str:
    """Returns the declaration of the function that exports."""
    return f"""
/* Writes the model file with the weights as they are now: calls `write` for one part of the file
   after the other, which returns 0 if it wrote the bytes. Returns OK, NOT_READY, or NOT_WRITTEN
   as soon as `write` returns something else. */
typedef int (*{name}_writer)(void *context, const void *bytes, size_t size);
int {name}_export({name}_writer write, void *context);
"""


def _numbers_of(program: StepProgram, passes: Sequence[Pass]) -> str:
    """Returns the numbers of samples that a batch may have."""
    least, most = passes[0].least, program.batch
    if least == most:
        return "1 sample" if most == 1 else f"{most} samples"
    return f"{least} to {most} samples"


def _describe(program: StepProgram) -> Iterator[str]:
    """Yields a line for each array that functions take."""
    passes = (
        ("input", program.train[-1].inputs),
        ("target", program.train[-1].targets),
        ("output", program.predict[-1].outputs),
    )
    for word, arguments in passes:
        for k, a in enumerate(arguments):
            shape = " × ".join(map(str, a.spec.shape))
            yield f"{word}_{k}: {c_type(a)}, {shape}  {comment_text(a.name)}".rstrip()


def c_type(a: Argument) -> str:
    """Returns the C type of an array's values."""
    return C_TYPES[a.spec.dtype.name]


def _arrays(passes: Sequence[Pass], *, outputs: bool) -> Iterator[tuple[str, str]]:
    """Yields type and name of the arrays of a batch."""
    run = passes[-1]
    for word, arguments in (("input", run.inputs), ("target", run.targets)):
        yield from ((f"const {c_type(a)} *", f"{word}_{k}") for k, a in enumerate(arguments))
    if outputs:
        yield from ((f"{c_type(a)} *", f"output_{k}") for k, a in enumerate(run.outputs))


def _parameters(passes: Sequence[Pass], *, outputs: bool = False) -> str:
    """Returns the parameters of a function for the arrays of a batch."""
    return ", ".join(kind + name for kind, name in _arrays(passes, outputs=outputs))


def _state_nbytes(program: StepProgram) -> int:
    """Returns the bytes that `save` writes."""
    memory = (*program.weights, *program.state)
    return STATE_HEADER + sum(a.values.nbytes for a in memory)


class Source(NamedTuple):
    """NAME.c and its large constants.

    Attributes:
        text: NAME.c.
        digest: identifies the program in the buffers of `save`.
        weights: first values of the weights, and constants of kernels.
        model: what stays in the model file.
    """

    text: str
    digest: int
    weights: DataBlock
    model: DataBlock


def source(program: StepProgram, name: str, image: ModelImage | None) -> Source:
    """Returns the program.

    Args:
        program: the step.
        name: prefix of the functions, a C identifier.
        image: the model file, for the function that exports; None for none.
    """
    declarations = Declarations(volumes=program.reads_volumes)
    weights, model = DataBlock(f"{name}_constants"), DataBlock(f"{name}_file")
    calls = CallWriter(program, name, declarations, weights)
    functions = [
        *_update(program),
        *_around(program, calls),
        *_passes(program, calls),
        *_interface(program, name, calls),
        *_start(program, name, weights),
        *_copies(program, name),
    ]
    if image is not None:
        functions += export_function(
            image, name, weights.addresses(), model, averages=bool(program.averages)
        )
    before = [
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
        weights.declaration,
        *([model.declaration] if image is not None else []),
        f"static _Alignas(64) unsigned char arena[{program.arena}];",
        *_memory(program, calls),
        "",
        *declarations.lines,
        "",
    ]
    lines = "\n".join([*before, *functions])
    data = b"".join(data for block in (weights, model) for data, _ in block.addresses())
    digest = int.from_bytes(sha256(lines.encode() + data).digest()[:8], "little")
    text = "\n".join([*before, f"static const uint64_t digest = {digest:#x}u;", "", *functions])
    return Source(text, digest, weights, model)


def _memory(program: StepProgram, calls: CallWriter) -> Iterator[str]:
    """Yields the declarations of memory beside the arena."""
    memory = ("weights", program.weights), ("state", program.state), ("sums", program.sums)
    for prefix, arrays in memory:
        for k, a in enumerate(arrays):
            size = f"{prefix}_{k}[{a.values.nbytes}]"
            yield f"static _Alignas(64) unsigned char {size}; /* {comment_text(a.name)} */"
    for k, numbers in enumerate(program.numbers):
        yield f"static float numbers_{k}[{len(numbers.terms)}];"
    if program.origin:
        yield "/* What random numbers follow from: seed, number of the step, first sample. */"
        yield f"static uint64_t *const origin = {calls.at(program.origin)};"
    yield f"static double rate = {c_text(program.learning_rate)}; /* learning rate */"
    yield "static int64_t step;"
    yield "static int is_ready;"
    yield "static int64_t batch; /* samples of the batch at hand */"
    for k in program.labels:
        yield f"static double counted_{k}; /* those with a label in target {k}; see count_labels */"
    if program.labels:
        yield from COUNT_LABELS.splitlines()


def _update(program: StepProgram) -> Iterator[str]:
    """Yields the function that fills the numbers of an update."""
    yield "static void begin_update(void) {"
    yield f"  double now = {program.rate.text};"
    for k, numbers in enumerate(program.numbers):
        for at, term in enumerate(numbers.terms):
            yield f"  numbers_{k}[{at}] = (float){c_text(term)};"
    yield "}"
    yield ""


def _around(program: StepProgram, calls: CallWriter) -> Iterator[str]:
    """Yields the functions that prepare the weights of a batch."""
    if program.averages:
        yield "static void exchange(uint32_t *a, uint32_t *b, int64_t count) {"
        yield "  for (int64_t i = 0; i < count; i++) {"
        yield "    uint32_t value = a[i];"
        yield "    a[i] = b[i], b[i] = value;"
        yield "  }"
        yield "}"
        yield ""
        yield "/* Exchanges the weights with their moving averages, which begin with step 1. */"
        yield "static void exchange_averages(void) {"
        yield "  if (step == 0) return;"
        for k, average in enumerate(program.averages):
            count = program.weights[k].values.nbytes // 4
            yield f"  exchange((void *)weights_{k}, (void *)state_{average}, {count});"
        yield "}"
        yield ""
    if program.before:
        yield "static void round_weights(void) {"
        yield from (f"  {line}" for line in calls.statements(program.before))
        yield "}"
        yield ""


def _begin(program: StepProgram, *, trains: bool) -> Iterator[str]:
    """Yields the statements before the micro-batches of a batch."""
    if program.averages and not trains:
        yield "  exchange_averages();"
    if program.before:
        yield "  round_weights();"


def _end(program: StepProgram) -> Iterator[str]:
    """Yields the statements after a batch that does not train."""
    if program.averages:
        yield "  exchange_averages();"


def _passes(program: StepProgram, calls: CallWriter) -> Iterator[str]:
    """Yields the functions that make the calls of a batch."""

    def forward(run: Pass) -> Iterator[str]:
        yield from calls.fill(run)
        yield from calls.statements(run.forward)
        yield f"return {calls.loss(run)};"

    def backward(run: Pass) -> Iterator[str]:
        yield from calls.statements(run.backward)

    def predict(run: Pass) -> Iterator[str]:
        yield from calls.fill(run)
        yield from calls.statements(run.forward)
        yield from calls.outputs(run)

    yield from _function("double train_forward", program.train, forward)
    yield from _function("void train_backward", program.train, backward, arrays=False)
    if program.after:
        yield "static void update(void) {"
        yield from (f"  {line}" for line in calls.statements(program.after))
        yield "}"
        yield ""
    yield from _function("double evaluate", program.evaluate, forward)
    yield from _function("void predict", program.predict, predict, outputs=True)


def _function(
    name: str,
    passes: Sequence[Pass],
    body: Callable[[Pass], Iterator[str]],
    *,
    arrays: bool = True,
    outputs: bool = False,
) -> Iterator[str]:
    """Yields a function of the samples of a batch.

    Args:
        name: its type and name.
        passes: what it does for numbers of samples.
        body: returns the statements of a pass.
        arrays, outputs: whether it gets inputs and targets, and outputs.
    """
    parameters = f"{_parameters(passes, outputs=outputs)}, " if arrays else ""
    yield f"static {name}({parameters}int64_t samples) {{"
    for run in passes[:-1]:
        yield f"  if (samples <= {run.most}) {{"
        yield from (f"    {line}" for line in body(run))
        if not name.startswith("double"):  # the statements of others return a value themselves
            yield "    return;"
        yield "  }"
    lines = [*body(passes[-1])]
    if len(passes) == 1 and not any("samples" in line for line in lines):
        yield "  (void)samples;"
    yield from (f"  {line}" for line in lines)
    yield "}"
    yield ""


def _interface(program: StepProgram, name: str, calls: CallWriter) -> Iterator[str]:
    """Yields the functions that compute a batch."""
    upper = name.upper()

    def checks(passes: Sequence[Pass]) -> Iterator[str]:
        yield f"  if (!is_ready) return {upper}_NOT_READY;"
        least, most = passes[0].least, program.batch
        yield f"  if (samples < {least} || samples > {most}) return {upper}_BAD_SIZE;"
        yield "  uint32_t mode = get_float_mode();"
        yield "  set_float_mode(mode | FLUSH);"

    yield f"int {name}_train({_parameters(program.train)}, int samples, float *loss) {{"
    yield from checks(program.train)
    yield "  step += 1;"
    if program.origin:
        yield "  origin[1] = (uint64_t)step;"
    yield "  begin_update();"
    yield from _begin(program, trains=True)
    yield from _losses(program, program.train, calls, "train_forward", "train_backward")
    yield "  int is_finite = sum - sum == 0;"  # false for NaN and infinity
    if program.after:
        yield "  if (is_finite) update();"
        yield "  else step -= 1;"
    else:
        yield "  if (!is_finite) step -= 1;"
    yield "  set_float_mode(mode);"
    yield "  *loss = (float)sum;"
    yield f"  return is_finite ? {upper}_OK : {upper}_NOT_FINITE;"
    yield "}"
    yield ""
    yield f"int {name}_evaluate({_parameters(program.evaluate)}, int samples, float *loss) {{"
    yield from checks(program.evaluate)
    yield from _begin(program, trains=False)
    yield from _losses(program, program.evaluate, calls, "evaluate")
    yield from _end(program)
    yield "  set_float_mode(mode);"
    yield "  *loss = (float)sum;"
    yield f"  return sum - sum == 0 ? {upper}_OK : {upper}_NOT_FINITE;"
    yield "}"
    yield ""
    yield f"int {name}_predict({_parameters(program.predict, outputs=True)}, int samples) {{"
    yield from checks(program.predict)
    yield from _begin(program, trains=False)
    yield from _each_micro_batch(
        program, f"predict({_micro_batch(program.predict, outputs=True)}, some);"
    )
    yield from _end(program)
    yield "  set_float_mode(mode);"
    yield f"  return {upper}_OK;"
    yield "}"
    yield ""


def _losses(
    program: StepProgram,
    passes: Sequence[Pass],
    calls: CallWriter,
    forward: str,
    backward: str = "",
) -> Iterator[str]:
    """Yields the statements that compute the sum of the losses, and gradients while it is finite.

    Args:
        program: the step.
        passes: passes of the functions.
        calls: writes addresses.
        forward: name of the function that returns the loss of a micro-batch.
        backward: name of the function that computes gradients; empty for none.
    """
    yield "  double sum = 0;"
    yield "  batch = samples;"
    for k in program.labels:
        each = passes[-1].targets[k].spec.size // passes[-1].most
        yield f"  counted_{k} = count_labels(target_{k}, samples, {each});"
    lines = ["origin[2] = (uint64_t)at;"] if backward and program.origin else []
    lines.append(f"sum += {forward}({_micro_batch(passes)}, some);")
    if backward and program.adds is not None:
        lines.append(f"*(int64_t *){calls.at(program.adds)} = at > 0;")
    lines.append("if (sum - sum != 0) break;")  # it is NaN or infinite
    if backward:
        lines.append(f"{backward}(some);")
    yield from _each_micro_batch(program, *lines)


def _each_micro_batch(program: StepProgram, *statements: str) -> Iterator[str]:
    """Yields a loop over micro-batches of `some` samples, from number `at` on."""
    yield "  for (int64_t at = 0, some; at < samples; at += some) {"
    size = program.micro_batch
    yield f"    some = samples - at < {size} ? samples - at : {size};"
    yield from (f"    {statement}" for statement in statements)
    yield "  }"


def _micro_batch(passes: Sequence[Pass], *, outputs: bool = False) -> str:
    """Returns the arrays of a micro-batch as arguments."""
    run = passes[-1]
    arguments = [*run.inputs, *run.targets, *(run.outputs if outputs else ())]
    names = (name for _, name in _arrays(passes, outputs=outputs))
    sizes = (a.spec.size // run.most for a in arguments)
    return ", ".join(f"{name} + {n} * at" for name, n in zip(names, sizes, strict=True))


def _start(program: StepProgram, name: str, constants: DataBlock) -> Iterator[str]:
    """Yields the functions that set weights, state and learning rate to first values.

    Args:
        program: the step.
        name: prefix of the functions.
        constants: gets the first values of the weights.
    """
    upper = name.upper()
    yield f"int {name}_set_learning_rate(double value) {{"
    yield f"  if (value - value != 0) return {upper}_NOT_FINITE;"
    yield "  rate = value;"
    yield f"  return {upper}_OK;"
    yield "}"
    yield ""
    if program.origin:
        yield f"void {name}_set_seed(uint64_t seed) {{ origin[0] = seed; }}"
        yield ""
    yield f"void {name}_init(void) {{"
    for k, w in enumerate(program.weights):
        first = constants.address(array_bytes(w.values))
        yield f"  memcpy(weights_{k}, {first}, {w.values.nbytes});"
    for k, a in enumerate(program.state):
        yield f"  memset(state_{k}, 0, {a.values.nbytes});"
    for k, average in enumerate(program.averages):
        yield f"  memcpy(state_{average}, weights_{k}, {program.weights[k].values.nbytes});"
    if program.origin:
        yield "  origin[0] = 0;"
    yield f"  step = 0, rate = {c_text(program.learning_rate)}, is_ready = 1;"
    yield "}"
    yield ""


def _copies(program: StepProgram, name: str) -> Iterator[str]:
    """Yields the functions that copy weights and state."""
    weights = [(f"weights_{k}", a.values.nbytes) for k, a in enumerate(program.weights)]
    state = [(f"state_{k}", a.values.nbytes) for k, a in enumerate(program.state)]
    upper = name.upper()
    averages = [state[k] for k in program.averages]
    # Averages, one for each of the weights or none, are the weights outside of training.
    pairs = zip(weights, averages, strict=False)
    outside = [(f"step ? {average} : {array}", size) for (array, size), (average, _) in pairs]
    ready = f"  if (!is_ready) return {upper}_NOT_READY;"
    yield f"int {name}_get_weights(void *weights) {{"
    yield ready
    yield from _each(outside or weights, "memcpy(AT(weights, {at}), {array}, {size});")
    yield f"  return {upper}_OK;"
    yield "}"
    yield ""
    yield f"int {name}_set_weights(const void *weights) {{"
    yield ready
    yield from _each(weights, "memcpy({array}, AT(weights, {at}), {size});")
    yield from _each(averages, "memcpy({array}, AT(weights, {at}), {size});")
    yield f"  return {upper}_OK;"
    yield "}"
    yield ""
    yield f"int {name}_save(void *state) {{"
    yield ready
    yield f"  memset(state, 0, {STATE_HEADER});"
    yield "  memcpy(state, &digest, 8);"
    yield "  memcpy(AT(state, 8), &step, 8);"
    yield "  memcpy(AT(state, 16), &rate, 8);"
    if program.origin:
        yield "  memcpy(AT(state, 24), origin, 8);"
    yield from _each(weights + state, "memcpy(AT(state, {at}), {array}, {size});", STATE_HEADER)
    yield f"  return {upper}_OK;"
    yield "}"
    yield ""
    yield f"int {name}_load(const void *state) {{"
    yield f"  if (memcmp(state, &digest, 8)) return {upper}_NO_STATE;"
    yield "  memcpy(&step, AT(state, 8), 8);"
    yield "  memcpy(&rate, AT(state, 16), 8);"
    if program.origin:
        yield "  memcpy(origin, AT(state, 24), 8);"
    yield from _each(weights + state, "memcpy({array}, AT(state, {at}), {size});", STATE_HEADER)
    yield "  is_ready = 1;"
    yield f"  return {upper}_OK;"
    yield "}"
    yield ""


def _each(arrays: Sequence[tuple[str, int]], statement: str, at: int = 0) -> Iterator[str]:
    """Yields a statement for each array, whose copies are side by side from `at` on."""
    for array, size in arrays:
        yield "  " + statement.format(at=at, array=array, size=size)
        at += size
