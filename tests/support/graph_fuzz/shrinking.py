"""Makes a case that fails smaller, as long as it fails."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from support.graph_fuzz.cases import Case
from support.graph_fuzz.graphs import SampleGraph
from support.graph_fuzz.reference import Problem


def shrink(case: Case, fails: Callable[[Case], bool], tries: int = 60) -> Case:
    """The smallest case found that fails too."""
    while True:
        for smaller in _smaller(case):
            tries -= 1
            if tries < 0:
                return case
            if fails(smaller):
                case = smaller
                break
        else:
            return case


def _smaller(case: Case) -> Iterator[Case]:
    """Cases with fewer outputs, with fewer nodes, with fewer samples; the smallest first."""
    p = case.problem
    g = p.graph
    found: list[Problem] = []
    if len(g.outputs) > 1:
        found += [_ending_in(p, k) for k in range(len(g.outputs))]
    for node in g.nodes[:-1]:
        found += [_ending_at(p, i) for i in node.outputs if _holds_a_sample(g, i)]
    for node in g.nodes:
        found += [_from(p, i) for i in node.outputs if _holds_a_sample(g, i)]
    for smaller in sorted(found, key=lambda f: len(f.graph.nodes)):
        if 0 < len(smaller.graph.nodes) < len(g.nodes) and smaller.graph.inputs:
            yield replace(case, problem=smaller)
    samples = len(p.inputs[0])
    if samples > 2 * case.file_batch:
        yield replace(case, problem=_of(p, samples - case.file_batch))


def _holds_a_sample(g: SampleGraph, i: int) -> bool:
    a = g.values[i]
    return a.dtype.kind == "f" and a.shape[:1] == (1,) and i not in g.outputs


def _pruned(p: Problem, outputs: Sequence[int], inputs: Sequence[int] = ()) -> SampleGraph:
    """The nodes between these tensors, or the graph's inputs, and these outputs."""
    needed, nodes = set(outputs), []
    for node in reversed(p.graph.nodes):
        if needed.intersection(node.outputs) and not set(node.outputs) <= set(inputs):
            nodes.append(node)
            needed.update(node.inputs)
    chosen = [i for i in (*p.graph.inputs, *inputs) if i in needed]
    constants = {i: a for i, a in p.graph.constants.items() if i in needed}
    return replace(
        p.graph, nodes=nodes[::-1], inputs=chosen, constants=constants, outputs=list(outputs)
    )


def _ending_in(p: Problem, k: int) -> Problem:
    """With one of the outputs."""
    graph = _pruned(p, [p.graph.outputs[k]])
    return replace(
        p,
        graph=graph,
        inputs=_kept(p, graph),
        targets=(p.targets[k],),
        losses=(p.losses[k],),
        loss_weights=(1.0,),
    )


def _ending_at(p: Problem, i: int) -> Problem:
    """With another tensor as the only output."""
    graph = _pruned(p, [i])
    target = _drawn(p, i)
    return replace(
        p,
        graph=graph,
        inputs=_kept(p, graph),
        targets=(target,),
        losses=("mean_squared_error",),
        loss_weights=(1.0,),
    )


def _from(p: Problem, i: int) -> Problem:
    """With a tensor as an input."""
    graph = _pruned(p, p.graph.outputs, [i])
    return replace(p, graph=graph, inputs=_kept(p, graph))


def _of(p: Problem, samples: int) -> Problem:
    targets = tuple(t[:samples] for t in p.targets)
    return replace(p, inputs=tuple(a[:samples] for a in p.inputs), targets=targets)


def _kept(p: Problem, graph: SampleGraph) -> tuple[np.ndarray, ...]:
    """Samples for the inputs of a smaller graph."""
    known = dict(zip(p.graph.inputs, p.inputs, strict=True))
    return tuple(known[i] if i in known else _drawn(p, i) for i in graph.inputs)


def _drawn(p: Problem, i: int) -> np.ndarray:
    rng = np.random.default_rng(i)
    shape = len(p.inputs[0]), *p.graph.values[i].shape[1:]
    return rng.normal(size=shape).astype(np.float32)
