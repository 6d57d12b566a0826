"""Computes all tensors of a graph, one after the other, in the memory of an inference."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from odt.core.data.dataset import DataSet
from odt.core.data.protocol import SampleOrder
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import Graph
from odt.core.planning.autodiff import inference_plan
from odt.core.planning.memory import plan_memory
from odt.core.planning.verify import verify
from odt.core.recipe.sample_specs import SampleSpecs, sample_specs
from odt.core.runtime.arena import make_arena
from odt.core.runtime.program import Program
from odt.kernels.rows.opdef import Array

OpenSamples = Callable[[SampleSpecs], DataSet]


class Trace:
    """A program that shows every tensor of the file when it is computed.

    Attributes:
        tensors: the float tensors of the file that the program computes, and the inputs.
        batch: samples that it computes together.
        samples: specs of a sample.
        nbytes: bytes of the memory in which tensors are computed.
    """

    def __init__(self, graph: Graph, count: int) -> None:
        """Binds the program for the file's batch size.

        Args:
            graph: graph of the file, or its integer graph.
            count: number of tensors in the file, which come first in the graph.
        """
        lowered = LoweredGraphs(graph).with_all_tensors
        results = (i for node in lowered.nodes for i in node.outputs if i < count)
        floats = (i for i in results if lowered.tensors[i].spec.dtype.kind == "f")
        self.tensors = (*lowered.inputs, *floats)
        plan = replace(inference_plan(replace(lowered, outputs=self.tensors)), outputs=())
        memory = plan_memory(plan)
        verify(plan, memory)
        self._shown: dict[str, list[int]] = {}  # value of the plan → tensors that are its views
        for i in self.tensors:
            self._shown.setdefault(plan.root(f"t{i}"), []).append(i)
        self.nbytes = memory.nbytes
        self._arena = make_arena(memory.nbytes)
        self._program = Program(plan, memory, self._arena, {}, observable=self._shown)
        self.batch = lowered.samples
        self.samples = sample_specs(lowered, (), lowered.samples)

    def run(self, data: DataSet, order: SampleOrder) -> Iterator[tuple[int, Array]]:
        """Yields each tensor and its values, for one batch of the file after the other.

        The values are valid until the next tensor. Samples that do not fill the file's batch are
        left out.
        """
        program, batch = self._program, self.batch
        inputs = [a.reshape(batch, -1, copy=False) for a in program.inputs]
        for first in range(0, len(order) - batch + 1, batch):
            data.read(order[first : first + batch], inputs, [])
            yield from self._views(program.plan.inputs)
            for written in program.forward_by_call():
                yield from self._views(written)

    def _views(self, names: Iterable[str]) -> Iterator[tuple[int, Array]]:
        for name in names:
            for i in self._shown.get(name, ()):
                yield i, self._program.array(f"t{i}")
