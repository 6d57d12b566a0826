"""Options of `odt.compile` besides those of a trainer."""

from odt.core.options.option import MEMORY, OTHER, Form, Option, Word, table
from odt.kernels.native.target import TARGETS

SIZE = Form("size", "a number of bytes, or a size such as 256kB or 256KiB")
TARGET = Option(
    "generic",
    Word(TARGETS),
    OTHER,
    "Machine for which the program is written. "
    + " ".join(f"{name}: {row.about}." for name, row in TARGETS.items()),
    common=True,
)
COMPILE_OPTIONS = table(
    target=TARGET,
    ram=Option(
        None,
        SIZE,
        MEMORY,
        "Memory of the device for static memory and the stack, such as 256kB. odt chooses "
        "micro-batch, recomputation and order so that the program fits.",
        metavar="SIZE",
        common=True,
    ),
    stack=Option(
        None,
        SIZE,
        MEMORY,
        "Stack of the device, with `target=microcontroller`. What the program needs if left out.",
        metavar="SIZE",
        common=True,
    ),
)
