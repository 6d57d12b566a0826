"""Compares the kernels of the aarch64 wheel with the FMA peak of three processors, by llvm-mca.

qemu runs one training step of three networks with the unmodified wheel and logs every block of the
library that it executes, so that the executions of each instruction are known, not estimated. The
innermost loops with most multiply-adds, which execute at least 80% of them together, are then given
to llvm-mca: cycles of an iteration, times iterations. The peak of each processor is what llvm-mca
says of a loop of independent multiply-adds. What llvm-mca does not model stays out: cache misses
and what happens outside loops. Needs Debian's package llvm and what emulate.py needs.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))  # tools/

from bench.networks import NETWORKS
from bench.write_models import write

from wheels.emulate import Emulation, prepare

STEP = Path(__file__).parent / "one_step.py"
BATCHES = {"mnist": 4, "resnet8": 2, "mobilenet": 1}
GOALS = {"cortex-a76": 0.7, "cortex-a72": 0.7, "cortex-a55": 0.5}  # fractions of the peak
SHARE = 0.8  # of the multiply-adds
ITERATIONS = 200
PAGE = 4096  # qemu's blocks end at pages
BRANCH = re.compile(r"(b|b\.\w+|cbn?z|tbn?z|bl|blr|br|ret)\b")
TARGET = re.compile(r"((?:b|b\.\w+|cbn?z|tbn?z) .*?)0x([0-9a-f]+)$")
# Multiply-adds of an instruction, by its first operand.
FUSED = {r"fml[as] v\d+\.4s": 4, r"fml[as] v\d+\.2s": 2, r"(fml[as]|fn?m(add|sub)) s\d": 1}

Code = Mapping[int, str]  # instructions by address


@dataclass(frozen=True)
class Loop:
    """An innermost loop, and how often a step executed it.

    Attributes:
        start: address of its first instruction.
        body: its instructions, without those that few iterations execute.
        iterations: executions of its last instruction.
        multiply_adds: of all iterations.
    """

    start: int
    body: tuple[str, ...]
    iterations: int
    multiply_adds: int


def tool(name: str) -> str:
    """The path of one of LLVM's programs."""
    paths = (shutil.which(n) for n in (name, f"{name}-14", f"{name}-19"))
    found = next((p for p in paths if p), None)
    if not found:
        raise click.ClickException(f"{name}: must be installed. Install Debian's package llvm.")
    return found


def disassemble(library: Path) -> Code:
    command = (tool("llvm-objdump"), "--disassemble", "--no-show-raw-insn", library)
    text = subprocess.check_output(command, text=True)
    lines = re.findall(r"^\s*([0-9a-f]+):\s+(.*)$", text, re.MULTILINE)
    return {int(at, 16): re.split("//|<", code)[0].strip().replace("\t", " ") for at, code in lines}


def multiply_adds(instruction: str) -> int:
    return next((n for form, n in FUSED.items() if re.match(form, instruction)), 0)


def executions(log: Iterable[bytes], start: int, code: Code) -> Counter[int]:
    """How often each instruction was executed, from qemu's log of the blocks it executed.

    Args:
        log: lines such as "Trace 0: 0x7f… [flags/address/flags/flags]".
        start: address of the library in memory.
        code: of the library.
    """
    blocks = Counter(line.split(b"/")[1] for line in log if line.startswith(b"Trace"))
    counts: Counter[int] = Counter()
    for text, count in blocks.items():
        at = int(text, 16) - start
        page = at // PAGE
        while at in code and at // PAGE == page:
            counts[at] += count
            if BRANCH.match(code[at]):
                break
            at += 4
    return counts


def count(emulation: Emulation, model: Path, batch: int, code: Code) -> Counter[int]:
    """How often each instruction of the kernels is executed in a step."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "addresses"
        subprocess.run(emulation.command(STEP, model, "0", place), check=True)
        start, end = (int(text, 16) for text in place.read_text().split())
        options = ("-d", "exec,nochain", "-dfilter", f"{start:#x}..{end:#x}")
        command = emulation.command(STEP, model, str(batch), place, options=options)
        with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
            assert process.stderr
            counts = executions(process.stderr, start, code)
        if process.returncode or int(place.read_text().split()[0], 16) != start:
            raise click.ClickException(f"{model.name}: the step failed under qemu")
    return counts


def innermost_loops(code: Code, counts: Counter[int]) -> list[Loop]:
    """Those that multiply and add, the one that does most of it first."""
    jumps = ((int(m[2], 16), at) for at, t in code.items() if (m := TARGET.match(t)))
    spans = {(start, end) for start, end in jumps if start <= end and counts[end]}
    loops = []
    for start, end in spans:
        if any(start <= a and b <= end for a, b in spans - {(start, end)}):
            continue
        addresses = range(start, end + 4, 4)
        body = tuple(TARGET.sub(r"\1.", code[a]) for a in addresses if 2 * counts[a] >= counts[end])
        total = sum(counts[a] * multiply_adds(code[a]) for a in addresses)
        if total:
            loops.append(Loop(start, body, counts[end], total))
    return sorted(loops, key=lambda loop: -loop.multiply_adds)


def cycles(bodies: Sequence[Sequence[str]], processor: str) -> list[float]:
    """Cycles of an iteration of each loop."""
    regions = (
        "\n".join((f"# LLVM-MCA-BEGIN {k}", *body, f"# LLVM-MCA-END {k}\n"))
        for k, body in enumerate(bodies)
    )
    command = (tool("llvm-mca"), "-mtriple=aarch64", f"-mcpu={processor}")
    text = subprocess.check_output(
        (*command, f"-iterations={ITERATIONS}"), input="".join(regions), text=True
    )
    return [int(n) / ITERATIONS for n in re.findall(r"Total Cycles:\s+(\d+)", text)]


def peak(processor: str) -> float:
    """Multiply-adds of a cycle, at most."""
    independent = [f"fmla v{k}.4s, v30.4s, v31.4s" for k in range(24)]
    return 4 * len(independent) / cycles([independent], processor)[0]


def report(name: str, loops: Sequence[Loop], total: int) -> dict[str, float]:
    """Prints a table of the loops; returns the fraction of each processor's peak."""
    chosen = [k for k in range(len(loops)) if covered(loops[:k]) < SHARE * total]
    done = covered(loops[: len(chosen)])
    click.echo(f"{name}: {total / 1e6:.1f} million multiply-adds, {done / total:.0%} of them in *")
    reached, rates = {}, []
    for processor in GOALS:
        most, each = peak(processor), cycles([loop.body for loop in loops], processor)
        times = [c * loop.iterations for c, loop in zip(each, loops, strict=True)]
        reached[processor] = done / sum(times[k] for k in chosen) / most
        rates.append([loops[k].multiply_adds / times[k] / most for k in range(len(loops))])
    for k, loop in enumerate(loops):
        if k in chosen or loop.multiply_adds > total / 100:
            click.echo(
                f"  {'*' if k in chosen else ' '} {loop.start:#7x} {len(loop.body):3} instructions "
                f"{loop.multiply_adds / total:5.1%}  "
                + "  ".join(f"{p} {r[k]:4.0%}" for p, r in zip(GOALS, rates, strict=True))
            )
    click.echo("  * together: " + ", ".join(f"{p} {r:.0%}" for p, r in reached.items()))
    return reached


def covered(loops: Sequence[Loop]) -> int:
    return sum(loop.multiply_adds for loop in loops)


def fractions_of_the_peak(dist: Path, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """The fraction of each processor's peak that a step of each network reaches."""
    emulation = prepare("aarch64", dist)
    code = disassemble(emulation.folder / "site-packages/odt/kernels/native/_kernels.so")
    reached = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            model = Path(folder) / f"{name}.circle"
            write(NETWORKS[name](), model)
            counts = count(emulation, model, BATCHES[name], code)
            total = sum(n * multiply_adds(code[at]) for at, n in counts.items())
            reached[name] = report(name, innermost_loops(code, counts), total)
    return reached


@click.command()
@click.option("--dist", default="dist", type=click.Path(path_type=Path), help="Folder of wheels.")
@click.option("--only", multiple=True, type=click.Choice(sorted(BATCHES)), help="A network.")
def main(dist: Path, only: tuple[str, ...]) -> None:
    """Compares the kernels of the aarch64 wheel with the FMA peak of three processors."""
    slow = [
        f"{name}: must reach {GOALS[processor]:.0%} of the peak of {processor}, but got {r:.0%}"
        for name, reached in fractions_of_the_peak(dist, only or tuple(BATCHES)).items()
        for processor, r in reached.items()
        if r < GOALS[processor]
    ]
    if slow:
        raise click.ClickException("\n".join(slow))


if __name__ == "__main__":
    main()
