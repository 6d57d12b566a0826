"""Options of `odt.compile` besides those of a trainer."""

from odt.core.options.option import OTHER, Option, Word, table
from odt.kernels.native.target import TARGETS

TARGET = Option(
    "generic",
    Word(TARGETS),
    OTHER,
    "Machine for which the program is written. "
    + " ".join(f"{name}: {row.about}." for name, row in TARGETS.items()),
    common=True,
)
COMPILE_OPTIONS = table(target=TARGET)
