"""Reads CIFAR's pickles without Python's pickle module, so that no code in a file is executed.

A pickle is a program for a stack machine. This reader implements the operations that build plain
values and detects the three calls that construct NumPy arrays and bytes; any other call is an
error. It makes no call: it reads arrays from the bytes among the arguments.
"""

import io
import pickletools
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from odt.core.storage.reading import printable, reading
from odt.errors import DataError
from odt.kernels.rows.opdef import Array

ARRAY = {"numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct"}
PLAIN = {
    "BININT", "BININT1", "BININT2", "LONG1", "INT", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE",
    "BINBYTES", "SHORT_BINBYTES", "BINSTRING", "SHORT_BINSTRING",
}  # fmt: skip
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
OPERATIONS = {operation.code: operation for operation in pickletools.opcodes}
IGNORED = {"PROTO", "FRAME"}


@dataclass
class _Name:
    """The name of a class or function in the pickle, which is never looked up."""

    name: str


@dataclass
class _Type:
    """A NumPy dtype under construction."""

    code: str


@dataclass
class _Array:
    """A NumPy array under construction."""

    value: Array | None = None


def read_pickle(data: bytes, where: str) -> Any:
    """Reads dictionaries, lists, numbers, text, bytes, and arrays of bytes or integers.

    Strings of Python 2 are returned as bytes.

    Raises:
        DataError: if the pickle is damaged or contains anything else.
    """
    with reading(where, "must be a valid pickle"):
        machine = _Machine(where, data)
        return machine.plain(machine.run())


class _Machine:
    """The stack machine.

    Values that the pickle refers to more than once are copied, so a few bytes could fill memory.
    Therefore the result must not be larger than the pickle.
    """

    def __init__(self, where: str, data: bytes) -> None:
        self.where = where
        self.data = data
        self.budget = len(data)
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def spend(self, amount: int) -> None:
        """Counts values and bytes of the result."""
        self.budget -= amount
        if self.budget < 0:
            raise ValueError(f"more than {len(self.data)} values out of {len(self.data)} bytes")

    def run(self) -> Any:
        """Executes the pickle; returns the value on top of the stack at its end."""
        data = self.data
        file = io.BytesIO(data)
        while code := file.read(1):
            operation = OPERATIONS[code.decode("latin1")]
            argument = None
            if operation.name == "BINSTRING":  # may have many MB, so it is not copied
                (length,) = struct.unpack("<i", file.read(4))
                if not 0 <= length <= len(data):
                    raise ValueError("an invalid length")
                argument = memoryview(data)[file.tell() : file.tell() + length]
                file.seek(length, io.SEEK_CUR)
            elif operation.arg is not None:
                argument = operation.arg.reader(file)
            if operation.name == "STOP":
                return self.stack.pop()
            if operation.name not in IGNORED:
                self.step(operation.name, argument)
        raise ValueError("no end")

    def step(self, code: str, argument: Any) -> None:
        is_known = self.push(code, argument) or self.gather(code) or self.make(code, argument)
        if not is_known:
            raise self.refuse(code)

    def push(self, code: str, argument: Any) -> bool:
        """Executes operations on values, marks and the memo; False for any other code."""
        stack = self.stack
        if code in PLAIN:
            stack.append(argument.encode("latin1") if code == "SHORT_BINSTRING" else argument)
        elif code in CONSTANTS:
            stack.append(CONSTANTS[code])
        elif code == "MARK":
            self.marks.append(len(stack))
        elif code in ("EMPTY_DICT", "EMPTY_LIST"):
            stack.append({} if code == "EMPTY_DICT" else [])
        elif code in ("BINPUT", "LONG_BINPUT"):
            self.memo[argument] = stack[-1]
        elif code == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif code in ("BINGET", "LONG_BINGET"):
            stack.append(self.memo[argument])
        else:
            return False
        return True

    def gather(self, code: str) -> bool:
        """Executes operations that move values into a container; False for any other code."""
        stack = self.stack
        if code in ("TUPLE1", "TUPLE2", "TUPLE3"):
            n = int(code[-1])
            stack[-n:] = [tuple(stack[-n:])]
        elif code == "TUPLE":
            stack.append(tuple(self.since_mark()))
        elif code == "APPEND":
            item = stack.pop()
            stack[-1].append(item)
        elif code == "APPENDS":
            items = self.since_mark()
            stack[-1].extend(items)
        elif code in ("SETITEM", "SETITEMS"):
            items = self.since_mark() if code == "SETITEMS" else [stack.pop(-2), stack.pop()]
            stack[-1].update(zip(items[::2], items[1::2], strict=True))
        else:
            return False
        return True

    def make(self, code: str, argument: Any) -> bool:
        """Executes operations that make objects of known classes; False for any other code."""
        stack = self.stack
        if code == "GLOBAL":
            stack.append(_Name(argument))
        elif code == "STACK_GLOBAL":
            name = stack.pop()
            stack.append(_Name(f"{stack.pop()} {name}"))
        elif code == "REDUCE":
            arguments = stack.pop()
            stack.append(self.construct(stack.pop(), arguments))
        elif code == "BUILD":
            state = stack.pop()
            self.complete(stack[-1], state)
        else:
            return False
        return True

    def since_mark(self) -> list[Any]:
        """Removes the values above the last mark from the stack, and returns them."""
        first = self.marks.pop()
        items = self.stack[first:]
        del self.stack[first:]
        return items

    def construct(self, function: Any, arguments: tuple[Any, ...]) -> Any:
        """Returns the result of one of the three known calls."""
        name = function.name if isinstance(function, _Name) else "an object"
        if name in ARRAY:
            return _Array()
        if name == "numpy dtype":
            return _Type(_text(arguments[0]))
        if name == "_codecs encode" and arguments[1] == "latin1":
            self.spend(len(arguments[0]))
            return arguments[0].encode("latin1")
        raise self.refuse(f"a call of {name.replace(' ', '.')}")

    def complete(self, target: Any, state: Any) -> None:
        if isinstance(target, _Type):
            if target.code not in ("u1", "i4", "i8"):
                raise self.refuse(f"dtype {target.code}")
            target.code = ("<" if _text(state[1]) == "|" else _text(state[1])) + target.code
        elif isinstance(target, _Array):
            _, shape, kind, fortran, data = state
            flat = np.frombuffer(data, kind.code)
            target.value = flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)
        else:
            raise self.refuse("the state of an object")

    def plain(self, value: Any) -> Any:
        """Returns a value without the wrappers of this module."""
        self.spend(1)
        if isinstance(value, _Array):
            if value.value is None:
                raise ValueError("an array without values")
            return value.value
        if isinstance(value, dict):
            return {self.plain(k): self.plain(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.plain(v) for v in value]
        if isinstance(value, memoryview):
            self.spend(len(value))
            return bytes(value)
        if isinstance(value, _Name | _Type):
            raise ValueError("a name")
        return value

    def refuse(self, what: str) -> DataError:
        """Returns the error for an operation, a call or a value that is not known."""
        return DataError(
            f"{self.where}: a pickle must hold nothing but arrays, lists and names, but it has "
            f"{printable(what)}. It is not executed."
        )


def _text(value: Any) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else str(value)
