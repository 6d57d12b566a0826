"""Lowers a file's graph to the graph that is trained: shapes for a batch, one function per node.

Fused activations become separate nodes, and shape arithmetic (SHAPE → STRIDED_SLICE → PACK) is
folded into constants. All unsupported nodes are reported here in one error.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

from odt.core.lowering.batch_samples import batch_samples
from odt.core.lowering.binding import row_of
from odt.core.lowering.constants.hold import hold_constants
from odt.core.lowering.infer import Inference, infer_nodes, start_inference
from odt.core.lowering.normalize.unread import without_unread
from odt.core.lowering.passes.order import AFTER_BATCHING, BEFORE_BATCHING, Pass, run_passes
from odt.core.lowering.sample_axis import mixing_nodes
from odt.core.lowering.unsupported import UnsupportedNode, check_ends, unsupported_error
from odt.core.model.graph import Graph, LoweredGraph, Node, Tensor
from odt.dataclass import replace
from odt.errors import UnsupportedError
from odt.kernels.rows.opdef import TensorSpec

# ActivationFunctionType of the schema; SIGN_BIT (5) has no gradient and no row.
ACTIVATIONS = {1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH"}


class LoweredGraphs:
    """A file's graph, lowered once for each requested batch size.

    Attributes:
        graph: graph as in the file, with `constant_reason` of constants that do not train.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = hold_constants(graph)
        self._inferred: dict[tuple[int, int], tuple[Inference, list[UnsupportedNode]]] = {}
        self._at: dict[int, LoweredGraph] = {}

    @cached_property
    def file_batch(self) -> int:
        """The batch size in the file's shapes: the length of the inputs' leading axis, usually 1.

        It is also 1 for a model without a batch axis, whose inputs are weights or scalars: the
        file's shapes are then those of one sample. A vector counts as one sample too, unless the
        model can be computed for a longer vector and its outputs have a row for each value.
        """
        graph = self.graph
        shapes = [graph.tensors[i].spec.shape for i in graph.inputs]
        leads = {max(shape[0], 1) if shape else 0 for shape in shapes}
        size = leads.pop() if len(leads) == 1 else 1
        if size < 2:
            return 1
        vectors = any(len(shape) == 1 for shape in shapes)
        if not vectors and all(graph.tensors[i].spec.shape[:1] == (size,) for i in graph.outputs):
            return size
        try:
            self._lower(size, size)
        except UnsupportedError:
            return size  # lowering for this batch raises the error
        try:
            self._lower(2 * size, size)
        except UnsupportedError:
            return 1
        specs = self._infer(size, size).specs
        return size if all(specs[i].shape[0] % size == 0 for i in graph.outputs) else 1

    @property
    def specs(self) -> Mapping[int, TensorSpec]:
        """The specs of the file's tensors, inferred from its inputs; a file may leave shapes open.

        Raises:
            UnsupportedError: if operators are unsupported, with a list of all of them.
        """
        return self._infer(self.file_batch, self.file_batch).specs

    @property
    def unsupported(self) -> Sequence[UnsupportedNode]:
        """All nodes of the file that odt does not support."""
        return self._inference(self.file_batch, self.file_batch)[1]

    @cached_property
    def at_file_batch(self) -> LoweredGraph:
        """The graph for the file's batch size, with the nodes of the file.

        It is used to inspect the model. `at` may return other nodes for the same batch size.

        Raises:
            UnsupportedError: if operators are unsupported, with a list of all of them.
        """
        return self._after_batching(self.as_in_file)

    def check(self) -> None:
        """Raises UnsupportedError, as `at_file_batch` does."""
        _ = self.at_file_batch

    def check_single(self) -> None:
        """Raises UnsupportedError if the graph cannot be lowered for one sample."""
        if self.file_batch == 1:
            self.check()
        else:
            self.at(1)

    def at(self, batch: int) -> LoweredGraph:
        """Returns the graph for a number of samples, on which its nodes do not depend.

        If the file's shapes hold only for one sample, the graph is batched
        (core/lowering/batch_samples.py).

        Raises:
            UnsupportedError: if operators are unsupported, with a list of all of them; or if an
                input or an output does not grow with the batch.
        """
        if batch not in self._at:
            lower = self._for_samples if self.file_batch == 1 else self._for_groups
            self._at[batch] = lower(batch)
        return self._at[batch]

    def _for_samples(self, batch: int) -> LoweredGraph:
        try:
            batched = batch_samples(self.as_in_file, batch)
        except UnsupportedError:
            if batch > 1:
                raise
            return self.at_file_batch
        return self._after_batching(batched)

    def _for_groups(self, batch: int) -> LoweredGraph:
        """Lowers a file whose shapes were written for a batch of several samples."""
        size = self.file_batch
        if batch == size:
            return self.at_file_batch
        groups, rest = divmod(batch, size)
        try:
            lowered = self._lower(batch, size)
        except UnsupportedError as e:  # a constant has values for each sample of the file's batch
            if rest:
                raise
            try:
                return self._after_batching(batch_samples(self.as_in_file, groups))
            except UnsupportedError:
                raise e from None
        mixing = mixing_nodes(lowered)
        if not mixing:
            return self._after_batching(lowered)
        if not rest:
            return self._after_batching(batch_samples(self.as_in_file, groups))
        raise UnsupportedError(
            f"{self.graph.name}: node {mixing[0].origin} ({mixing[0].op}): the samples of a batch "
            f"depend on each other, so the batch must be a multiple of the file's, {size}, "
            f"but got {batch}. Give `batch_size={size}`."
        )

    @property
    def with_all_tensors(self) -> LoweredGraph:
        """The graph for the file's batch size that computes every tensor, before all passes."""
        return self._lower(self.file_batch, self.file_batch, passes=())

    @cached_property
    def as_in_file(self) -> LoweredGraph:
        """The graph for the file's batch size, before passes that move operators."""
        return self._lower(self.file_batch, self.file_batch)

    def _after_batching(self, lowered: LoweredGraph) -> LoweredGraph:
        return run_passes(AFTER_BATCHING, lowered, self.graph)

    def _lower(
        self, batch: int, size: int, passes: Sequence[Pass] = BEFORE_BATCHING
    ) -> LoweredGraph:
        """Lowers without batching the graph of one sample; `size` is the batch size in the file."""
        graph = self.graph
        if not graph.inputs or not graph.outputs:
            raise UnsupportedError(
                f"{graph.name}: must have inputs and outputs, "
                f"but got {len(graph.inputs)} and {len(graph.outputs)}"
            )
        at_file = self._infer(size, size)
        check_ends(graph, at_file.specs)
        if batch == size:
            return run_passes(passes, _rewrite(graph, at_file), graph)
        inference = self._infer(batch, size)
        for i in (*graph.inputs, *graph.outputs):
            before, now = at_file.specs[i].shape, inference.specs[i].shape
            scaled = before and now[0] * size == before[0] * batch
            if not scaled or now[1:] != before[1:]:
                raise UnsupportedError(
                    f"{graph.name}: {graph.label(i)}: its leading axis, and no other, must be the "
                    f"batch to compute {batch} samples together, but got {now} for {batch}, "
                    f"{before} for {size}"
                )
        return run_passes(passes, _rewrite(graph, inference), graph)

    def _infer(self, batch: int, size: int) -> Inference:
        """Infers all shapes.

        Raises:
            UnsupportedError: for all unsupported nodes together; of nodes that are supported with
                the file's batch, the first one.
        """
        inference, unsupported = self._inference(batch, size)
        if unsupported and batch != size:
            raise UnsupportedError(
                f"{self.graph.name}: {unsupported[0]}. Give `batch_size={size}`."
            )
        if unsupported:
            raise unsupported_error(self.graph, unsupported)
        return inference

    def _inference(self, batch: int, size: int) -> tuple[Inference, list[UnsupportedNode]]:
        """Returns the shapes of the nodes that odt supports, and the unsupported nodes."""
        key = (batch, size)
        if key not in self._inferred:
            at_file = None if batch == size else self._infer(size, size)
            inference = start_inference(self.graph, batch, size)
            self._inferred[key] = inference, infer_nodes(self.graph, inference, at_file)
        return self._inferred[key]


def _rewrite(graph: Graph, inference: Inference) -> LoweredGraph:
    """Returns the graph with inferred specs, without folded nodes and fused activations."""
    tensors: list[Tensor] = []
    for i, tensor in enumerate(graph.tensors):
        spec, data = inference.specs.get(i, tensor.spec), inference.values.get(i)
        same = spec == tensor.spec and data is tensor.data
        tensors.append(tensor if same else replace(tensor, spec=spec, data=data))
    nodes: list[Node] = []
    for k, node in enumerate(graph.nodes):
        if all(i in inference.values for i in node.outputs):
            continue
        attrs, code = inference.attrs[k], node.options.get("fused_activation_function", 0)
        if not code or row_of(node.op).keeps_activation:
            nodes.append(replace(node, attrs=attrs))
            continue
        if code not in ACTIVATIONS:
            raise UnsupportedError(
                f"{graph.name}: node {node.origin} ({node.op}): fused_activation_function must be "
                f"one of {', '.join(ACTIVATIONS.values())}, but got {code}"
            )
        (y,) = node.outputs
        tensors.append(Tensor(f"{graph.tensors[y].name}/before activation", tensors[y].spec))
        nodes.append(replace(node, outputs=(len(tensors) - 1,), attrs=attrs))
        nodes.append(Node(ACTIVATIONS[code], (len(tensors) - 1,), (y,), {}, node.origin))
    if inference.reals:  # floats of shapes, which nothing may read any longer
        reals = inference.reals.keys()
        nodes = without_unread(nodes, graph.outputs, lambda n: reals >= {*n.outputs})
    return LoweredGraph(
        replace(graph, tensors=tuple(tensors), nodes=tuple(nodes), samples=inference.batch)
    )
