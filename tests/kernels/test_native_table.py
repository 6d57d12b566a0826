"""The table of the compiled library and the Python that calls it agree, or the user is told."""

import ast
import ctypes
import re
import shutil
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.paths import ROOT

from odt.kernels.native import library, structs
from odt.kernels.native.binding import argument_types, bind, in_order, joined
from odt.kernels.native.library import LibraryError
from odt.kernels.native.updates import bind_accumulate

pytestmark = pytest.mark.skipif(not library.instruction_sets(), reason="nothing is compiled")


def calls_of(path: Path, *functions: str) -> set[str]:
    """First arguments of calls of these functions, where they are strings."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            name = node.func.id if isinstance(node.func, ast.Name) else name
            if name in functions and isinstance(node.args[0].value, str):
                found.add(node.args[0].value)
    return found


def test_every_kernel_of_the_table_is_called_and_every_limit_is_read() -> None:
    paths = sorted((ROOT / "kernels").rglob("*.py"))
    text = "".join(p.read_text(encoding="utf-8") for p in paths)
    assert {n for p in paths for n in calls_of(p, "bind", "bind_update")} <= {
        *library.exports().kernels
    }
    names = (n.removeprefix("map_") for n in library.exports().kernels)
    stems = ((n, n.removesuffix("_back")) for n in names)
    assert not [n for n, stem in stems if f'"{n}"' not in text and f'"{stem}"' not in text]
    limits = {n for p in paths for n in calls_of(p, "limit")}
    limits |= {n for n in vars(structs) if n.startswith("MAX_")}
    exported = {*library.exports().limits}
    assert limits == exported


def test_a_loop_in_c_can_call_every_kernel_of_a_program() -> None:
    kernels = {re.sub("^map_.*", "map", n) for n in library.exports().kernels}
    missing = kernels - library.exports().callers.keys()
    assert not missing, f"add a line to callers.h for {missing}"


def test_joined_calls_run_in_order_around_those_in_python() -> None:
    x, seen = np.ones(3, np.float32), []
    double, adds = np.full(3, 2, np.float32), np.ones(1, np.int64)
    scaled = [bind_accumulate(x, double, adds) for _ in range(2)]
    calls = joined([*scaled, lambda: seen.append(x.copy()), scaled[0]])
    assert len(calls) == 3
    for call in calls:
        call()
    np.testing.assert_array_equal(seen, [[5, 5, 5]])
    np.testing.assert_array_equal(x, [7, 7, 7])
    adds[0] = 0
    in_order(scaled)()
    np.testing.assert_array_equal(x, double)


def test_limits_of_structs_are_those_of_c() -> None:
    for name, value in library.exports().limits.items():
        assert getattr(structs, name, value) == value


def test_fields_of_structs_are_those_of_c() -> None:
    """Sizes alone would not tell two fields that change places."""
    text = (ROOT / "kernels/native/src/abi.h").read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    found = re.findall(r"typedef struct \{(.*?)\} (\w+);", text, re.DOTALL)
    assert {name for _, name in found} == structs.STRUCTS.keys()
    for body, name in found:
        fields = [
            re.sub(r"\[.*", "", field).strip(" *")
            for line in body.split(";")
            for field in re.sub(r"^\s*(const )?\w+ ", "", line).split(",")
        ]
        assert [f for f in fields if f.strip()] == [f[0] for f in structs.STRUCTS[name]._fields_]


def test_arguments_of_another_type_or_number_are_refused_when_they_are_bound() -> None:
    x = np.ones((1, 1), np.float32)
    sizes = (1, 1, 1, 0, 0.0, 0.0)
    bind("dense", x, x, None, x.copy(), *sizes)()
    with pytest.raises(LibraryError, match="but dense has 10 arguments, not 9"):
        bind("dense", x, x, None, x.copy(), *sizes[:-1])
    with pytest.raises(TypeError):
        bind("dense", x, x, None, x.copy(), 1.5, *sizes[1:])
    with pytest.raises(TypeError):
        bind("dense", x, x, None, *sizes[:1], x, *sizes[1:])
    with pytest.raises(TypeError):
        bind("max_pool", x, x, structs.RecurrentShape())


def test_a_library_of_other_structs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Longer(ctypes.Structure):
        _fields_ = [("a", ctypes.c_int64)]

    monkeypatch.delenv("ODT_KERNELS", raising=False)
    found = library.load()
    assert found is not None
    monkeypatch.setitem(structs.STRUCTS, "recurrent_shape", Longer)
    wrong = library._mismatch(found)
    monkeypatch.setattr(library, "_open", lambda: (found, wrong))
    with pytest.raises(LibraryError) as caught:
        library.load()
    assert str(caught.value) == (
        "the compiled kernels must be those of this odt, but recurrent_shape has 72 bytes, not 8. "
        "Install odt again, or set ODT_KERNELS=numpy."
    )
    monkeypatch.setenv("ODT_KERNELS", "numpy")
    assert library.load() is None


def test_a_library_without_a_table_is_refused() -> None:
    assert library._mismatch(ctypes.CDLL(None)) == "it has no table of its kernels"


def test_a_kernel_that_the_library_lacks_is_named() -> None:
    with pytest.raises(LibraryError, match="but they lack convolve"):
        argument_types("convolve")


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("ld.bfd"), reason="needs GNU ld")
def test_functions_of_one_instruction_set_are_side_by_side() -> None:
    """The system maps neighboring pages, too: those of other sets would take memory in vain."""
    loaded: Any = library.load()
    places = []
    for which in library.instruction_sets():
        names = (n for n in library.exports().kernels if not n.endswith("_bf16"))
        kernels = (getattr(loaded, f"{name}_{which}") for name in names)
        each = [ctypes.cast(kernel, ctypes.c_void_p).value or 0 for kernel in kernels]
        places.append((min(each), max(each)))
    places.sort()
    assert all(end < start for (_, end), (start, _) in pairwise(places))
