"""Trained weights and optimizer state."""

import ctypes
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from odt.core.lowering.normalize.batch_statistics import RunningStatistics
from odt.core.model.graph import Graph, Tensor
from odt.core.runtime.activation_ranges import ActivationRanges
from odt.core.runtime.arena import copy_arrays, overwrite
from odt.core.runtime.moving_average import MovingAverage
from odt.core.runtime.optimizer import Optimizer, real_dtype
from odt.core.runtime.running_statistics import Statistics
from odt.kernels.geometry.quantize import dequantize
from odt.kernels.geometry.weight_quantization import WeightQuantization
from odt.kernels.native.binding import Call, Calls, Run
from odt.kernels.native.bitmask import bind_keep
from odt.kernels.native.updates import (
    SEED,
    STEP,
    RowSums,
    bind_round_units,
    bind_update,
    bind_update_rows,
    fits_compiled,
    make_origin,
)
from odt.kernels.rows.opdef import TILE, Array
from odt.kernels.rows.updatedef import CompiledUpdate

if TYPE_CHECKING:
    from odt.core.runtime.integer_weights import IntegerWeights

# Roles of arrays besides the optimizer's slots.
WEIGHT, AVERAGE, RANGE, STATISTIC = "weight", "ema", "range", "statistic"
Groups = Mapping[str, Mapping[int, Array]]  # arrays by role and tensor
ALL = slice(None)  # values of a parameter
WORK = 2  # tiles of scratch memory for weights that are integers


def _integers(tensor: Tensor, quantization: WeightQuantization) -> Array:
    """The integers of a weight, from the file or from real numbers."""
    assert tensor.data is not None, "weights are constants"
    if tensor.decoder is not None and tensor.data.shape == tensor.spec.shape:
        return tensor.data
    real = tensor.real
    assert real is not None, "weights are constants"
    return quantization.quantize(real)[0]


class Parameters:
    """Copies of the constants that train, with optimizer state.

    Attributes:
        tensors: tensor index → weights.
        read: tensor index → the array that programs read: the weights, or a copy rounded to the
            numbers that the file can store. `fake_quantize` fills the copies.
        trained: tensor index → the array that updates change: the weights, or a copy of the trained
            rows.
        slots: slot name → tensor index → optimizer state of the array in `trained`.
        step: number of updates made.
        mask_seed: random seed of the masks of dropout, and of the rounding of integers.
        origin: seed and number of the update, from which the rounding of this step follows.
        ranges: ranges of quantized activations that move.
        statistics: running statistics of batch normalizations that move.
        average: the moving average of the weights.
        proximal_mu: factor μ of the proximal term μ / 2 ‖w − w₀‖² of the loss, where w₀ are the
            values of the last `restart`; 0 for none. A norm that clips gradients leaves it out.
    """

    def __init__(
        self,
        graph: Graph,
        trained: Sequence[int] = (),
        optimizer: Optimizer | None = None,
        sparse: Sequence[tuple[int, Sequence[int]]] = (),
        rates: Sequence[tuple[int, float]] = (),
        ema: float = 0.0,
        followed: Collection[int] = (),
        statistics: Sequence[RunningStatistics] = (),
        integers: Mapping[int, WeightQuantization] | None = None,
        rounded: Collection[int] = (),
        tables: Collection[int] = (),
    ) -> None:
        """Copies the constants.

        Args:
            graph: graph of the constants.
            trained: tensor indices of the constants that train.
            optimizer: optimizer whose state to allocate.
            sparse: rows that train, for tensors trained in part.
            rates: factors of the learning rate, by tensor.
            ema: decay of a moving average of the weights after many steps; 0 for none.
            followed: numbers of the ranges of quantized activations that move.
            statistics: running statistics of batch normalizations that move.
            integers: quantizations of weights that are integers in memory.
            rounded: weights that programs round, which have no rounded copy.
            tables: weights of which a step has gradients of some rows only.
        """
        constants = {i: graph.tensors[i] for i in trained}
        self._stored = {i: q for i, q in (integers or {}).items() if i in constants}
        whole = {i: _integers(constants[i], q) for i, q in self._stored.items()}
        reals = ((i, t.real) for i, t in constants.items() if i not in whole)
        self.tensors = copy_arrays({i: a for i, a in reals if a is not None} | whole)
        assert len(self.tensors) == len(trained), "only constants train"
        each = ((i, graph.tensors[i].quantization) for i in self.tensors)
        quantizations = {i: q for i, q in each if q is not None and i not in whole}
        self._quantizations = {i: q for i, q in quantizations.items() if i not in rounded}
        self.read = self.tensors | copy_arrays({i: self.tensors[i] for i in self._quantizations})
        for i, quantization in quantizations.items():
            random = np.random.Generator(np.random.Philox(key=i))
            noise = np.empty_like(self.tensors[i]) if i in rounded else self.read[i]
            random.random(dtype=noise.dtype, out=noise)
            quantization.dither(self.tensors[i], noise)
        self.ranges = ActivationRanges(graph, followed)
        self.read |= self.ranges.numbers
        self.statistics = Statistics(graph, statistics)
        self.read |= self.statistics.arrays
        self._rows = {i: np.array(rows) for i, rows in sparse if i in self.tensors}
        self.trained = self.tensors | copy_arrays(
            {i: self.tensors[i][r] for i, r in self._rows.items()}
        )
        self._integers = self._integer_weights()
        places = ((i, graph.tensors[i].places) for i in self.tensors)
        self._stored_places = {i: self._mask(i, p) for i, p in places if p is not None}
        self.optimizer = optimizer
        self.slots = optimizer.state(self.trained, tables) if optimizer else {}
        self.step = 0
        self.mask_seed = 0
        self.origin = make_origin()
        self._rates = dict(rates)
        self.average = MovingAverage(self.tensors, ema)
        self.proximal_mu = 0.0
        self._anchors: dict[int, Array] = {}  # w₀
        self._pulled: dict[int, Array] = {}  # gradients with the proximal term
        self._rate = 0.0  # learning rate of this step
        # Factor of the learning rate → numbers that compiled updates read. A number too large for
        # float32 is infinite, so that the next loss is not finite.
        self._numbers: dict[float, ctypes.Array[ctypes.c_float]] = {}
        self._update_name = ""  # of the compiled update

    def _integer_weights(self) -> "dict[int, IntegerWeights]":
        """Makes what updates the weights that are integers in memory."""
        if not self._stored:
            return {}
        from odt.core.runtime.integer_weights import IntegerWeights

        rows, trained = self._rows, self.trained
        return {i: IntegerWeights(q, trained[i], rows.get(i)) for i, q in self._stored.items()}

    def _mask(self, i: int, places: Array) -> Array:
        """Returns the bits of a sparse constant that are set for values that the file stores."""
        mask = np.zeros(self.tensors[i].shape, bool)
        mask.reshape(-1)[places] = True
        return np.packbits(mask[self._rows.get(i, ...)])

    @property
    def has_sparse_integers(self) -> bool:
        """Whether weights are sparse and integers in memory, which no compiled call clears."""
        return not self._integers.keys().isdisjoint(self._stored_places)

    def bind_clear(self, i: int, a: Array) -> list[Run]:
        """Returns the calls that set values or gradients to 0 where a sparse constant has none."""
        mask = self._stored_places.get(i)
        if mask is None:
            return []
        if fits_compiled(a):
            return [bind_keep(a, mask)]
        is_stored = np.unpackbits(mask, count=a.size).reshape(a.shape).astype(bool)
        return [partial(np.copyto, a, 0, where=~is_stored)]

    def fake_quantize(self) -> None:
        """Fills the arrays that programs read with the current weights."""
        for run in self.rounding:
            run()
        self.ranges.refresh()

    @cached_property
    def rounding(self) -> list[Run]:
        """The calls that round weights to the numbers that the file can store."""
        compiled, others = list[Call](), list[Run]()
        for i, quantization in self._quantizations.items():
            w, out = self.tensors[i], self.read[i]
            if fits_compiled(w) and quantization.dtype.itemsize <= 2:
                compiled += bind_round_units(w, out, quantization).calls
            else:
                others.append(partial(quantization.fake_quantize, w, out))
        return [Calls(compiled), *others] if compiled else others

    @property
    def state(self) -> dict[int, Array]:
        """What an epoch leaves besides optimizer state: weights, ranges, running statistics."""
        return {**self.tensors, **self.ranges.ends, **self.statistics.arrays}

    @property
    def groups(self) -> dict[str, Mapping[int, Array]]:
        """All arrays that steps change, by role and tensor.

        They are weights, slots, averages, ranges and running statistics.
        """
        average = {AVERAGE: self.average.arrays} if self.average.arrays else {}
        ends = {RANGE: self.ranges.ends} if self.ranges.ends else {}
        running = {STATISTIC: self.statistics.arrays} if self.statistics.arrays else {}
        return {WEIGHT: self.tensors, **self.slots, **average, **ends, **running}

    def values(self) -> dict[int, Array]:
        """Copies of what trains, by tensor index: the weights, or their trained rows."""
        whole = {i: a.copy() for i, a in self.tensors.items() if i not in self._rows}
        return whole | {i: self.tensors[i][rows] for i, rows in self._rows.items()}

    def restart(self, values: Mapping[int, Array]) -> None:
        """Sets what trains, as from `values`, and resets the optimizer state."""
        for i, a in values.items():
            self.tensors[i][self._rows.get(i, ...)] = a
        for state in self.slots.values():
            for a in state.values():
                overwrite(a)
        self.step = 0
        self.average.reset()
        if self.proximal_mu:
            self._anchors = self.values()
            self._pulled = self._pulled or {i: a.copy() for i, a in self._anchors.items()}

    def scratch(self) -> Array:
        """Allocates a thread's scratch memory for updates: the rule's, and a tile of a gradient."""
        rows = self.optimizer.rule.work + 1 if self.optimizer else 0
        rows += WORK if self._integers else 0
        dtypes = {real_dtype(a) for a in self.tensors.values()} or {np.dtype(np.float32)}
        return np.empty((rows, TILE), max(dtypes, key=lambda d: d.itemsize))

    @property
    def pulls(self) -> bool:
        """Whether there is a proximal term: it changes the calls of `bind_update`."""
        return bool(self.proximal_mu)

    @property
    def update_numbers(self) -> Mapping[float, ctypes.Array[ctypes.c_float]]:
        """The numbers that compiled updates read, by factor of the learning rate."""
        return self._numbers

    @property
    def rounded(self) -> Mapping[int, Array]:
        """Copies of weights that are rounded before each step, by tensor."""
        return {i: self.read[i] for i in self._quantizations}

    def begin_update(self) -> None:
        """Counts an update, and fills the numbers that compiled updates read.

        Raises:
            OptionError: if the learning rate follows a schedule whose length is not known.
        """
        assert self.optimizer is not None, "parameters that train have an optimizer"
        self._rate = self.optimizer.rate(self.step + 1)
        self.step += 1
        self.origin[SEED], self.origin[STEP] = self.mask_seed % 2**64, self.step
        if self.average.arrays:
            self.average.begin_step(self.step)
        for factor, numbers in self._numbers.items():
            numbers[:] = list(self._compiled_update(factor)[1])

    def _compiled_update(self, factor: float) -> CompiledUpdate:
        """The kernel of this step's update, and its numbers, by factor of the learning rate."""
        assert self.optimizer is not None, "parameters that train have an optimizer"
        assert self.optimizer.rule.compiled is not None, "others are not bound"
        rate, step = self._rate * factor, max(self.step, 1)
        return self.optimizer.rule.compiled(self.optimizer.attrs, rate, step)

    def bind_update(self, i: int, gradient: Array, owned: bool, work: Array) -> list[Run]:
        """Returns the calls that update a parameter, after `begin_update`.

        They are valid as long as `pulls` does not change.

        Args:
            i: tensor index.
            gradient: gradient of the parameter, or of its trained rows.
            owned: whether the gradient may be destroyed.
            work: scratch memory from `scratch`.
        """
        whole, p, rows = self.tensors[i], self.trained[i], self._rows.get(i)
        calls: list[Run] = []
        if rows is not None:
            calls.append(partial(np.take, whole, rows, axis=0, out=p, mode="clip"))
        if self.pulls:
            calls.append(partial(self._pull, i, gradient))
            gradient = self._pulled[i]
            owned = True
        calls.append(self._bind_rule(i, gradient, owned, work))
        calls += self.bind_clear(i, p)
        if rows is not None:
            calls.append(partial(whole.__setitem__, rows, p))
        if self.average.arrays:
            calls.append(self.average.bind(i, work[-1]))
        return calls

    @property
    def in_parts(self) -> bool:
        """Whether `bind_part` can update weights that train as a whole, by gradients of float32."""
        rule = self.optimizer.rule if self.optimizer else None
        return bool(rule and rule.compiled) and not (self.average.arrays or self._rows)

    def bind_part(self, i: int, gradient: Array, part: slice = ALL) -> Calls:
        """Returns the compiled update of a part of a parameter's values, after `begin_update`.

        Args:
            i: tensor index.
            gradient: gradient of the part.
            part: positions in the flat parameter.
        """
        factor = self._rates.get(i, 1.0)
        array, name = self._numbers_of(factor), self._update_name
        slots = [a[i] if part is ALL else _flat(a[i])[part] for a in self.slots.values()]
        if i in self._integers:
            bind = self._integers[i].bind_part
            return bind(name, part, gradient, slots, array, i, self.origin)
        p = self.trained[i] if part is ALL else _flat(self.trained[i])[part]
        return bind_update(name, p, gradient, *slots, numbers=array)

    def bind_table(
        self, i: int, gradient: RowSums, work: Array, part: int = 0, parts: int = 1
    ) -> list[Run]:
        """Returns the calls that update a part of a table, after `begin_update`.

        They are valid as long as `pulls` does not change.

        Args:
            i: tensor index.
            gradient: sums of the gradients of its rows.
            work: scratch memory from `scratch`.
            part, parts: number of the part, and how many there are.
        """
        assert self.optimizer is not None, "parameters that train have an optimizer"
        rule, attrs = self.optimizer.rule, self.optimizer.attrs
        p = self.trained[i]
        is_compiled = rule.compiled is not None and fits_compiled(gradient.sums, p)
        if self.pulls or self.average.arrays or not is_compiled:  # the first part is all
            if part:
                return []
            parts = 1
        calls: list[Run] = []
        if self.pulls:
            calls.append(partial(self._pull_rows, i, gradient))
            calls.append(self._bind_rule(i, self._pulled[i], True, work))
        elif is_compiled:
            factor = self._rates.get(i, 1.0)
            slots = [a[i] for a in self.slots.values()]
            calls.append(
                bind_update_rows(
                    self._compiled_update(factor)[0],
                    p,
                    *slots,
                    numbers=self._numbers_of(factor),
                    gradient=gradient,
                    which=rule.rows(attrs),
                    part=part,
                    parts=parts,
                )
            )
        else:
            calls.append(partial(self._apply_to_rows, i, gradient, work))
        if self.average.arrays:
            calls.append(self.average.bind(i, work[-1]))
        return calls

    def _numbers_of(self, factor: float) -> ctypes.Array[ctypes.c_float]:
        """The numbers that compiled updates read, by factor of the learning rate."""
        if factor not in self._numbers:
            self._update_name, numbers = self._compiled_update(factor)
            self._numbers[factor] = (ctypes.c_float * len(numbers))(*numbers)
        return self._numbers[factor]

    def _bind_rule(self, i: int, gradient: Array, owned: bool, work: Array) -> Run:
        assert self.optimizer is not None, "parameters that train have an optimizer"
        rule = self.optimizer.rule
        p = self.trained[i]
        reals = () if i in self._integers else (p,)
        if rule.compiled is None or not fits_compiled(gradient, *reals):
            return partial(self._apply_rule, i, gradient, owned, work)
        return self.bind_part(i, gradient)

    def averages(self) -> Mapping[int, Array]:
        """The moving averages, which begin with the first step."""
        return self.average.arrays if self.step else {}

    def averaged(self) -> AbstractContextManager[None]:
        """Exchanges the weights with their averages, if any, during a `with` block."""
        return self.average.exchanged() if self.step else nullcontext()

    def _pull(self, i: int, gradient: Array) -> None:
        """Computes g + μ (w − w₀), in memory of its own."""
        pulled = self._pulled[i]
        np.subtract(self.trained[i], self._anchors[i], out=pulled)
        np.multiply(pulled, self.proximal_mu, out=pulled)
        np.add(pulled, gradient.reshape(pulled.shape, copy=False), out=pulled)

    def _pull_rows(self, i: int, gradient: RowSums) -> None:
        """Computes g + μ (w − w₀) of a table, in memory of its own."""
        pulled = self._pulled[i]
        np.subtract(self.trained[i], self._anchors[i], out=pulled)
        np.multiply(pulled, self.proximal_mu, out=pulled)
        pulled[gradient.listed] += gradient.sums[: gradient.listed.size]

    def _apply_to_rows(self, i: int, gradient: RowSums, work: Array) -> None:
        """Updates the rows of a table that have gradients, with NumPy."""
        assert self.optimizer is not None, "parameters that train have an optimizer"
        rows = gradient.listed
        arrays = {"p": self.trained[i], **{name: a[i] for name, a in self.slots.items()}}
        copies = {name: a[rows] for name, a in arrays.items()}
        flat = {name: a.reshape(-1) for name, a in copies.items()}
        g = gradient.sums[: rows.size].reshape(-1).copy()
        rate = self._rate * self._rates.get(i, 1.0)
        rule = self.optimizer.rule
        rule.run(self.optimizer.attrs, rate, self.step, g=g, work=work[:-1], **flat)
        for name, a in arrays.items():
            a[rows] = copies[name]

    def _apply_rule(self, i: int, gradient: Array, owned: bool, work: Array) -> None:
        """Updates a parameter with NumPy; tile by tile unless the rule needs it whole."""
        assert self.optimizer is not None, "parameters that train have an optimizer"
        rule = self.optimizer.rule
        rate = self._rate * self._rates.get(i, 1.0)
        if i in self._integers:
            self._update_integers(i, gradient, owned, work, rate)
            return
        if rule.whole:
            state = {name: a[i] for name, a in self.slots.items() if i in a}
            p, g = self.trained[i], gradient.reshape(self.trained[i].shape, copy=False)
            rule.run(self.optimizer.attrs, rate, self.step, p=p, g=g, work=work, **state)
            return
        g = gradient.reshape(-1, copy=False)
        arrays = {name: state[i].reshape(-1, copy=False) for name, state in self.slots.items()}
        arrays["p"] = self.trained[i].reshape(-1, copy=False)
        size = g.size if owned else TILE
        for at in range(0, g.size, max(size, 1)):
            tile = {name: a[at : at + size] for name, a in arrays.items()}
            here = g[at : at + size]
            if not owned:
                here = work[-1, : here.size]
                np.copyto(here, g[at : at + size])
            rule.run(self.optimizer.attrs, rate, self.step, g=here, work=work[:-1], **tile)

    def _update_integers(
        self, i: int, gradient: Array, owned: bool, work: Array, rate: float
    ) -> None:
        """Updates a weight that is integers in memory, tile by tile."""
        optimizer = self.optimizer
        assert optimizer is not None, "parameters that train have an optimizer"
        tiles, scratch, copy = work[:WORK], work[WORK:-1], work[-1]

        def rule(p: Array, g: Array, slots: Mapping[str, Array]) -> None:
            if not owned:
                np.copyto(copy[: g.size], g)
                g = copy[: g.size]
            optimizer.rule.run(optimizer.attrs, rate, self.step, p=p, g=g, work=scratch, **slots)

        state = {n: a[i].reshape(-1, copy=False) for n, a in self.slots.items() if i in a}
        # Seed and weight are one word, as in the compiled kernel.
        key = (self.mask_seed % 2**32 * 2**32 + i, self.step)
        self._integers[i].update(rule, gradient.reshape(-1, copy=False), state, key, tiles)

    def real(self) -> dict[int, Array]:
        """The weights by tensor index, as real numbers."""
        whole = {i: a for i, a in self.tensors.items() if i not in self._integers}
        return whole | {i: dequantize(self.tensors[i], q.first) for i, q in self._stored.items()}

    @property
    def nbytes(self) -> int:
        """Bytes of the trained weights, with copies of rows, rounded copies and masks."""
        copies = sum(self.trained[i].nbytes for i in self._rows)
        copies += sum(self.read[i].nbytes for i in self._quantizations)
        copies += sum(a.nbytes for a in self._stored_places.values())
        if self.proximal_mu:
            copies += 2 * sum(a.nbytes for a in self.trained.values())
        return sum(a.nbytes for a in self.tensors.values()) + copies

    @property
    def slot_nbytes(self) -> int:
        """Bytes of the optimizer state, with moving averages of the weights."""
        average = sum(a.nbytes for a in self.average.arrays.values())
        return average + sum(a.nbytes for state in self.slots.values() for a in state.values())


def _flat(a: Array) -> Array:
    return a.reshape(-1, copy=False)


def by_name(graph: Graph, arrays: Mapping[int, Array]) -> dict[str, Array]:
    """Returns arrays by name of their tensor; a repeated name gets the tensor index as a suffix."""
    names: dict[str, Array] = {}
    for i, a in arrays.items():
        name = graph.tensors[i].name or str(i)
        names[name if name not in names else f"{name}#{i}"] = a
    return names
