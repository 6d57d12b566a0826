"""Inlines the subgraphs that operators run, so that the graph has no control flow.

- CALL and STABLEHLO_COMPOSITE are replaced by the operators of their subgraph.
- WHILE is unrolled if its condition follows from constants and shapes in each step.
- READ_VARIABLE of a variable that no operator assigns is the constant that CALL_ONCE assigns, and
  trains like any other.
- IF becomes its branch if its condition does so. Otherwise both branches are computed, and
  SELECT_V2 takes the values of one: as both are computed, all their weights train.

Tensors of the file keep their indices. Each tensor of a subgraph gets a new index each time the
subgraph runs; a constant gets one, so that the steps of a loop share their weights.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from odt.core.lowering.infer import infer_node, start_inference
from odt.core.model.graph import ABSENT, Node, Tensor, label
from odt.core.model.reader import Model
from odt.core.model.subgraphs import BRANCHES, CALLS, CONTROL_FLOW, LOOPS
from odt.core.model.variables import HANDLE, INITIALIZE, READ, Variable, handles, keeps_state
from odt.errors import ShapeError
from odt.kernels.opdef import TensorSpec
from odt.kernels.registry import find_operator

MOST_NODES = 20_000  # of the graph, for subgraphs to be inlined
MOST_DEPTH = 16  # of subgraphs that run subgraphs
Within = tuple[int, ...]  # the subgraphs that are running


def inline(model: Model) -> Model:
    """Returns a model whose graph runs no subgraphs; the model itself if it has none.

    An operator whose subgraphs cannot be inlined stays as it is.
    """
    inlined = CONTROL_FLOW if keeps_state(model.graph) else CONTROL_FLOW | {READ}
    if not any(node.op in inlined for node in model.graph.nodes):
        return model
    return _Inliner(model).inline()


class _KeptError(Exception):
    """Raised if an operator must stay as it is."""


class _Inliner:
    """Builds the graph without subgraphs, and infers its shapes and constants node by node.

    Attributes:
        tensors, nodes, quantization, sparsity: of the new graph.
        places: tensor → subgraph and number there, for tensors of subgraphs.
        constants: the inverse of `places`, for constants.
        read: output of READ_VARIABLE → name and initial value of its variable, if constant.
        renamed: output of an operator that was inlined → the tensor with its value.
    """

    def __init__(self, model: Model) -> None:
        self.model, self.graph = model, model.graph
        self.tensors, self.nodes = list(model.graph.tensors), list[Node]()
        self.quantization = dict(model.quantization)
        self.sparsity = dict(model.sparsity)
        self.places = dict(model.places)
        self.constants: dict[tuple[int, int], int] = {}
        self.renamed: dict[int, int] = {}
        self.inference = start_inference(model.graph, 1, 1)
        self.read = _constant_variables(model)

    def label(self, index: int) -> str:
        return label(self.tensors, index)

    def inline(self) -> Model:
        for node in self.graph.nodes:
            inputs = tuple(self.renamed.get(i, i) for i in node.inputs)
            moved = replace(node, inputs=inputs)
            if self.read and node.op in (HANDLE, INITIALIZE, READ):
                for y in node.outputs:
                    if y in self.read:
                        self.renamed[y] = self._variable(*self.read[y])
                continue
            if node.op not in CONTROL_FLOW:
                self._add(moved)
                continue
            nodes, tensors, constants = len(self.nodes), len(self.tensors), dict(self.constants)
            try:
                made = self._expand(moved, ())
            except _KeptError:
                del self.nodes[nodes:], self.tensors[tensors:]
                self.constants = constants
                self._add(moved)
                continue
            self._keep_indices(node.outputs, made, nodes)
        graph = replace(
            self.graph,
            tensors=tuple(self.tensors),
            nodes=tuple(self.nodes),
            outputs=tuple(self.renamed.get(i, i) for i in self.graph.outputs),
        )
        return replace(
            self.model,
            graph=graph,
            quantization=self.quantization,
            sparsity=self.sparsity,
            places=self.places,
        )

    def _keep_indices(self, outputs: Sequence[int], made: Sequence[int], start: int) -> None:
        """Gives tensors that nodes from `start` on make the indices of an operator's outputs."""
        own = {i for node in self.nodes[start:] for i in node.outputs}
        indices: dict[int, int] = {}
        for y, i in zip(outputs, made, strict=True):
            if i in own and i not in indices:
                indices[i] = y
                if i in self.inference.specs:
                    self.inference.specs[y] = self.inference.specs[i]
                if i in self.inference.values:
                    self.inference.values[y] = self.inference.values[i]
            else:
                self.renamed[y] = indices.get(i, i)
        for k in range(start, len(self.nodes)):
            node = self.nodes[k]
            self.nodes[k] = replace(
                node,
                inputs=tuple(indices.get(i, i) for i in node.inputs),
                outputs=tuple(indices.get(i, i) for i in node.outputs),
            )

    def _add(self, node: Node) -> None:
        """Adds a node; infers its outputs if those of its inputs are known."""
        self.nodes.append(node)
        row = find_operator(node.op)
        known = all(i == ABSENT or i in self.inference.specs for i in node.inputs)
        if row is not None and known:
            with suppress(ShapeError):
                infer_node(self, node, row, self.inference, None)

    def _expand(self, node: Node, within: Within) -> list[int]:
        """Adds the nodes of an operator's subgraphs; returns the tensors with its outputs."""
        if len(within) > MOST_DEPTH or ABSENT in node.inputs:
            raise _KeptError
        if node.op in CALLS:
            made = self._run(node, int(node.options[CALLS[node.op]]), node.inputs, within)
        elif node.op in LOOPS:
            made = self._unroll(node, within)
        else:
            made = self._choose(node, within)
        if len(made) != len(node.outputs):
            raise _KeptError
        return made

    def _unroll(self, node: Node, within: Within) -> list[int]:
        condition, body = (int(node.options[name]) for name in LOOPS[node.op])
        state = list(node.inputs)
        while self._known(*self._run(node, condition, state, within)):
            before = len(self.nodes)
            state = self._run(node, body, state, within)
            if len(self.nodes) == before:  # nothing can change any more
                raise _KeptError
        return state

    def _known(self, *conditions: int) -> bool:
        if len(conditions) != 1 or conditions[0] not in self.inference.values:
            raise _KeptError
        return bool(self.inference.values[conditions[0]].any())

    def _choose(self, node: Node, within: Within) -> list[int]:
        condition, *inputs = node.inputs
        numbers = [int(node.options[name]) for name in BRANCHES[node.op]]
        if condition in self.inference.values:
            chosen = numbers[0] if self._known(condition) else numbers[1]
            return self._run(node, chosen, inputs, within)
        pairs = zip(*(self._run(node, k, inputs, within) for k in numbers), strict=False)
        return [self._select(node, condition, a, b) for a, b in pairs]

    def _select(self, node: Node, condition: int, a: int, b: int) -> int:
        """Adds the choice between the values of both branches."""
        specs = self.inference.specs
        if a not in specs or specs.get(a) != specs.get(b):
            raise _KeptError
        self.tensors.append(replace(self.tensors[a], data=None, buffer=0))
        y = len(self.tensors) - 1
        self._add(Node("SELECT_V2", (condition, a, b), (y,), {}, node.origin))
        return y

    def _run(self, caller: Node, number: int, inputs: Sequence[int], within: Within) -> list[int]:
        """Adds the nodes of a subgraph; returns the tensors with its outputs."""
        body = self.model.bodies.get(number)
        if body is None or number in within or len(inputs) != len(body.graph.inputs):
            raise _KeptError
        within = (*within, number)
        bound = dict(zip(body.graph.inputs, inputs, strict=True))

        def find(i: int) -> int:
            if i != ABSENT and i not in bound:
                bound[i] = self._constant(number, i)
            return bound.get(i, ABSENT)

        for node in body.graph.nodes:
            moved = replace(node, inputs=tuple(map(find, node.inputs)), origin=caller.origin)
            if node.op in CONTROL_FLOW:
                bound.update(zip(node.outputs, self._expand(moved, within), strict=True))
                continue
            for i in node.outputs:
                bound[i] = self._tensor(number, i)
            self._add(replace(moved, outputs=tuple(bound[i] for i in node.outputs)))
            if len(self.nodes) > MOST_NODES:
                raise _KeptError
        return [find(i) for i in body.graph.outputs]

    def _constant(self, number: int, i: int) -> int:
        tensor = self.model.bodies[number].graph.tensors[i]
        if tensor.data is None:  # a variable
            raise _KeptError
        if (number, i) not in self.constants:
            k = self.constants[number, i] = self._tensor(number, i)
            self.places[k] = number, i
            self.inference.specs[k], self.inference.values[k] = tensor.spec, tensor.data
        return self.constants[number, i]

    def _variable(self, name: str, variable: Variable) -> int:
        """Returns the constant with a variable's initial value."""
        place, value = (variable.subgraph, variable.tensor), variable.value
        assert value is not None
        if place not in self.constants:
            spec = TensorSpec(value.shape, value.dtype)
            self.tensors.append(Tensor(name, spec, value.shape, value, variable.buffer))
            k = self.constants[place] = len(self.tensors) - 1
            self.places[k] = place
            self.inference.specs[k], self.inference.values[k] = spec, value
        return self.constants[place]

    def _tensor(self, number: int, i: int) -> int:
        body = self.model.bodies[number]
        self.tensors.append(body.graph.tensors[i])
        k = len(self.tensors) - 1
        inferred = self.inference.specs, self.inference.values
        for known in (*inferred, self.quantization, self.sparsity, self.places):
            known.pop(k, None)  # of a tensor with this number that was dropped
        if i in body.quantization:
            self.quantization[k] = body.quantization[i]
        if i in body.sparsity:
            self.sparsity[k] = body.sparsity[i]
        return k


def _constant_variables(model: Model) -> dict[int, tuple[str, Variable]]:
    """Returns output of READ_VARIABLE → name and initial value of its variable.

    Empty if an operator assigns a variable, or an initial value is unknown or that of several, so
    that it cannot train.
    """
    nodes = model.graph.nodes
    if keeps_state(model.graph):
        return {}
    keys = handles(nodes)
    used = {keys.get(node.inputs[0]) for node in nodes if node.op == READ and node.inputs}
    values = [model.variables.get(key) for key in used if key is not None]
    places = {(v.subgraph, v.tensor) for v in values if v is not None and v.value is not None}
    if None in used or len(places) != len(used):
        return {}
    read = [(node.outputs[0], keys[node.inputs[0]]) for node in nodes if node.op == READ]
    return {y: (key[1], model.variables[key]) for y, key in read}
