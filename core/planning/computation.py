"""Computations of a batch, their plans by number of samples, and the usual schedule."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial

from odt.core.data.protocol import Scales
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import Graph, LoweredGraph
from odt.core.planning.autodiff import inference_plan, training_plan
from odt.core.planning.gradient_sums import TableRule, by_rows, computed_in_sums, table_sums
from odt.core.planning.memory import MemoryPlan, plan_memory
from odt.core.planning.output_loss import Loss
from odt.core.planning.plan import Plan
from odt.core.planning.rewrites.cheap_values import cheap_values
from odt.core.planning.schedule import (
    Schedule,
    available_cores,
    choose_schedule,
    several_samples,
)
from odt.core.planning.verify import verify
from odt.core.storage.mapped_files import mapped_files
from odt.dataclass import dataclass
from odt.errors import UnsupportedError
from odt.kernels.geometry.weight_quantization import WeightQuantization
from odt.kernels.native.target import other_target


@dataclass(frozen=True, slots=True)
class Computation:
    """The computation of a batch: losses and gradients, losses only, or outputs only.

    Attributes:
        losses: losses of the outputs that have one.
        trainable: positions in the file of the operators that train.
        only: weights of these operators that train; None for all.
        sparse: output channels that train, for filters trained in part.
        dropout: weights of layers, and the probability of a zero in the layer's input.
        backward: whether gradients are computed and parameters updated.
        outputs: whether the model's outputs are computed.
        rows: whether what metrics read of rows will do instead, if this saves memory.
        bf16: whether the factors of products are rounded to bfloat16.
        begin: tensors used instead of the model's inputs; empty for the inputs.
        end: tensors used instead of the model's outputs; empty for the outputs.
    """

    losses: tuple[Loss, ...] = ()
    trainable: frozenset[int] = frozenset()
    only: tuple[int, ...] | None = None
    sparse: tuple[tuple[int, tuple[int, ...]], ...] = ()
    dropout: tuple[tuple[int, float], ...] = ()
    backward: bool = False
    outputs: bool = False
    rows: bool = False
    bf16: bool = False
    begin: tuple[int, ...] = ()
    end: tuple[int, ...] = ()

    def scaled(self, scales: Scales) -> "Computation":
        """Returns the same computation, whose losses have a scale for each sample or position."""
        return replace(self, losses=tuple(replace(loss, scales=scales) for loss in self.losses))

    def plan(self, lowered: LoweredGraph) -> Plan:
        """Makes the plan of a graph that was lowered for the size of a micro-batch."""
        if self.end:
            lowered = replace(lowered, outputs=self.end)
        if self.begin:
            from odt.core.lowering.split_frozen import begin_at

            lowered = begin_at(lowered, self.begin, [loss.tensor for loss in self.losses])
        plan = self._with_losses(lowered) if self.losses else inference_plan(lowered)
        if any(node.op == "BATCH_MATMUL" for node in lowered.nodes):
            from odt.core.planning.attention import with_attention

            plan = with_attention(plan)
        if not self.losses:
            return plan
        dropped = cheap_values(plan) if self.backward else ()
        if not dropped:
            return plan
        from odt.core.planning.rewrites.recompute import recompute

        return recompute(plan, dropped)

    def _with_losses(self, lowered: LoweredGraph) -> Plan:
        """Makes the plan of losses, the last layer and its loss in chunks where that saves memory.

        The layer's outputs, which the plan then cannot have, are left out for `rows`.
        """
        make = partial(
            training_plan,
            lowered,
            self.losses,
            self.trainable,
            only=self.only,
            sparse=self.sparse,
            dropout=self.dropout,
            backward=self.backward,
            bf16=self.bf16,
        )
        specs = (lowered.tensors[loss.tensor].spec for loss in self.losses)
        if not any(map(Loss.may_be_chunked, self.losses, specs)):
            return make(outputs=self.outputs)
        from odt.core.planning.chunked_loss import with_chunked_loss

        if self.outputs and self.rows:
            plan = with_chunked_loss(make(outputs=False), rows=True)
            if plan.rows:
                return plan
        return with_chunked_loss(make(outputs=self.outputs))


class Plans:
    """Plans of a graph by computation and number of samples, each made once.

    Attributes:
        graphs: the graph, lowered for the numbers of samples.
        stored: weights that do not train, and are in memory as the file stores them.
        integers: quantizations of weights that train as integers.
        rounded: quantizations of weights that train as floats, and are rounded before each call
            that reads them.
    """

    def __init__(
        self,
        graph: Graph | LoweredGraphs,
        stored: Collection[int] | None = None,
        integers: Mapping[int, WeightQuantization] | None = None,
        rounded: Mapping[int, WeightQuantization] | None = None,
    ) -> None:
        """Makes an empty collection of plans.

        Args:
            graph: graph as in the file, or lowered graphs that others share.
            stored: weights that do not train, and are in memory as the file stores them; None for
                all weights that the graph has so.
            integers: quantizations of weights that train as integers.
            rounded: quantizations of weights that train as floats, and are rounded before each call
                that reads them.
        """
        self.graphs = graph if isinstance(graph, LoweredGraphs) else LoweredGraphs(graph)
        if stored is None:
            stored = [i for i, t in enumerate(self.graph.tensors) if t.decoder]
        self.stored, self.integers, self.rounded = stored, integers or {}, rounded or {}
        self._files = mapped_files(t.data for t in self.graph.tensors)
        self._plans: dict[tuple[Computation, int], Plan] = {}
        self._placed: dict[tuple[Computation, int], tuple[Plan, MemoryPlan]] = {}
        self._several: dict[tuple[int, int | None, int | None], int] = {}
        self._in_sums: dict[tuple[Computation, int, frozenset[str]], tuple[Plan, MemoryPlan]] = {}
        self._verified: set[tuple[Computation, int]] = set()

    @property
    def graph(self) -> Graph:
        """The graph as in the file."""
        return self.graphs.graph

    def of(self, graphs: LoweredGraphs) -> "Plans":
        """Returns new plans of a graph with the same tensors, whose weights are stored alike."""
        return Plans(graphs, self.stored, self.integers, self.rounded)

    def begin(self, sizes: Collection[int]) -> "Plans":
        """Returns plans that begin with those for some numbers of samples."""
        plans = self.of(self.graphs)
        plans._plans, plans._placed = dict(self._plans), dict(self._placed)
        plans.keep(sizes)
        return plans

    def several_samples(self, batch: int, micro_batch: int | None, workers: int | None) -> int:
        """Returns the number of samples of the plan from which a schedule is chosen."""
        key = (batch, micro_batch, workers)
        if key not in self._several:
            self._several[key] = several_samples(self.graphs, *key)
        return self._several[key]

    def plan(self, computation: Computation, batch: int) -> Plan:
        """Returns the plan for a number of samples."""
        key = (computation, batch)
        if key not in self._plans:
            self._plans[key] = self._make(computation, batch)
        return self._plans[key]

    def _make(self, computation: Computation, batch: int) -> Plan:
        plan = computation.plan(self.graphs.at(batch))
        if not (self.stored or self.integers or self.rounded):
            return plan
        from odt.core.planning.stored_weights import with_stored_weights

        return with_stored_weights(plan, self.stored, self.integers, self.rounded)

    def at(self, computation: Computation, batch: int) -> tuple[Plan, MemoryPlan]:
        """Returns the plan for a number of samples, and its memory plan."""
        key = (computation, batch)
        if key not in self._placed:
            plan = self.plan(computation, batch)
            self._placed[key] = plan, plan_memory(plan)
        return self._placed[key]

    def in_sums(
        self, computation: Computation, batch: int, parameters: frozenset[str]
    ) -> tuple[Plan, MemoryPlan]:
        """Returns plan and memory plan without memory for the gradients of some parameters."""
        key = (computation, batch, parameters)
        if not parameters:
            return self.at(computation, batch)
        if key not in self._in_sums:
            plan = computed_in_sums(self.plan(computation, batch), parameters)
            self._in_sums[key] = plan, plan_memory(plan)
        return self._in_sums[key]

    def verified(self, computation: Computation, batch: int) -> tuple[Plan, MemoryPlan]:
        """Returns plan and memory plan like `at`, after checking once that they agree."""
        key = (computation, batch)
        if key not in self._verified:
            verify(*self.at(computation, batch))
            self._verified.add(key)
        return self.at(computation, batch)

    def keep(self, sizes: Collection[int]) -> None:
        """Frees the plans for other numbers of samples, which were made to choose among them."""
        self._plans = {key: plan for key, plan in self._plans.items() if key[1] in sizes}
        self._placed = {key: plans for key, plans in self._placed.items() if key[1] in sizes}
        self._in_sums = {key: plans for key, plans in self._in_sums.items() if key[1] in sizes}
        self._verified &= self._plans.keys()

    def check_files(self) -> None:
        """Raises LostFileError if the model's file became shorter before it was read."""
        for file in self._files:
            file.check()


def usual_plan(
    plans: Plans,
    training: Computation,
    batch: int,
    micro_batch: int | None,
    workers: int | None,
) -> Plan:
    """Returns the plan from which the schedule is chosen; arguments as for `usual_schedule`.

    For a model whose batch cannot be split, it is the plan for the batch of the file.
    """
    samples = plans.several_samples(batch, micro_batch, workers)
    try:
        return plans.plan(training, max(samples, 1))
    except UnsupportedError:
        return plans.plan(training, plans.graphs.file_batch)


def usual_schedule(
    plans: Plans,
    training: Computation,
    batch: int,
    micro_batch: int | None,
    workers: int | None,
    tables: TableRule | None = None,
) -> Schedule:
    """Chooses the schedule without a budget.

    Args:
        plans: plans of the model.
        training: the computation of a training step.
        batch: samples in a step.
        micro_batch: samples in a micro-batch; None to choose.
        workers: number of workers; None to choose.
        tables: which tables have sums of rows for gradients; None for none.

    Raises:
        OptionError: if `micro_batch` or `workers` is not possible.
    """

    def plan_at(samples: int) -> tuple[Plan, MemoryPlan]:
        plan, memory = plans.at(training, samples)
        rows = table_sums(plan, Schedule(batch, samples, 1, 1), tables) if tables else {}
        if not rows:
            return plan, memory
        plan = by_rows(plan, rows)
        return plan, plan_memory(plan)

    several = plans.several_samples(batch, micro_batch, workers)
    usual = choose_schedule(plans.graphs, batch, plan_at, micro_batch, workers, several)
    # A C program packs weights in each micro-batch, and needs no memory for it.
    packs = usual.micro_batch * usual.workers < batch and other_target() is None
    usual = replace(usual, packs=packs)
    if training.begin and usual.workers == 1:  # the frozen part is rarely small
        return replace(usual, blas_threads=available_cores())
    return usual
