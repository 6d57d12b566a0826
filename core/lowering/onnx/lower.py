"""Lowers the nodes of an ONNX file to operators that odt trains.

A node that odt cannot compute stays as it is, with the reason; so do the nodes that need its
result, whose shapes are then unknown. LoweredGraphs reports all of them at once.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from odt.core.lowering.onnx import (
    arithmetic,
    attention,
    indices,
    norms,
    pools,
    products,
    recurrent,
    reductions,
    resize,
    shapes,
    transposed,
    windows,
)
from odt.core.lowering.onnx.builder import Builder, Use
from odt.core.lowering.onnx.signatures import SIGNATURES
from odt.core.model.graph import ABSENT, Body, Node
from odt.core.model.model import ONNX, Model
from odt.core.model.onnx import PREFIX, OnnxNode, kind_of
from odt.errors import ShapeError

Lowering: TypeAlias = Callable[[Use], int | Sequence[int]]
MAX_NODES = 100_000  # of the lowered graph

KINDS: Mapping[str, Lowering] = {
    **arithmetic.KINDS,
    **attention.KINDS,
    **indices.KINDS,
    **norms.KINDS,
    **pools.KINDS,
    **products.KINDS,
    **recurrent.KINDS,
    **reductions.KINDS,
    **resize.KINDS,
    **shapes.KINDS,
    **transposed.KINDS,
    **windows.KINDS,
}


def lower_onnx(model: Model) -> Model:
    """Returns the model of an ONNX file with operators of odt; other models as they are."""
    if model.format != ONNX:
        return model
    builder = Builder(model)
    for node in model.graph.nodes:
        _lower(builder, node)
    graph = model.graph
    outputs = tuple(builder.renamed.get(i, i) for i in graph.outputs)
    nodes = tuple(n for n in builder.nodes if builder.absorbed.isdisjoint(n.outputs))
    kinds = {node.origin: node.op.removeprefix(PREFIX) for node in graph.nodes}
    tensors = tuple(builder.tensors)
    lowered = replace(graph, tensors=tensors, nodes=nodes, outputs=outputs, kinds=kinds)
    return replace(model, graph=lowered)


def _lower(builder: Builder, node: Node) -> None:
    """Adds the operators of a node of the file, or the node itself."""
    source: OnnxNode = node.options["onnx"]
    lowering = LOWERINGS.get(node.op.removeprefix(PREFIX))
    builder.origin = node.origin
    refusal, read = "", node.inputs
    waits = any(i != ABSENT and not builder.is_known(i) for i in node.inputs)
    if lowering is not None and not waits:
        nodes, tensors = len(builder.nodes), len(builder.tensors)
        try:
            _check_signature(node, source)
            results = lowering(Use(builder, node, source))
            results = [results] if isinstance(results, int) else [*results]
            if len(builder.nodes) > MAX_NODES:
                raise ShapeError(f"a graph must have at most {MAX_NODES} nodes, but got more")
            _check_unread(builder, node, len(results))
            builder.name(results, node.outputs, nodes)
            return
        except ShapeError as e:
            builder.drop(nodes, tensors)
            refusal = str(e)
        except IndexError:  # what it reads has fewer axes, or holds fewer numbers
            builder.drop(nodes, tensors)
            shapes = ", ".join(
                str(builder.spec(builder.renamed.get(i, i))) for i in node.inputs if i != ABSENT
            )
            refusal = f"its inputs must have the axes that it reads, but got {shapes:.200}"
        except _UnknownError as e:
            waits, read = True, (*read, *e.results)
    inputs = tuple(i if i == ABSENT else builder.renamed.get(i, i) for i in read)
    unlowered = replace(source, refusal=refusal, waits=lowering is not None and waits)
    builder.nodes.append(replace(node, inputs=inputs, options={"onnx": unlowered}))


class _UnknownError(Exception):
    """Raised if a branch has results that odt cannot compute; its nodes say why.

    Args:
        results: the results of the branch.
    """

    def __init__(self, results: Sequence[int]) -> None:
        self.results = results


def conditional(u: Use) -> list[int]:
    """Adds a branch, or both if the condition is data: SELECT_V2 then takes the values of one."""
    value = u.b.value(u.input(0))
    names = ("then_branch", "else_branch")
    bodies = [body for n in names if isinstance(body := u.source.attributes.get(n), Body)]
    if len(bodies) != 2 or len({len(body.outputs) for body in bodies}) != 1:
        raise ShapeError("must have two branches with as many results, but got others")
    if u.dtype(0).kind != "b" or math.prod(u.shape(0)) != 1:
        raise ShapeError(f"the condition must be one truth value, but got {u.b.spec(u.raw(0))}")
    if value is not None:
        return _branch(u.b, bodies[0 if value.item() else 1])
    pairs = [*zip(*(_branch(u.b, body) for body in bodies), strict=True)]
    for a, b in pairs:
        if u.b.spec(a) != u.b.spec(b):
            raise ShapeError(
                "branches must have results of one shape if the condition is data, but got "
                f"{u.b.spec(a)} and {u.b.spec(b)}"
            )
    results = []
    for a, b in pairs:
        condition = u.b.reshape(u.input(0), (1,) * len(u.b.shape(a)))
        results.append(u.b.add("SELECT_V2", (condition, a, b)))
    return results


def _branch(builder: Builder, body: Body) -> list[int]:
    """Adds the nodes of a branch; returns its results."""
    for node in body.nodes:
        _lower(builder, node)
    if not all(map(builder.is_known, body.outputs)):
        raise _UnknownError(body.outputs)
    return [builder.plain(i) for i in body.outputs]


LOWERINGS: Mapping[str, Lowering] = {**KINDS, "If": conditional}


def _check_signature(node: Node, source: OnnxNode) -> None:
    """Checks that a node has only inputs and attributes that its kind may have."""
    most, names = SIGNATURES[kind_of(source.kind, source.domain)]
    unknown = sorted(source.attributes.keys() - names.split())
    if unknown:
        raise ShapeError(
            f"attributes must be some of {', '.join(names.split()) or 'none'}, "
            f"but got {', '.join(unknown):.80}"
        )
    if len(node.inputs) > most:
        raise ShapeError(f"must have at most {most} inputs, but got {len(node.inputs)}")


def _check_unread(builder: Builder, node: Node, count: int) -> None:
    """Checks that nothing reads outputs that odt does not compute."""
    for k, y in enumerate(node.outputs[count:], count):
        if builder.reads[y]:
            raise ShapeError(f"its output {k} must not be read, but {builder.label(y)} is")
