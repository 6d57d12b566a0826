"""Caches the outputs of a model's frozen part for each sample.

Training then begins at these values. The value of a sample is computed when it is first read,
together with the values of its neighbors in the file. BLAS rounds a row of a product depending on
its position in the matrix. Because neighbors are fixed, a value does not depend on the order of an
epoch, and resumed training computes the same bits.
"""

import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from odt.core.data.protocol import Data, SampleOrder
from odt.core.lowering.sample_axis import sample_spec
from odt.core.lowering.split_frozen import frozen_end
from odt.core.model.graph import LoweredGraph
from odt.core.planning.computation import Computation, Plans
from odt.core.planning.memory import MemoryPlan
from odt.core.planning.plan import Plan
from odt.core.planning.schedule import Schedule, frozen_samples
from odt.core.planning.trainable import trainable_by_operator
from odt.core.runtime.arena import make_arena
from odt.core.runtime.program import Program, bind
from odt.core.storage.closing import Closing
from odt.core.storage.mapped_pages import DATA_PAGES, Pages
from odt.dataclass import dataclass
from odt.errors import OptionError, TrainingError, UnsupportedError
from odt.kernels.geometry.quantize import Quantization, dequantize, one_scale, quantize
from odt.kernels.native.float32 import FLOAT, from_halves
from odt.kernels.native.library import is_available
from odt.kernels.rows.opdef import Array, TensorSpec

DTYPES = {"float32": None, "float16": np.dtype(np.float16)}  # None keeps every bit


def split_frozen(
    plans: Plans, runs: tuple[Computation, Computation]
) -> tuple[Computation, Computation]:
    """Splits off the frozen part: returns computations that begin after it.

    Args:
        plans: plans of the model.
        runs: training and validation.

    Raises:
        OptionError: if nothing trains, or there is no frozen part.
    """
    plan = _plan_of_several(plans, runs[0])
    trained = [i for i in (plan.values[n].tensor for n in plan.parameters) if i is not None]
    ends = [*plan.graph.outputs, *(loss.tensor for loss in runs[0].losses)]
    end = frozen_end(plan.graph, trained, ends)
    if not trained or set(end) <= set(plan.graph.inputs):
        raise OptionError(
            "cache_frozen",
            "some operators must train, and operators before them must be frozen",
            "none before them" if trained else "nothing that trains",
            "Leave it out, or give `last=`.",
        )
    # The selection of trained tensors must not depend on nodes that are dropped because nothing
    # reads them.
    users = frozenset(origin for origin, _ in trainable_by_operator(plan.graph, only=trained))
    training = replace(runs[0], begin=end, trainable=users, only=tuple(trained))
    return training, replace(runs[1], begin=end)


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """Options of the cache of the frozen part.

    Attributes:
        samples: number of samples to cache.
        dtype: dtype of cached floats; None for the model's, which keeps every bit.
        on_disk: whether to cache in an unnamed temporary file, which disappears with the process,
            instead of in memory.
    """

    samples: int
    dtype: np.dtype[np.floating] | None = None
    on_disk: bool = False


def needs_samples() -> OptionError:
    """The error of a cache without the samples that it would hold."""
    return OptionError(
        "cache_frozen",
        "must come with `fit` on arrays or files",
        "another call first, or single batches",
        "Leave it out.",
    )


def cache_policy(where: str | None, dtype: str | None, samples: int = 0) -> CachePolicy | None:
    """Returns the policy of a cache from its options; None for no cache.

    Args:
        where: ram or disk; None for no cache.
        dtype: float16; float32 or None to keep every bit.
        samples: number of samples to cache.

    Raises:
        OptionError: for a dtype without a cache.
    """
    if where is None:
        if dtype is not None:
            raise OptionError("cache_dtype", "must come with `cache_frozen=`", "it alone")
        return None
    return CachePolicy(samples, DTYPES[dtype or "float32"], where == "disk")


def _plan_of_several(plans: Plans, computation: Computation) -> Plan:
    """Returns the plan for several samples, which shows nodes that mix samples, if there is one."""
    size = plans.graphs.file_batch
    try:
        return plans.plan(computation, 2 * size)
    except UnsupportedError:
        return plans.plan(computation, size)


class FrozenCache(Closing):
    """Data whose inputs are the cached outputs of the frozen part.

    Attributes:
        nbytes: bytes of the cached values of all samples.
        policy: options of the cache.

    Args:
        plans: plans of the whole model.
        computation: the frozen part, forward only.
        policy: options of the cache.
        schedule: schedule of training, whose workers compute the frozen part in parallel.
        data: inputs of the whole model; a sample must have the same values each time it is read.
        targets: targets of the same samples.
        parts: ranges of samples whose batches are computed together: the training and the
            validation samples, or all samples.

    Raises:
        OptionError: if memory or disk is too small.
    """

    def __init__(
        self,
        plans: Plans,
        computation: Computation,
        policy: CachePolicy,
        schedule: Schedule,
        data: Data,
        targets: Data,
        parts: Sequence[range],
    ) -> None:
        self.data = data
        self.targets = targets
        self.weights = targets.weights
        self.policy = policy
        self._parts = tuple(parts)
        self._schedule = schedule
        self._size = frozen_samples(lambda n: plans.at(computation, n), schedule.micro_batch)
        plan, self._memory = plans.at(computation, self._size)
        rows = cached_specs(plan.graph, computation.end, self._size, policy)
        self.nbytes = sum(spec.nbytes for spec in rows)
        self._names = [plan.graph.label(i) for i in computation.end]
        self._quantizations = [_quantization(plan.graph, i) for i in computation.end]
        self._caches = _allocate(rows, self.nbytes, policy.on_disk)
        self._pages = [Pages(cache) for cache in self._caches]
        self._is_cached = np.zeros(policy.samples, np.bool_)  # by number of the sample
        self._plans = plans
        self._computation = computation
        self._idle: list[_Runner] = []
        self._hits = 0  # consecutive samples that were cached

    @property
    def arena_nbytes(self) -> int:
        """Bytes of the arenas that compute the frozen part; 0 when all samples are cached."""
        done = self._hits >= len(self._is_cached)
        return 0 if done else self._memory.nbytes * self._schedule.workers

    def read(self, samples: SampleOrder, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        """Reads samples into the arrays, one row each; computes values that are not cached yet.

        Raises:
            DataError: for values that no loss can use.
            TrainingError: for values that the cache's dtype cannot hold.
        """
        numbers = np.asarray(samples)
        self._require(numbers)
        self.targets.read(samples, (), targets)
        for values, pages, out in zip(self._caches, self._pages, inputs, strict=True):
            pages.count(len(numbers))
            if values.dtype == out.dtype:
                np.take(values, numbers, axis=0, out=out, mode="clip")  # other modes buffer `out`
            elif is_available() and out.dtype == FLOAT:
                at = np.ascontiguousarray(numbers, np.int64)
                from_halves(values, at, out)()
            else:
                np.copyto(out, values[numbers])

    def put(self, samples: range, values: Array) -> None:
        """Caches values that are known, of a frozen part that ends in one tensor.

        Args:
            samples: numbers of the samples.
            values: real numbers, a row for each sample.
        """
        (rows,), (quantization,) = self._caches, self._quantizations
        if quantization is not None:
            values = quantize(values, quantization, rows.dtype)
        rows[samples.start : samples.stop] = values
        self._is_cached[samples.start : samples.stop] = True

    def values(self, samples: range) -> list[Array]:
        """Returns the values of samples, a row for each, for each tensor in which the part ends.

        They are real numbers, also if the frozen part computes integers.

        Raises:
            DataError: for values that no loss can use.
        """
        self._require(np.arange(samples.start, samples.stop))
        rows = (cache[samples.start : samples.stop] for cache in self._caches)
        return [
            values if quantization is None else dequantize(values, quantization)
            for values, quantization in zip(rows, self._quantizations, strict=True)
        ]

    def _require(self, numbers: Array) -> None:
        """Computes the values of samples that are not cached yet."""
        self._hits += len(numbers)
        for number in numbers:
            if not self._is_cached[number]:
                self._compute(self._neighbors(int(number)))
                self._hits = len(self._is_cached) if self._is_cached.all() else 0
        if self._hits >= len(self._is_cached):
            self._idle.clear()

    def _neighbors(self, number: int) -> range:
        """Returns the samples that are computed together with a sample."""
        part = next(p for p in self._parts if number in p)
        for size in (self._schedule.batch, self._schedule.micro_batch, self._size):
            first = number - (number - part.start) % size
            part = range(first, min(first + size, part.stop))
        return part

    def _compute(self, samples: range) -> None:
        """Computes and caches the values of some samples, on an idle program if there is one."""
        here = slice(samples.start, samples.stop)
        try:
            runner = self._idle.pop()
        except IndexError:  # all workers compute for other threads
            runner = _Runner(self._plans, self._computation, self._memory)
        try:
            program = runner.program(len(samples))
            rows = [a.reshape(len(samples), -1, copy=False) for a in program.inputs]
            self.data.read(samples, rows, ())
            program.forward()
            self._plans.check_files()
            results = zip(self._caches, self._names, program.outputs, strict=True)
            for cache, name, output in results:
                values = output.reshape(len(samples), -1, copy=False)
                cache[here] = values
                if cache.dtype != values.dtype and np.isinf(cache[here]).any():
                    raise TrainingError(
                        f'`cache_dtype="{cache.dtype}"`: {name} must be within '
                        f"±{np.finfo(cache.dtype).max:g}, but got {abs(values).max():g}. "
                        "Leave it out."
                    )
            self._is_cached[here] = True
        finally:
            self._idle.append(runner)

    def limit_mapped(self, nbytes: int) -> None:
        """Limits the bytes of each file that are mapped at a time."""
        for pages in self._pages:
            pages.max_mapped = nbytes

    def close(self) -> None:
        """Frees memory and disk."""
        self._caches.clear()
        self._pages.clear()
        self._idle.clear()


def _quantization(graph: LoweredGraph, tensor: int) -> Quantization | None:
    """Returns the quantization of the integers in which a frozen part ends; None for floats."""
    readers = (n for n in graph.nodes if n.op == "INTEGER_DEQUANTIZE" and n.inputs[0] == tensor)
    node = next(readers, None)
    return None if node is None else one_scale(node.attrs.scale, node.attrs.zero)


def cached_specs(
    lowered: LoweredGraph,
    end: Sequence[int],
    batch: int,
    policy: CachePolicy,
) -> list[TensorSpec]:
    """Returns the specs of the cached values: a row per sample, for each tensor of `end`.

    Args:
        lowered: the graph lowered for `batch` samples.
        end: tensors in which the frozen part ends.
        batch: batch size of the graph.
        policy: options of the cache.
    """
    rows = []
    for i in end:
        one = sample_spec(lowered, lowered.label(i), lowered.tensors[i].spec, batch)
        dtype = policy.dtype if policy.dtype is not None and one.dtype.kind == "f" else one.dtype
        rows.append(TensorSpec((policy.samples, one.size), dtype))
    return rows


@dataclass(frozen=True, slots=True)
class CacheSize:
    """Size of a cache, in bytes.

    Attributes:
        nbytes: bytes of the values of all samples, in memory or on disk.
        resident: bytes in memory at a time, within a budget.
    """

    nbytes: int
    resident: int


def cache_size(
    plans: Plans, computation: Computation, batch: int, policy: CachePolicy
) -> CacheSize:
    """Forecasts the size of a cache.

    Args:
        plans: plans of the model.
        computation: computation that begins after the frozen part.
        batch: samples in a step.
        policy: options of the cache.

    Raises:
        OptionError: if the number of samples is not known.
    """
    if not policy.samples:
        raise needs_samples()
    size = plans.graphs.file_batch
    lowered = plans.graphs.at(size)
    nbytes = sum(spec.nbytes for spec in cached_specs(lowered, computation.begin, size, policy))
    mapped = DATA_PAGES + batch * (nbytes // policy.samples)
    return CacheSize(nbytes, min(nbytes, mapped) if policy.on_disk else nbytes)


class _Runner:
    """The frozen part bound to an arena."""

    def __init__(self, plans: Plans, computation: Computation, memory: MemoryPlan) -> None:
        self._plans = plans
        self._computation = computation
        self._arena = make_arena(memory.nbytes)
        self._programs: dict[int, Program] = {}

    def program(self, samples: int) -> Program:
        """Returns the program for a number of samples."""
        if samples not in self._programs:
            self._programs[samples] = bind(self._plans, self._computation, samples, self._arena, {})
        return self._programs[samples]


def _allocate(rows: Sequence[TensorSpec], nbytes: int, on_disk: bool) -> list[Array]:
    """Allocates arrays in memory, or maps them from unnamed temporary files.

    Raises:
        OptionError: if memory or disk is too small.
    """
    try:
        return [_mapped(spec) if on_disk else np.empty(spec.shape, spec.dtype) for spec in rows]
    except (OSError, MemoryError) as e:
        import tempfile

        reason = str(getattr(e, "strerror", None) or e).lower()
        where = "memory"
        hint = 'Give `cache_frozen="disk"`.'
        if on_disk:
            where = _folder() or tempfile.gettempdir()
            hint = "Set TMPDIR to another folder."
        raise OptionError(
            "cache_frozen", f"{where} must have room for {nbytes:,} bytes", reason, hint
        ) from e


def _folder() -> str | None:
    """Returns the folder in TMPDIR; tempfile would silently use another one if it is unusable."""
    return os.environ.get("TMPDIR") or None


def _mapped(spec: TensorSpec) -> Array:
    """Maps an array from an unnamed temporary file, whose space is reserved."""
    import tempfile

    with tempfile.TemporaryFile(prefix="odt-cache-", dir=_folder()) as file:
        if hasattr(os, "posix_fallocate"):  # writing to a hole on a full disk would raise SIGBUS
            os.posix_fallocate(file.fileno(), 0, spec.nbytes)
        return np.asarray(np.memmap(file, spec.dtype, "w+", shape=spec.shape))
