"""Rewrites a file so that sparse constants are stored as dense ones, which need no DENSIFY."""

from typing import Any

from odt.core.export.model_tables import buffer_entry, model_tables, rewritten
from odt.core.formats.flatbuffer.operator_versions import builtin_code
from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.core.model.model import Model

DENSIFY = code_of("BuiltinOperator", "DENSIFY")


def with_dense_constants(model: Model) -> Model:
    """Returns a model whose sparse constants are dense; tensors keep their numbers.

    Raises:
        UnsupportedError: if the file would be too large.
    """
    tables = model_tables(model)
    dense: dict[int, set[int]] = {}
    for i, sparsity in model.sparsity.items():
        number, k = model.place(i)
        stored, entry = model.graph.tensors[i], tables["subgraphs"][number]["tensors"][k]
        assert stored.data is not None, "sparse tensors are constants"
        del entry["sparsity"]
        entry["buffer"] = len(tables["buffers"])
        tables["buffers"].append(buffer_entry(sparsity.dense(stored.data, stored.spec.shape)))
        dense.setdefault(number, set()).add(k)
    for number, constants in dense.items():
        _read_directly(tables, number, constants)
    return rewritten(model, tables)


def _read_directly(tables: dict[str, Any], number: int, constants: set[int]) -> None:
    """Removes each DENSIFY of these constants; operators then read the constants themselves.

    Args:
        tables: table Model of the schema, which is changed.
        number: number of the subgraph.
        constants: constants of the subgraph.
    """
    graph, codes = tables["subgraphs"][number], tables["operator_codes"]
    sources: dict[int, int] = {}
    for operator in graph["operators"]:
        code = codes[operator.get("opcode_index", 0)]
        inputs = [int(i) for i in operator.get("inputs", ())]
        if builtin_code(code) == DENSIFY and constants.issuperset(inputs):
            sources[int(operator["outputs"][0])] = inputs[0]
    graph["operators"] = [
        operator
        for operator in graph["operators"]
        if sources.keys().isdisjoint(map(int, operator.get("outputs", ())))
    ]
    for operator in graph["operators"]:
        operator["inputs"] = [sources.get(int(i), int(i)) for i in operator.get("inputs", ())]
    graph["outputs"] = [sources.get(int(i), int(i)) for i in graph.get("outputs", ())]
    for signature in tables.get("signature_defs", ()):
        if signature.get("subgraph_index", 0) == number:
            for output in signature.get("outputs", ()):
                i = output.get("tensor_index", 0)
                output["tensor_index"] = sources.get(i, i)
