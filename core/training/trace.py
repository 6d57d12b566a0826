"""Computes all tensors of a graph for one batch of samples."""

from collections.abc import Callable, Iterator, Mapping
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
from odt.kernels.opdef import Array

OpenSamples = Callable[[SampleSpecs], DataSet]


class Trace:
    """A program that keeps every tensor of the file that an operator computes.

    Attributes:
        tensors: the float tensors of the file that the program computes, and the inputs.
        samples: specs of a sample.
    """

    def __init__(self, graph: Graph, count: int) -> None:
        """Binds the program for the file's batch size.

        Args:
            graph: graph of the file, or its integer graph.
            count: number of tensors in the file, which come first in the graph.
        """
        lowered = LoweredGraphs(graph).as_in_file
        made = (i for node in lowered.nodes for i in node.outputs if i < count)
        floats = (i for i in made if lowered.tensors[i].spec.dtype.kind == "f")
        self.tensors = (*lowered.inputs, *floats)
        plan = inference_plan(replace(lowered, outputs=self.tensors))
        memory = plan_memory(plan)
        verify(plan, memory)
        self._arena = make_arena(memory.nbytes)
        self._program = Program(plan, memory, self._arena, {})
        self._batch = lowered.samples
        self.samples = sample_specs(lowered, (), lowered.samples)

    def run(self, data: DataSet, order: SampleOrder) -> Iterator[Mapping[int, Array]]:
        """Yields the tensors' values for samples, in arrays that are reused.

        Samples that do not fill the file's batch are left out.
        """
        program, batch = self._program, self._batch
        inputs = [a.reshape(batch, -1, copy=False) for a in program.inputs]
        for first in range(0, len(order) - batch + 1, batch):
            data.read(order[first : first + batch], inputs, [])
            program.forward()
            yield dict(zip(self.tensors, program.outputs, strict=True))
