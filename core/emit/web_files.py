"""The files of a compiled program for JavaScript, beside the WebAssembly module."""

from collections.abc import Sequence
from pathlib import Path

import odt.core.emit
from odt.core.emit.c_literals import comment_text
from odt.core.emit.step_program import Argument, StepProgram

FOLDER = Path(odt.core.emit.__path__[0]) / "web"
HEADERS = ("math.h", "string.h")  # what the kernels need of a C library
# Data types of NumPy → typed arrays of JavaScript.
ARRAYS = {
    "float32": "Float32Array",
    "int8": "Int8Array",
    "uint8": "Uint8Array",
    "int16": "Int16Array",
    "int32": "Int32Array",
    "int64": "BigInt64Array",
    "bool": "Uint8Array",
}


def web_files(program: StepProgram, name: str, exports: bool) -> dict[str, str]:
    """Returns the text of the files for JavaScript and of what zig compiles, path → text.

    Args:
        program: the step.
        name: prefix of the C functions.
        exports: whether the program can export the model file.
    """
    return {
        f"{name}.js": _text("module.js"),
        f"{name}.d.ts": _types(program),
        "wasm/exports.c": _functions(name)
        + (_set_seed(name) if program.origin else "")
        + (_export(name) if exports else ""),
        **{f"wasm/{header}": _text(header) for header in HEADERS},
    }


def _text(file: str) -> str:
    return (FOLDER / file).read_text("utf-8")


def _types(program: StepProgram) -> str:
    """Returns the types of the model's arrays, and those of all models."""
    lines = ["/* Types of a model for training in WebAssembly. Written by odt. */", ""]
    passes = (
        ("Inputs", program.train[-1].inputs),
        ("Targets", program.train[-1].targets),
        ("Outputs", program.predict[-1].outputs),
    )
    for name, arguments in passes:
        lines += [*_tuple(name, arguments), ""]
    types = sorted({ARRAYS[a.values.dtype.name] for a in program.weights})
    lines += ["/** The values of a weight. */", f"export type Weight = {' | '.join(types)};", ""]
    return "\n".join([*lines, _text("types.d.ts")])


def _tuple(name: str, arguments: Sequence[Argument]) -> list[str]:
    """Returns a type of typed arrays; its comment has the shapes of a sample."""
    shapes = []
    for k, a in enumerate(arguments):
        shape = " × ".join(map(str, a.spec.shape[1:])) or "1"
        shapes.append(f" * [{k}]: {shape} for each sample  {comment_text(a.name)}".rstrip())
    types = ", ".join(ARRAYS[a.spec.dtype.name] for a in arguments)
    return ["/**", *shapes, " */", f"export type {name} = [{types}];"]


def _functions(name: str) -> str:
    """Returns what JavaScript calls besides the functions of the program."""
    return f"""#include "../{name}.h"

#define EXPORT(name) __attribute__((export_name(#name)))
#define IMPORT(name) __attribute__((import_module("odt"), import_name(#name)))

EXPORT(state_size) int state_size(void) {{ return {name.upper()}_STATE_SIZE; }}
"""


def _set_seed(name: str) -> str:
    """Returns the function that sets the random seed; JavaScript passes numbers as doubles."""
    return f"""
EXPORT(set_seed) void set_seed(double seed) {{ {name}_set_seed((uint64_t)seed); }}
"""


def _export(name: str) -> str:
    """Returns the function that exports the model file, and passes its parts to JavaScript."""
    return f"""
IMPORT(write) void write_part(const void *bytes, size_t size);

static int write_to_javascript(void *context, const void *bytes, size_t size) {{
  (void)context;
  write_part(bytes, size);
  return 0;
}}

EXPORT(export_model) int export_model(void) {{ return {name}_export(write_to_javascript, 0); }}
"""
