"""Models with several subgraphs."""

from collections.abc import Callable

import numpy as np
from flatbuffers import flexbuffers
from model_builder import ModelBuilder, table

from odt.core.formats.flatbuffer.schema_tables import code_of

WIDTH = 4


class Subgraphs(ModelBuilder):
    """Builds a model with several subgraphs."""

    def subgraph(self, make: Callable[[], tuple[int, ...]]) -> int:
        """Adds a subgraph, which `make` builds, returning its outputs; returns its number."""
        main = self.graph
        self.graph = table("SubGraph", name="", tensors=[], operators=[], inputs=[], outputs=[])
        self.model.subgraphs.append(self.graph)
        number = len(self.model.subgraphs) - 1
        self.graph.outputs = list(make())
        self.graph = main
        return number

    def composite(self, x: int, subgraph: int, name: str = "odt.layer") -> int:
        """Adds a STABLEHLO_COMPOSITE, whose options are in the union BuiltinOptions2."""
        y = self.add_operator("STABLEHLO_COMPOSITE", (x,), (1, WIDTH))
        operator = self.graph.operators[-1]
        options = "StableHLOCompositeOptions"
        operator.builtin_options2_type = code_of("BuiltinOptions2", options)
        operator.builtin_options2 = table(
            options,
            name=name,
            decomposition_subgraph_index=subgraph,
            composite_attributes=np.frombuffer(flexbuffers.Dumps({}), np.uint8),
        )
        return y

    def step(self) -> tuple[int, ...]:
        """Adds an input and a layer to the current subgraph; returns its output."""
        x = self.add_input((1, WIDTH))
        return (self.add_operator("TANH", (self.add_dense(x, WIDTH),), (1, WIDTH)),)

    def loop(self, x: int, steps: int, below: str = "LESS") -> int:
        """Adds a loop that applies a layer `steps` times."""

        def condition() -> tuple[int, ...]:
            k = self.add_input((), "int32")
            self.add_input((1, WIDTH))
            limit = self.add_constant(np.array(steps, np.int32))
            return (self.add_operator(below, (k, limit), (), dtype="bool"),)

        def body() -> tuple[int, ...]:
            k, h = self.add_input((), "int32"), self.add_input((1, WIDTH))
            one = self.add_constant(np.array(1, np.int32))
            h = self.add_operator("TANH", (self.add_dense(h, WIDTH),), (1, WIDTH))
            return self.add_operator("ADD", (k, one), (), dtype="int32"), h

        numbers = self.subgraph(condition), self.subgraph(body)
        start = self.add_constant(np.array(0, np.int32))
        self.add_operator(
            "WHILE",
            (start, x),
            (),
            (1, WIDTH),
            dtype="int32",
            cond_subgraph_index=numbers[0],
            body_subgraph_index=numbers[1],
        )
        self.graph.tensors[-1].type = code_of("TensorType", "FLOAT32")
        return len(self.graph.tensors) - 1

    def choice(self, condition: int, x: int) -> int:
        """Adds an IF between two layers."""
        numbers = self.subgraph(self.step), self.subgraph(self.step)
        return self.add_operator(
            "IF",
            (condition, x),
            (1, WIDTH),
            then_subgraph_index=numbers[0],
            else_subgraph_index=numbers[1],
        )
