"""Makes data files: samples chosen, preprocessed, written, described."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from odt.core.datasets.outputs import RawFile
from odt.core.datasets.preprocess import Preprocessing, Targets
from odt.core.datasets.source import Sample, Source
from odt.core.files import AtomicFile
from odt.core.sidecar import Sidecar, sidecar_path
from odt.errors import DataError
from odt.kernels.opdef import Array, TensorSpec


@dataclass(frozen=True, slots=True)
class Wanted:
    """One split to make.

    Attributes:
        name: of the split.
        length: how many samples; None for all there are.
    """

    name: str
    length: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What to make of a source, and where to put it."""

    splits: tuple[Wanted, ...]
    out_dir: Path
    prefix: str = ""
    inputs: Preprocessing = field(default_factory=Preprocessing)
    targets: Targets = field(default_factory=Targets)


@dataclass(frozen=True, slots=True)
class Made:
    """One split that was made.

    Attributes:
        files: input and output.
        balance: samples by class.
    """

    name: str
    samples: int
    inputs: tuple[TensorSpec, ...]
    targets: tuple[TensorSpec, ...]
    files: tuple[Path, Path]
    balance: dict[str, int]


@dataclass(slots=True)
class _Pending:
    made: Made
    data: tuple[RawFile, RawFile]
    sidecars: list[AtomicFile] = field(default_factory=list)


def generate(
    source: Source, request: Request, progress: Callable[[str, int, int | None], None]
) -> list[Made]:
    """Writes the files of all splits; they get their names together, or none does.

    Args:
        progress: called with split, samples done, and samples in all if that is known.

    Raises:
        DataError: for whatever in source, request or disk forbids it.
    """
    try:
        request.out_dir.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise DataError(f"{request.out_dir}: must be a folder, but got: {e.strerror}.") from e
    with ExitStack() as stack:
        pending = [_write_split(source, request, w, stack, progress) for w in request.splits]
        for p in pending:
            for file, path in zip(p.data, p.made.files, strict=True):
                file.commit(path)
            for sidecar in p.sidecars:
                sidecar.commit()
    return [p.made for p in pending]


def _write_split(
    source: Source,
    request: Request,
    wanted: Wanted,
    stack: ExitStack,
    progress: Callable[[str, int, int | None], None],
) -> _Pending:
    samples = _samples(source, wanted)
    data: tuple[RawFile, RawFile] | None = None
    specs: tuple[list[TensorSpec], list[TensorSpec]] = ([], [])
    balance = Counter(dict.fromkeys(source.classes, 0))
    for done, sample in enumerate(samples):
        arrays = _preprocess(request, sample)
        got = tuple([TensorSpec(a.shape, a.dtype) for a in role] for role in arrays)
        if data is None:
            specs = (got[0], got[1])
            paths = _paths(request, wanted, 0)
            data = (RawFile(paths[0], got[0], stack), RawFile(paths[1], got[1], stack))
        elif got != specs:
            raise DataError(
                f"{source.name}: all samples must have one shape, but sample {done} of "
                f"{wanted.name} has {got[0][0]} and those before it {specs[0][0]}. Give --size."
            )
        for file, role in zip(data, arrays, strict=True):
            file.append(role)
        if source.classes:
            balance[source.classes[int(sample.targets[0])]] += 1
        progress(wanted.name, done + 1, wanted.length)
    if data is None:
        raise DataError(f"{source.name}: {wanted.name} must have samples, but has none.")
    count = data[0].samples
    paths = _paths(request, wanted, count)
    made = Made(wanted.name, count, tuple(specs[0]), tuple(specs[1]), paths, dict(balance))
    pending = _Pending(made, data)
    for file, path in zip(data, paths, strict=True):
        sidecar = Sidecar(
            file.tensors, count, source.classes, file.finish(), _recipe(source, request, made)
        )
        out = AtomicFile(sidecar_path(str(path)), DataError)
        stack.callback(out.discard)
        out.write(sidecar.to_json().encode())
        pending.sidecars.append(out)
    return pending


def _samples(source: Source, wanted: Wanted) -> Iterator[Sample]:
    part = source.parts.get(wanted.name)
    if part is None:
        raise DataError(
            f"--split: {source.name} has {', '.join(source.parts)}, but got {wanted.name}."
        )
    assert part.length is not None
    if wanted.length is not None and wanted.length > part.length:
        raise DataError(
            f"--length: {wanted.name} of {source.name} has {part.length} samples, but got "
            f"{wanted.length}."
        )
    for k in range(part.length if wanted.length is None else wanted.length):
        yield part.read(k)


def _preprocess(request: Request, sample: Sample) -> tuple[list[Array], list[Array]]:
    return (
        [request.inputs.apply(x) for x in sample.inputs],
        [request.targets.apply(t) for t in sample.targets],
    )


def _paths(request: Request, wanted: Wanted, count: int) -> tuple[Path, Path]:
    """Names as tf_dataset_converter gives them; without the number where all samples are wanted."""
    prefix = f"{request.prefix}." if request.prefix else ""
    number = "" if wanted.length is None else f".{count}"
    split = wanted.name.translate(str.maketrans("[:]", "___"))
    return (
        request.out_dir / f"{prefix}{split}.input{number}.bin",
        request.out_dir / f"{prefix}{split}.output{number}.bin",
    )


def _recipe(source: Source, request: Request, made: Made) -> dict[str, Any]:
    return {
        "split": made.name,
        "files": {"input": made.files[0].name, "output": made.files[1].name},
        "source": {"name": source.name, **source.origin},
        "preprocessing": request.inputs.describe(),
        "targets": request.targets.describe(),
        "balance": made.balance,
    }
