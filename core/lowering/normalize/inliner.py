"""Builds a graph without control flow, subgraph by subgraph; inline.py says how."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from odt.core.formats.flatbuffer.subgraphs import BRANCHES, CALLS, CONTROL_FLOW, LOOPS
from odt.core.lowering.infer import infer_node, start_inference
from odt.core.lowering.normalize.flex import as_builtin
from odt.core.lowering.normalize.tensor_lists import LISTS, Items, expand_list, without_lists
from odt.core.model.dequantize import FLOAT32
from odt.core.model.graph import ABSENT, Node, Tensor, label
from odt.core.model.integer_operators import CONVERSIONS
from odt.core.model.model import Model
from odt.core.model.variables import (
    HANDLE,
    INITIALIZE,
    READ,
    Variable,
)
from odt.errors import ShapeError
from odt.kernels.registry import find_operator
from odt.kernels.rows.opdef import TensorSpec

# Why a constant of one value does not train; a first state that was learned has several values.
LOOP = "initial value of a loop: a state, or the array of its results"
MAX_NODES = 50_000  # of the graph, for subgraphs to be inlined
MAX_DEPTH = 16  # of subgraphs that run subgraphs
# Composites such as odml.scaled_dot_product_attention and odml.rms_norm. LiteRT has kernels for
# them, which read their operands and attributes, but no constant of the decomposition.
RUNTIMES = "odml."
Within = tuple[int, ...]  # the subgraphs that are running


class _NotInlinableError(Exception):
    """Raised if an operator cannot be inlined, and must stay as it is."""


class Inliner:
    """Builds the graph without subgraphs, and infers its shapes and constants node by node.

    Attributes:
        tensors: of the new graph, in float32 where integers stand for real numbers, so that shapes
            are those of training.
        stored: tensor → how the file stores it, if that differs.
        nodes, quantization, sparsity: of the new graph.
        places: tensor → subgraph and number there, for tensors of subgraphs.
        constants: the inverse of `places`, for constants.
        variables: place of an initial value → the tensor that stands for the variable.
        constant_reads: output of READ_VARIABLE → name and initial value of its variable, if it is
            constant.
        renamed: output of an operator that was inlined → the tensor with its value.
        lists: tensor → items of the list that it holds.
        initial: tensors with which variables of loops begin that change from step to step.
        formulas: subgraphs of composites for which runtimes have kernels.
    """

    def __init__(self, model: Model, constant_reads: Mapping[int, tuple[str, Variable]]) -> None:
        self.model, self.graph = model, model.graph
        self.stored: dict[int, Tensor] = {}
        self.tensors: list[Tensor] = []
        self.nodes: list[Node] = []
        self.quantization = dict(model.quantization)
        self.sparsity = dict(model.sparsity)
        self.places = dict(model.places)
        self.constants: dict[tuple[int, int], int] = {}
        self.variables: dict[tuple[int, int], int] = {}
        self.formulas: set[int] = set()
        self.renamed: dict[int, int] = {}
        self.lists: dict[int, Items] = {}
        self.initial: set[int] = set()
        for k, tensor in enumerate(model.graph.tensors):
            self.tensors.append(self._real(k, tensor))
        real = replace(model.graph, tensors=tuple(self.tensors))
        self.inference = start_inference(real, 1, 1)
        for k in self.stored:
            self.inference.values.pop(k, None)
        self.constant_reads = constant_reads

    def label(self, index: int) -> str:
        return label(self.tensors, index)

    def inline(self) -> Model:
        """Returns the model with the new graph."""
        for node in self.graph.nodes:
            inputs = tuple(self.renamed.get(i, i) for i in node.inputs)
            renamed = replace(node, inputs=inputs)
            if self.constant_reads and node.op in (HANDLE, INITIALIZE, READ):
                self._read_constants(node)
            elif node.op in CONTROL_FLOW:
                self._inline(renamed)
            else:
                self._add(renamed)
        outputs = tuple(self.renamed.get(i, i) for i in self.graph.outputs)
        graph = replace(
            self.graph,
            tensors=tuple(map(self._final, range(len(self.tensors)))),
            nodes=tuple(without_lists(self.nodes, outputs)),
            outputs=outputs,
        )
        return replace(
            self.model,
            graph=graph,
            quantization=self.quantization,
            sparsity=self.sparsity,
            places=self.places,
        )

    def _read_constants(self, node: Node) -> None:
        """Puts constants in place of the variables that a node reads."""
        for y in self.constant_reads.keys() & node.outputs:
            name, variable = self.constant_reads[y]
            self.renamed[y] = self._variable(name, variable, node.origin)

    def _inline(self, node: Node) -> None:
        """Adds the nodes of an operator's subgraphs; the operator itself if that is impossible."""
        node_count, tensor_count = len(self.nodes), len(self.tensors)
        constants, variables = dict(self.constants), dict(self.variables)
        try:
            results = self._expand(node, ())
        except _NotInlinableError:
            self._drop(node_count, tensor_count)
            self.constants, self.variables = constants, variables
            self._add(node)
            return
        self._keep_indices(node.outputs, results, node_count)

    def _final(self, k: int) -> Tensor:
        """Returns tensor `k` of the new graph."""
        tensor = self.stored.get(k, self.tensors[k])
        data = tensor.data if k in self.initial else None
        equal = data is not None and data.size > 0 and bool((data == data.flat[0]).all())
        is_real = self.tensors[k].spec.dtype.kind == "f"
        return replace(tensor, constant_reason=LOOP) if equal and is_real else tensor

    def _keep_indices(self, outputs: Sequence[int], results: Sequence[int], start: int) -> None:
        """Gives tensors that nodes from `start` on make the indices of an operator's outputs."""
        results_of_nodes = {i for node in self.nodes[start:] for i in node.outputs}
        indices: dict[int, int] = {}
        for y, i in zip(outputs, results, strict=True):
            if i in results_of_nodes and i not in indices:
                indices[i] = y
                if i in self.inference.specs:
                    self.inference.specs[y] = self.inference.specs[i]
                if i in self.inference.values:
                    self.inference.values[y] = self.inference.values[i]
                if i in self.lists:
                    self.lists[y] = self.lists[i]
            else:
                self.renamed[y] = indices.get(i, i)
        for y in self.lists.keys() & {*outputs}:
            self.lists[y] = tuple(i if i is None else indices.get(i, i) for i in self.lists[y])
        for k in range(start, len(self.nodes)):
            node = self.nodes[k]
            self.nodes[k] = replace(
                node,
                inputs=tuple(indices.get(i, i) for i in node.inputs),
                outputs=tuple(indices.get(i, i) for i in node.outputs),
            )

    def _add(self, node: Node) -> None:
        """Adds a node; infers its outputs if those of its inputs are known."""
        node = as_builtin(node)
        if node.op in LISTS and self._expand_list(node):
            return
        self.nodes.append(node)
        row, specs = find_operator(node.op), self.inference.specs
        if not all(i == ABSENT or i in specs for i in node.inputs):
            return
        if row is not None:
            with suppress(ShapeError):
                infer_node(self, node, row, self.inference, None)
        elif node.op in (*CONVERSIONS, "DENSIFY") and len(node.inputs) == len(node.outputs) == 1:
            specs[node.outputs[0]] = TensorSpec(specs[node.inputs[0]].shape, FLOAT32)

    def _expand_list(self, node: Node) -> bool:
        """Replaces an operator on lists; False if what it does is unknown."""
        values, specs = self.inference.values, self.inference.specs

        def slices(i: int) -> list[int]:
            shape, dtype = specs[i].shape, specs[i].dtype
            item = TensorSpec(shape[1:], dtype)
            tensor = Tensor(self.tensors[i].name, item, item.shape)
            return [self._append(tensor) for _ in range(shape[0])]

        expanded = expand_list(node, self.lists, values, specs, slices)
        if expanded is None:
            return False
        (y,) = node.outputs
        if expanded.items is not None:
            self.lists[y] = expanded.items
            self.nodes.append(node)
        if expanded.same is not None:
            self.renamed[y] = expanded.same
        for inner in expanded.nodes:
            self._add(inner)
        return True

    def _expand(self, node: Node, within: Within) -> list[int]:
        """Adds the nodes of an operator's subgraphs; returns the tensors with its outputs."""
        if len(within) > MAX_DEPTH or ABSENT in node.inputs:
            raise _NotInlinableError
        if node.op in CALLS:
            number = int(node.options[CALLS[node.op]])
            if str(node.options.get("name", "")).startswith(RUNTIMES):
                self.formulas.add(number)
            results = self._run(node, number, node.inputs, within)
        elif node.op in LOOPS:
            results = self._unroll(node, within)
        else:
            results = self._choose(node, within)
        if len(results) != len(node.outputs):
            raise _NotInlinableError
        return results

    def _unroll(self, node: Node, within: Within) -> list[int]:
        """Adds the nodes of all steps of a loop; returns the state after the last one."""
        condition, body = (int(node.options[name]) for name in LOOPS[node.op])
        state = list(node.inputs)
        while self._is_true(*self._run(node, condition, state, within)):
            count = len(self.nodes)
            before = state
            state = self._run(node, body, state, within)
            # _expand compares the number of results with that of the outputs.
            self.initial.update(a for a, b in zip(before, state, strict=False) if a != b)
            if len(self.nodes) == count:  # nothing can change any more
                raise _NotInlinableError
        return state

    def _is_true(self, *conditions: int) -> bool:
        """Returns the value of a single condition, if it is known; raises otherwise."""
        if len(conditions) != 1 or conditions[0] not in self.inference.values:
            raise _NotInlinableError
        return bool(self.inference.values[conditions[0]].any())

    def _choose(self, node: Node, within: Within) -> list[int]:
        """Adds the branch that an IF takes, or both and the choice between their values."""
        condition, *inputs = node.inputs
        numbers = [int(node.options[name]) for name in BRANCHES[node.op]]
        if condition in self.inference.values:
            branch = numbers[0] if self._is_true(condition) else numbers[1]
            return self._run(node, branch, inputs, within)
        # _expand compares the number of pairs with that of the outputs.
        pairs = zip(*(self._run(node, k, inputs, within) for k in numbers), strict=False)
        return [self._select(node, condition, a, b) for a, b in pairs]

    def _select(self, node: Node, condition: int, a: int, b: int) -> int:
        """Adds the choice between the values of both branches."""
        specs = self.inference.specs
        if a not in specs or specs.get(a) != specs.get(b):
            raise _NotInlinableError
        if not {a, b}.isdisjoint(self.stored):
            raise _NotInlinableError
        y = self._append(replace(self.tensors[a], data=None, buffer=0))
        self._add(Node("SELECT_V2", (condition, a, b), (y,), {}, node.origin))
        return y

    def _run(self, caller: Node, number: int, inputs: Sequence[int], within: Within) -> list[int]:
        """Adds the nodes of a subgraph; returns the tensors with its outputs."""
        body = self.model.bodies.get(number)
        if body is None or number in within or len(inputs) != len(body.graph.inputs):
            raise _NotInlinableError
        within = (*within, number)
        bound = dict(zip(body.graph.inputs, inputs, strict=True))

        def find(i: int) -> int:
            if i != ABSENT and i not in bound:
                bound[i] = self._constant(number, i)
            return bound.get(i, ABSENT)

        for node in body.graph.nodes:
            renamed = replace(node, inputs=tuple(map(find, node.inputs)), origin=caller.origin)
            if node.op in CONTROL_FLOW:
                bound.update(zip(node.outputs, self._expand(renamed, within), strict=True))
                continue
            for i in node.outputs:
                bound[i] = self._tensor(number, i)
            self._add(replace(renamed, outputs=tuple(bound[i] for i in node.outputs)))
            bound.update((i, self.renamed.get(bound[i], bound[i])) for i in node.outputs)
            if len(self.nodes) > MAX_NODES:
                raise _NotInlinableError
        return [find(i) for i in body.graph.outputs]

    def _constant(self, number: int, i: int) -> int:
        """Returns the tensor for a constant of a subgraph; adds it once."""
        tensor = self.model.bodies[number].graph.tensors[i]
        if tensor.data is None:  # a variable
            raise _NotInlinableError
        if (number, i) not in self.constants:
            k = self.constants[number, i] = self._tensor(number, i)
            self.places[k] = number, i
            self.inference.specs[k] = self.tensors[k].spec
            if k not in self.stored:
                self.inference.values[k] = tensor.data
        return self.constants[number, i]

    def _variable(self, name: str, variable: Variable, origin: int) -> int:
        """Returns the constant with a variable's initial value, or what a DEQUANTIZE makes of it.

        Args:
            name: name of the variable.
            variable: its initial value.
            origin: position of an operator that reads it.
        """
        place, value = (variable.subgraph, variable.tensor), variable.value
        assert value is not None
        if place in self.variables:
            return self.variables[place]
        spec, scales = TensorSpec(value.shape, value.dtype), variable.quantization
        k = self._append(
            Tensor(
                name,
                spec,
                value.shape,
                value,
                variable.buffer,
                quantized=scales is not None,
                places=variable.places,
            )
        )
        self.places[k] = place
        self.inference.specs[k] = self.tensors[k].spec
        if k not in self.stored:
            self.inference.values[k] = value
        if scales is not None:
            self.quantization[k] = scales
        if variable.converted:
            y = self._append(Tensor(name, TensorSpec(value.shape, FLOAT32), value.shape))
            self._add(Node("DEQUANTIZE", (k,), (y,), {}, origin))
            k = y
        self.variables[place] = k
        return k

    def _tensor(self, number: int, i: int) -> int:
        """Adds a tensor of a subgraph; returns its index."""
        body = self.model.bodies[number]
        k = self._append(replace(body.graph.tensors[i], formula=number in self.formulas))
        if i in body.quantization:
            self.quantization[k] = body.quantization[i]
        if i in body.sparsity:
            self.sparsity[k] = body.sparsity[i]
        return k

    def _append(self, tensor: Tensor) -> int:
        """Adds a tensor; returns its index."""
        k = len(self.tensors)
        self.tensors.append(self._real(k, tensor))
        return k

    def _drop(self, nodes: int, tensors: int) -> None:
        """Drops all nodes and tensors from these numbers on, and what is known of the tensors."""
        inferred = self.inference.specs, self.inference.values
        stored = self.stored, self.quantization, self.sparsity, self.places
        tables = (*inferred, *stored, self.lists, self.renamed)
        for k in range(tensors, len(self.tensors)):
            for by_tensor in tables:
                by_tensor.pop(k, None)
            self.initial.discard(k)
        del self.nodes[nodes:], self.tensors[tensors:]

    def _real(self, k: int, tensor: Tensor) -> Tensor:
        """Returns tensor `k` as it trains."""
        if not tensor.quantized or tensor.spec.dtype.kind not in "iu":
            return tensor
        self.stored[k] = tensor
        return replace(tensor, spec=TensorSpec(tensor.spec.shape, FLOAT32), quantized=False)
