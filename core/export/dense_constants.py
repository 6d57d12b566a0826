"""Rewrites a file so that sparse constants are stored as dense ones, which need no DENSIFY."""

from odt.core.export.kept_tables import buffer_entry, model_tables, packed_model
from odt.core.model.reader import Model, parse_model


def with_dense_constants(model: Model) -> Model:
    """Returns a model whose sparse constants are dense; tensors keep their numbers."""
    tables = model_tables(model)
    graph = tables["subgraphs"][0]
    for i, sparsity in model.sparsity.items():
        stored, entry = model.graph.tensors[i], graph["tensors"][i]
        assert stored.data is not None
        del entry["sparsity"]
        entry["buffer"] = len(tables["buffers"])
        tables["buffers"].append(buffer_entry(sparsity.dense(stored.data, stored.spec.shape)))
    made = {
        n.outputs[0]: n.inputs[0]
        for n in model.graph.nodes
        if n.op == "DENSIFY" and n.inputs[0] in model.sparsity
    }
    kept = [o for o in graph["operators"] if int(o["outputs"][0]) not in made]
    for operator in kept:
        operator["inputs"] = [made.get(int(i), int(i)) for i in operator.get("inputs", ())]
    graph["operators"] = kept
    return parse_model(memoryview(packed_model(model, tables)), model.path)
