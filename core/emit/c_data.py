"""Large constants of a program: text of C if they are small, else a binary file that C includes.

As text, 9 MB of weights are 50 MB. `#embed` includes a file, but only gcc 15, clang 19 and later
ones know it. For earlier ones, the directive `.incbin` of their assemblers includes the file.
"""

from typing import NamedTuple

from odt.core.emit.c_literals import words

ALIGNMENT = 64  # bytes
TEXT = 2**16  # bytes: larger constants are a binary file


class DataFile(NamedTuple):
    """A C file with an array of constants, and a binary file if it includes one.

    Attributes:
        text: the C file.
        binary: bytes of the file that it includes; None for none.
    """

    text: str
    binary: bytes | None


class DataBlock:
    """Constants side by side; equal ones are stored once.

    Attributes:
        symbol: name of the array.
    """

    def __init__(self, symbol: str) -> None:
        self.symbol = symbol
        self._data = bytearray()
        self._offsets: dict[bytes, int] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of all constants."""
        return len(self._data)

    @property
    def declaration(self) -> str:
        """The declaration of the array, when all constants are there."""
        kind = "uint32_t" if len(self._data) <= TEXT else "unsigned char"
        return f"extern const {kind} {self.symbol}[];"

    def address(self, data: bytes) -> str:
        """Returns the address of constants, in C."""
        if data not in self._offsets:
            self._data += bytes(-len(self._data) % ALIGNMENT)
            self._offsets[data] = len(self._data)
            self._data += data
        return f"AT({self.symbol}, {self._offsets[data]})"

    def addresses(self) -> list[tuple[bytes, str]]:
        """Returns all constants with their addresses."""
        return [(data, self.address(data)) for data in self._offsets]

    def files(self, file: str) -> DataFile:
        """Returns the files of the block.

        Args:
            file: name of the binary file.
        """
        data = bytes(self._data) or bytes(4)  # no array of C is empty
        if len(data) <= TEXT:
            lines = [
                *("#include <stdint.h>", "", self.declaration),
                f"const _Alignas({ALIGNMENT}) uint32_t {self.symbol}[] = {{{words(data)}}};",
            ]
            return DataFile("\n".join([*lines, ""]), None)
        return DataFile(_included(self.symbol, self.declaration, len(data), file), data)


def _included(symbol: str, declaration: str, size: int, file: str) -> str:
    """Returns the text of a C file that includes a binary file."""
    return f"""/* The bytes of {file}. */

{declaration}

#ifdef __has_embed

#ifdef __clang__
#pragma clang diagnostic ignored "-Wc23-extensions"
#endif
const _Alignas({ALIGNMENT}) unsigned char {symbol}[] = {{
#embed "{file}"
}};

#else /* an assembler includes the file, from a folder of the compiler option -I */

#define TEXT(a) #a
#define TEXT_OF(a) TEXT(a)
#define SYMBOL TEXT_OF(__USER_LABEL_PREFIX__) "{symbol}"

#if defined(__APPLE__)
#define SECTION ".section __TEXT,__const\\n"
#elif defined(_WIN32)
#define SECTION ".section .rdata,\\"dr\\"\\n"
#elif defined(__wasm__)
#define SECTION \\
  ".section .rodata.{symbol},\\"\\",@\\n" \\
  ".type " SYMBOL ",@object\\n" \\
  ".size " SYMBOL ", {size}\\n"
#else
#define SECTION ".section .rodata.{symbol},\\"a\\",%progbits\\n"
#endif

__asm__(
  SECTION
  ".globl " SYMBOL "\\n"
  ".balign {ALIGNMENT}\\n"
  SYMBOL ":\\n"
  ".incbin \\"{file}\\"\\n"
  ".text\\n"
);

#endif
"""
