"""Makes data files: selects, preprocesses, writes and describes samples."""

import dataclasses
from bisect import insort
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import field, replace
from itertools import count, islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from odt.core.data.sidecar import Sidecar, sidecar_path
from odt.core.model.record import Record
from odt.core.storage.atomic_files import AtomicFile, remove_leftovers
from odt.core.storage.reading import unwritable
from odt.dataclass import dataclass
from odt.datasets.data_writers import OUTPUTS, Output
from odt.datasets.model_signature import ModelSignature
from odt.datasets.preprocess import Preprocessing, Targets
from odt.datasets.recorded_steps import explicit
from odt.datasets.source import (
    NO_GAPS,
    EndOfSamplesError,
    MissingValueError,
    Sample,
    SampleError,
    Source,
    missing_value,
)
from odt.datasets.splits import Division, RequestedSplit, SplitSamples, select
from odt.errors import MAX_MESSAGE, DataError
from odt.kernels.rows.opdef import Array, TensorSpec

AHEAD = 4  # chunks that wait for each worker
CHUNK = 4  # samples a worker takes at once
MAX_NAMED = 10_000  # columns of a table, or files of samples, whose names are written
LISTED = 10  # skipped samples that are named

# Called with the split, the number of finished samples, and the total number if known.
Progress: TypeAlias = Callable[[str, int, int | None], None]


@dataclass(frozen=True, slots=True)
class Request:
    """Options for making data files.

    Attributes:
        splits: splits to make.
        out_dir: folder of the files.
        prefix: beginning of the names of the files; empty for none.
        division: how samples are divided among the splits.
        inputs: preprocessing of the inputs.
        targets: form of the targets.
        output: raw, hdf5 or npz.
        skip: whether to leave out samples that cannot be read.
        drop_targets: whether to leave out samples whose target is missing.
        workers: number of threads that read and preprocess.
        like: inputs and outputs of the model that the files are for.
        record: record that the data follow; None to make one.
    """

    splits: tuple[RequestedSplit, ...]
    out_dir: Path
    prefix: str = ""
    division: Division = field(default_factory=Division)
    inputs: Preprocessing = field(default_factory=Preprocessing)
    targets: Targets = field(default_factory=Targets)
    output: str = "raw"
    skip: bool = False
    drop_targets: bool = False
    workers: int = 1
    like: ModelSignature | None = None
    record: Record | None = None


@dataclass(frozen=True, slots=True)
class SplitFiles:
    """The data files of one split.

    Attributes:
        name: name of the split.
        samples: number of samples in the files.
        inputs, targets: specs of one sample, for each tensor.
        files: input file, and output file if samples have targets.
        balance: number of samples by class, or of boxes.
        boxes: whether targets are boxes.
        skipped: number of samples left out.
        reasons: the first of these samples, with reasons.
        scale: scale that the reader of the inputs applies; empty for none.
    """

    name: str
    samples: int
    inputs: tuple[TensorSpec, ...]
    targets: tuple[TensorSpec, ...]
    files: tuple[Path, ...]
    balance: dict[str, int]
    boxes: bool = False
    skipped: int = 0
    reasons: tuple[str, ...] = ()
    scale: str = ""


@dataclasses.dataclass(slots=True)
class _Pending:
    """A split whose files are written, but do not have their names yet.

    Attributes:
        split: the split.
        data: its data files.
        sidecars: the JSON files beside them.
    """

    split: SplitFiles
    data: tuple[Output, ...]
    sidecars: list[AtomicFile]


@dataclass(frozen=True, slots=True)
class _Ready:
    """A preprocessed sample, or the reason why it is left out or ends the run.

    Attributes:
        arrays: inputs and targets; None for a sample that is left out or a fault.
        labels: number of the class, or that of each box; empty for other targets.
        problem: the reason, as text.
        fault: whether the sample ends the run.
        file: path of its file in the folder of the source; empty for none.
    """

    arrays: tuple[list[Array], list[Array]] | None
    labels: tuple[int, ...]
    problem: str = ""
    fault: bool = False
    file: str = ""


def generate(source: Source, request: Request, progress: Progress) -> list[SplitFiles]:
    """Writes the files of all splits; they get their names when all of them are complete.

    Args:
        source: the samples.
        request: how they are divided, preprocessed and written.
        progress: called after each sample.

    Returns:
        The files of each split, in the order of the request.

    Raises:
        DataError: if the source or the request is invalid, or the files cannot be written.
        LostFileError: if a file of the source became shorter.
    """
    splits = select(source, request.splits, request.division)
    request = replace(request, inputs=_fitted(request, splits))
    record = request.record or _record(source, request, splits)
    is_new = not request.out_dir.exists()
    try:
        request.out_dir.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise DataError(unwritable(request.out_dir, e, "folder")) from e
    remove_leftovers(request.out_dir)
    with ExitStack() as stack:
        if is_new:
            stack.callback(_remove_if_empty, request.out_dir)
        pending = []
        faults = [f"{source.name}: {'; '.join(source.faults)}."] if source.faults else []
        for split in splits:
            pending.append(
                _write_split(
                    source, request, split, record, faults=faults, stack=stack, progress=progress
                )
            )
        if faults:
            has_usable = any(new.split.samples for new in pending)
            raise _all_faults(faults, has_usable=has_usable)
        for mapped in source.files:
            mapped.check()
        for new in pending:
            for file, path in zip(new.data, new.split.files, strict=True):
                file.commit(path)
            for sidecar in new.sidecars:
                sidecar.commit()
    return [new.split for new in pending]


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):  # it has files
        folder.rmdir()


def _all_faults(faults: list[str], *, has_usable: bool) -> DataError:
    """Returns an error that names as many faults as one message holds; `details` has all.

    Args:
        faults: the faults, each of one sample or of the source.
        has_usable: whether there are samples without a fault.
    """
    if len(faults) == 1:
        return DataError(faults[0])
    ordered = sorted({fault.removesuffix(".") for fault in faults})  # once with all its copies
    remedy = 'Give `on_error="skip"` to leave these out.' if has_usable else ""

    def text(listed: int) -> str:
        ending = f"; … ({len(ordered) - listed} more)" if len(ordered) > listed else ""
        return f"{len(ordered)} faults: {'; '.join(ordered[:listed])}{ending}. {remedy}".rstrip()

    listed = min(LISTED, len(ordered))
    while listed > 1 and len(text(listed)) > MAX_MESSAGE:
        listed -= 1
    return DataError(text(listed), details=text(len(ordered)) if listed < len(ordered) else "")


def training_split(splits: Sequence[SplitSamples]) -> SplitSamples:
    """Returns the training split, which provides statistics; the first one if there is none."""
    return next((split for split in splits if split.name.startswith("train")), splits[0])


def _fitted(request: Request, splits: list[SplitSamples]) -> Preprocessing:
    """Returns the preprocessing of the inputs, with the statistics of the training split."""
    if not request.inputs.must_be_fitted:
        return request.inputs
    return request.inputs.fitted(lambda: _raw(request, training_split(splits)))


def _raw(request: Request, picked: SplitSamples) -> Iterator[Array]:
    """Yields the first input of each sample of a split that is stored, before preprocessing.

    Samples that are refused or left out are reported, all together, when they are written.
    """
    for k in islice(_numbers(picked), picked.request.length):  # a stream may have no end
        try:
            sample = picked.part.read(k)
            for target in sample.targets:
                request.targets.apply(target)
        except DataError:
            continue
        except EndOfSamplesError:
            return
        if all(map(request.inputs.has_values, sample.inputs)):
            yield sample.inputs[0]


def _record(source: Source, request: Request, splits: list[SplitSamples]) -> Record:
    """Returns the preprocessing record of the data."""
    steps = request.inputs
    if source.kind == "image" and (first := next(_raw(request, splits[0]), None)) is not None:
        steps = explicit(steps, first)
    return Record(
        source.kind,
        tuple(steps.describe()),
        request.targets.classes,
        source.tags,
        source.sound,
        source.table,
        source.boxes,
    )


def _numbers(picked: SplitSamples) -> Iterable[int]:
    """Returns the numbers of the samples of a split; without end for a stream."""
    return picked.numbers if picked.numbers is not None else count()


def _write_split(
    source: Source,
    request: Request,
    picked: SplitSamples,
    record: Record,
    *,
    faults: list[str],
    stack: ExitStack,
    progress: Progress,
) -> _Pending:
    """Writes the files of a split; after a fault only counts samples and collects other faults."""
    data: tuple[Output, ...] | None = None
    specs: tuple[list[TensorSpec], list[TensorSpec]] = ([], [])
    names = request.targets.names
    balance = Counter(dict.fromkeys(names, 0))
    skipped = usable = 0
    reasons: list[str] = []
    files: list[str] = []
    total = None if picked.numbers is None else len(picked.numbers) * _copies(request, picked)
    for done, ready in enumerate(_samples(source, request, picked)):
        progress(picked.name, done + 1, total)
        if ready.fault:
            faults.append(ready.problem)
        if ready.arrays is not None:
            usable += 1
        if faults:
            continue  # to find the others; nothing is written
        if ready.arrays is None:
            skipped += 1
            insort(reasons, ready.problem)
            del reasons[LISTED:]  # the first by name, whatever the order
            continue
        shapes = tuple([TensorSpec(a.shape, a.dtype) for a in role] for role in ready.arrays)
        if data is None:
            specs = (shapes[0], shapes[1])
            data = _open_outputs(source, request, picked, specs, stack)
        elif shapes != specs:
            raise DataError(
                f"{source.name}: all samples must have the same shape, but sample {done} of "
                f"{picked.name} is {_shapes(shapes)} and earlier ones {_shapes(specs)}. Give "
                "`size=` for images, `seconds=` for sounds."
            )
        for file, arrays in zip(data, ready.arrays, strict=False):  # there may be no targets
            file.append(arrays)
        balance.update(names[label] for label in ready.labels)
        if ready.file:
            files.append(ready.file)
    if faults:
        return _Pending(SplitFiles(picked.name, usable, (), (), (), {}), (), [])
    if data is None:
        raise _no_samples(source, picked.name, reasons)
    samples = data[0].samples
    split = SplitFiles(
        name=picked.name,
        samples=samples,
        inputs=tuple(specs[0]),
        targets=tuple(specs[1]),
        files=_paths(request, picked, samples)[: len(data)],
        balance=dict(balance),
        boxes=bool(request.targets.boxes),
        skipped=skipped,
        reasons=tuple(reasons),
        scale=request.inputs.scale_left,
    )
    named = files if len(files) == samples <= MAX_NAMED else []
    sidecars = _sidecars(
        source, request, picked, split, record=record, files=named, data=data, stack=stack
    )
    return _Pending(split, data, sidecars)


def _open_outputs(
    source: Source,
    request: Request,
    picked: SplitSamples,
    specs: tuple[list[TensorSpec], list[TensorSpec]],
    stack: ExitStack,
) -> tuple[Output, ...]:
    """Opens the files of a split for inputs, and for targets if there are any.

    Raises:
        DataError: if the samples do not fit the model of the request.
    """
    if request.like is not None:
        classes = len(request.targets.classes)
        inputs, targets = specs
        if request.targets.boxes:  # which training encodes for the outputs of the model
            targets = []
        request.like.check(picked.name, source.kind, inputs, targets, classes)
    output = OUTPUTS[request.output]
    roles = zip(_paths(request, picked, 0), specs, strict=True)
    return tuple(output(path, role, stack) for path, role in roles if role)


def _no_samples(source: Source, name: str, reasons: list[str]) -> DataError:
    """Returns the error for a split without samples."""
    why = f": {reasons[0]}" if reasons else ""
    if source.overlap and not reasons:
        why = " that share no row with other splits. Give smaller windows or larger fractions"
    return DataError(f"{source.name}: {name} must have samples, but has none{why}.")


def _shapes(specs: tuple[Any, ...]) -> str:
    return " → ".join(", ".join(str(s) for s in role) for role in specs)


def _copies(request: Request, picked: SplitSamples) -> int:
    """Returns how often each sample of a split is written: once, or augmented for training."""
    augmentation = request.inputs.augmentation
    is_training = picked.name.startswith("train") or len(request.splits) == 1
    return augmentation.factor if augmentation is not None and is_training else 1


def _samples(source: Source, request: Request, picked: SplitSamples) -> Iterator[_Ready]:
    """Yields all samples of a split in order, followed by their augmented copies."""

    def ready(job: tuple[int, int]) -> _Ready:
        k, copy = job
        try:
            sample = picked.part.read(k)
        except SampleError as e:
            return _Ready(None, (), str(e), fault=not request.skip)
        random = np.random.default_rng((request.division.seed, k, copy)) if copy else None
        try:
            prepared = _preprocess(request, sample, random)
            return replace(prepared, file=picked.part.file_of(k))
        except MissingValueError as e:
            where = missing_value(source, picked.part, k, e, _remedy(request, e))
            drop = request.inputs.missing == "drop" or (e.position is None and request.drop_targets)
            return _Ready(None, (), where, fault=not (request.skip or drop))
        except DataError as e:
            where = f"{source.name}: {picked.part.label_of(k)}: {e}"
            return _Ready(None, (), where if request.skip else f"{where}.", fault=not request.skip)

    for copy in range(_copies(request, picked)):
        jobs = ((k, copy) for k in _numbers(picked))
        samples = in_order(ready, jobs, 1 if picked.part.sequential else request.workers)
        limit = picked.request.length if picked.numbers is None else None
        try:
            yield from islice(samples, limit)
        except EndOfSamplesError:
            continue
        finally:
            samples.close()


def _remedy(request: Request, e: MissingValueError) -> str:
    """Returns what to do about a missing value."""
    if request.record is not None:
        return NO_GAPS
    if e.position is None:
        return 'Give `missing_target="drop"`.'
    return 'Give `missing="drop"`, `missing="mean"`, `missing="median"` or `missing="zero"`.'


def _preprocess(request: Request, sample: Sample, random: np.random.Generator | None) -> _Ready:
    """Returns a preprocessed sample, augmented if there is a random generator."""
    targets = [request.targets.apply(t) for t in sample.targets]
    labels: tuple[int, ...] = ()
    if request.targets.boxes:
        (boxes,) = targets
        inputs = [request.inputs.apply(x, random, boxes) for x in sample.inputs]
        labels = tuple(int(k) for k in boxes[:, 0] if k >= 0)
        return _Ready((inputs, targets), labels)
    inputs = [request.inputs.apply(x, random) for x in sample.inputs]
    if request.targets.classes:
        labels = (int(sample.targets[0]),)
    return _Ready((inputs, targets), labels)


def in_order(
    function: Callable[[tuple[int, int]], _Ready], jobs: Iterator[tuple[int, int]], workers: int
) -> Generator[_Ready, None, None]:
    """Yields results in the order of the jobs; threads compute a bounded number of jobs ahead."""
    if workers == 1:
        yield from map(function, jobs)
        return

    def run(chunk: list[tuple[int, int]]) -> list[_Ready | BaseException]:
        results: list[_Ready | BaseException] = []
        for job in chunk:
            try:
                results.append(function(job))
            except (DataError, EndOfSamplesError) as e:  # raised again at its turn
                return [*results, e]
        return results

    waiting: deque[Future[list[_Ready | BaseException]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            while True:
                while len(waiting) < workers * AHEAD and (chunk := list(islice(jobs, CHUNK))):
                    waiting.append(pool.submit(run, chunk))
                if not waiting:
                    return
                for result in waiting.popleft().result():
                    if isinstance(result, BaseException):
                        raise result
                    yield result
        finally:
            for future in waiting:
                future.cancel()


def _paths(request: Request, picked: SplitSamples, samples: int) -> tuple[Path, Path]:
    """Returns file names as in tf_dataset_converter; without the number if all samples are used."""
    prefix = f"{request.prefix}." if request.prefix else ""
    number = "" if picked.request.length is None else f".{samples}"
    split = picked.name.translate(str.maketrans("[:]/", "____"))
    ending = OUTPUTS[request.output].ending
    return (
        request.out_dir / f"{prefix}{split}.input{number}.{ending}",
        request.out_dir / f"{prefix}{split}.output{number}.{ending}",
    )


def _sidecars(
    source: Source,
    request: Request,
    picked: SplitSamples,
    split: SplitFiles,
    *,
    record: Record,
    files: list[str],
    data: tuple[Output, ...],
    stack: ExitStack,
) -> list[AtomicFile]:
    """Returns the sidecars of both files; that of the inputs names the files of the samples."""
    augmentation = None
    if request.inputs.augmentation is not None and _copies(request, picked) > 1:
        augmentation = request.inputs.augmentation.describe()
    names = [path.name for path in split.files]  # there may be no targets
    recipe = {
        "split": split.name,
        "files": dict(zip(("input", "output"), names, strict=False)),
        "source": {"name": source.name, "kind": source.kind, **source.origin},
        **record.to_json(),
        **({"columns": [*source.columns]} if 0 < len(source.columns) <= MAX_NAMED else {}),
        "targets": request.targets.describe() if split.targets else "none",
        **({"missing target": "drop"} if request.drop_targets else {}),
        "augmentation": augmentation,
        "seed": request.division.seed,
        "balance": split.balance,
        "skipped": split.skipped,
    }
    sidecars = []
    scales = split.scale, ""  # of inputs, and of targets if there are any
    named_files: dict[str, Any] = {"sample files": files} if files else {}
    for file, path, scale, named in zip(data, split.files, scales, (named_files, {}), strict=False):
        sidecar = Sidecar(
            file.tensors,
            split.samples,
            request.targets.classes,
            file.finish(),
            recipe | named,
            scale,
        )
        out = AtomicFile(sidecar_path(str(path)), DataError)
        stack.callback(out.discard)
        out.write(sidecar.to_bytes())
        sidecars.append(out)
    return sidecars
