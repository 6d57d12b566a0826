"""Compiled kernels compute what the NumPy kernels of the same rows do, on every instruction set."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from _pytest.mark import ParameterSet
from op_db import OP_DB, OpInfo, Sample
from support.limits import FOREVER
from support.op_run import Case, as_kernel, kernels, make_case

from odt.errors import OptionError
from odt.kernels.native import library
from odt.kernels.rows.opdef import Kernel

SETS = library.instruction_sets()
CPUINFO = Path("/proc/cpuinfo")
FEATURES = {  # of x86-64
    "base": set[str](),
    "avx2": {"avx2", "fma"},
    "avx512": {"avx2", "fma", "avx512f", "avx512vl", "avx512dq", "avx512bw"},
}


def compiled_kernels(case: Case) -> Iterator[tuple[str, Kernel, Kernel, str]]:
    """Label, NumPy kernel, compiled one, the input whose gradient it is."""
    for label, kernel, of in kernels(case):
        compiled = library.compiled_of(kernel, case.attrs, case.specs)
        if compiled is not None:
            yield label, kernel, as_kernel(kernel, compiled), of


def has_compiled(info: OpInfo, sample: Sample) -> bool:
    """Whether the sample has compiled kernels, which depends on shapes and types alone."""
    return any(True for _ in compiled_kernels(make_case(info, sample, np.float32)))


def cases(samples: Callable[[OpInfo], Iterable[Sample]]) -> list[ParameterSet]:
    return [
        pytest.param(i, s, id=f"{n}-{s.label}")
        for n, i in OP_DB.items()
        for s in samples(i)
        if SETS and has_compiled(i, s)
    ]


LARGE = cases(lambda info: (info.large, *info.also_large))
CASES = [*cases(lambda info: info.samples), *LARGE]


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc"))), reason="there is no C compiler")
def test_the_compiled_kernels_were_built() -> None:
    assert SETS, "there is a C compiler, but no library: install odt again (make clean)"
    assert len(CASES) > 50


@pytest.fixture(params=SETS)
def instruction_set(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ODT_KERNELS", request.param)
    return str(request.param)


@pytest.mark.parametrize(("info", "sample"), CASES)
def test_compiled_agrees_with_numpy(instruction_set: str, info: OpInfo, sample: Sample) -> None:
    """Within float32's rounding of NumPy's result in float64, whatever memory held before."""
    case, exact = (make_case(info, sample, d) for d in (np.float32, np.float64))
    for c in (case, exact):
        c.forward()
        c.seed_gradients()
    for label, kernel, compiled, of in compiled_kernels(case):
        wanted = exact.run(kernel, of=of)
        for name, a in case.run(compiled, of=of).items():
            scale = float(np.abs(wanted[name]).max(initial=1.0))
            tolerance = 1e-5 * info.loose
            np.testing.assert_allclose(
                a, wanted[name], rtol=tolerance, atol=tolerance * scale, err_msg=f"{label} {name}"
            )
            again = case.run(compiled, 1, of=of)[name]
            assert a.tobytes() == again.tobytes(), f"{label}: {name} depends on what memory held"


@pytest.mark.parametrize(("info", "sample"), CASES)
def test_aliased_compiled_kernels_give_equal_bits(
    instruction_set: str, info: OpInfo, sample: Sample
) -> None:
    case = make_case(info, sample, np.float32)
    case.forward()
    case.seed_gradients()
    for label, _, compiled, of in compiled_kernels(case):
        apart = case.run(compiled, of=of)
        for pair in compiled.may_alias:
            if case.fits(pair, apart, case.arrays):
                for name, a in case.run(compiled, of=of, alias=pair).items():
                    assert a.tobytes() == apart[name].tobytes(), f"{label} {name} {pair}"


@pytest.mark.parametrize(("info", "sample"), LARGE)
def test_calls_shared_among_cores_give_the_same_bits(info: OpInfo, sample: Sample) -> None:
    case = make_case(info, sample, np.float32)
    case.forward()
    case.seed_gradients()
    for label, _, compiled, of in compiled_kernels(case):
        alone = case.run(compiled, of=of)
        try:
            library.set_threads(3)
            for name, a in case.run(compiled, of=of).items():
                assert a.tobytes() == alone[name].tobytes(), f"{label} {name}"
        finally:
            library.set_threads(1)


@pytest.mark.skipif(not SETS or not hasattr(os, "fork"), reason="nothing compiled, or no fork")
def test_a_forked_process_shares_its_calls_too() -> None:
    """It has none of its parent's threads, and starts its own."""
    program = (
        "import os, numpy as np\n"
        "from odt.kernels.native.binding import bind\n"
        "from odt.kernels.native.library import set_threads\n"
        "x = np.ones((500, 500), np.float32)\n"
        "y = np.empty((500, 500), np.float32)\n"
        "set_threads(2)\n"
        "run = bind('dense', x, x, None, y, 500, 500, 500, 0, 0.0, 0.0)\n"
        "run()\n"
        "child = os.fork()\n"
        "y[...] = 0\n"
        "run()\n"
        "assert (y == 500).all()\n"
        "if not child: os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=FOREVER)


def test_an_unknown_instruction_set_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODT_KERNELS", "mmx")
    with pytest.raises(OptionError, match=r"`ODT_KERNELS=`: must be numpy.*but got mmx\. "):
        library.kernels_in_use()


def test_the_kernels_in_use_are_described(instruction_set: str) -> None:
    assert library.describe_kernels() == (
        f"compiled kernels: {instruction_set} "
        f"(ODT_KERNELS says so; this processor runs {', '.join(SETS)})"
    )


@pytest.mark.skipif(not SETS, reason="nothing is compiled")
def test_the_best_instruction_set_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ODT_KERNELS", raising=False)
    assert library.describe_kernels() == (
        f"compiled kernels: {SETS[-1]} (this processor runs {', '.join(SETS)})"
    )


@pytest.mark.skipif(
    not SETS or not CPUINFO.exists() or platform.machine() != "x86_64",
    reason="nothing is compiled, or not Linux on x86-64",
)
def test_the_instruction_sets_are_those_that_the_system_names() -> None:
    """The kernel's list knows what the processor has and what the system saves of it."""
    words = set(CPUINFO.read_text(encoding="utf-8").split())
    assert tuple(name for name, features in FEATURES.items() if features <= words) == SETS


@pytest.mark.skipif(not SETS, reason="nothing is compiled")
def test_compiled_kernels_that_are_left_out_are_no_missing_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ODT_KERNELS", "numpy")
    assert library.describe_kernels() == "NumPy kernels only: ODT_KERNELS says so"


def test_an_installation_without_a_compiler_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "load", lambda: None)
    monkeypatch.setattr(library, "instruction_sets", lambda: ())
    monkeypatch.delenv("ODT_KERNELS", raising=False)
    assert library.describe_kernels() == (f"NumPy kernels only: {library.REMEDY}")
    monkeypatch.setenv("ODT_KERNELS", "avx2")
    with pytest.raises(OptionError) as caught:
        library.kernels_in_use()
    assert str(caught.value) == (
        "`ODT_KERNELS=`: must be numpy, but got avx2. No kernels were compiled when odt was "
        "installed: for faster training install a C compiler, then odt again without pip's "
        "cache."
    )
