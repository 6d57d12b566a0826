"""The messages of ONNX: number → field, without those that odt does not read.

Source: onnx.proto of ONNX 1.23 (IR version 14).
"""

from odt.core.formats.protobuf import Field, Table

ENTRY: Table = {1: Field("key", "text"), 2: Field("value", "text")}
TENSOR: Table = {
    1: Field("dims", "int", many=True),
    2: Field("data_type", "int"),
    3: Field("segment", "bytes"),
    4: Field("float_data", "float", many=True),
    5: Field("int32_data", "int", many=True),
    6: Field("string_data", "bytes", many=True),
    7: Field("int64_data", "int", many=True),
    8: Field("name", "text"),
    9: Field("raw_data", "bytes"),
    10: Field("double_data", "double", many=True),
    11: Field("uint64_data", "int", many=True),
    13: Field("external_data", ENTRY, many=True),
    14: Field("data_location", "int"),
}
ATTRIBUTE: Table = {
    1: Field("name", "text"),
    2: Field("f", "float"),
    3: Field("i", "int"),
    4: Field("s", "bytes"),
    5: Field("t", TENSOR),
    6: Field("g", "bytes"),
    7: Field("floats", "float", many=True),
    8: Field("ints", "int", many=True),
    9: Field("strings", "bytes", many=True),
    10: Field("tensors", "bytes", many=True),
    11: Field("graphs", "bytes", many=True),
    20: Field("type", "int"),
    22: Field("sparse_tensor", "bytes"),
}
NODE: Table = {
    1: Field("input", "text", many=True),
    2: Field("output", "text", many=True),
    3: Field("name", "text"),
    4: Field("op_type", "text"),
    5: Field("attribute", ATTRIBUTE, many=True),
    7: Field("domain", "text"),
}
DIMENSION: Table = {1: Field("dim_value", "int"), 2: Field("dim_param", "text")}
SHAPE: Table = {1: Field("dim", DIMENSION, many=True)}
TENSOR_TYPE: Table = {1: Field("elem_type", "int"), 2: Field("shape", SHAPE)}
TYPE: Table = {
    1: Field("tensor_type", TENSOR_TYPE),
    4: Field("sequence_type", "bytes"),
    5: Field("map_type", "bytes"),
    8: Field("sparse_tensor_type", "bytes"),
    9: Field("optional_type", "bytes"),
}
VALUE: Table = {1: Field("name", "text"), 2: Field("type", TYPE)}
GRAPH: Table = {
    1: Field("node", NODE, many=True),
    2: Field("name", "text"),
    5: Field("initializer", TENSOR, many=True),
    11: Field("input", VALUE, many=True),
    12: Field("output", VALUE, many=True),
    15: Field("sparse_initializer", "bytes", many=True),
}
OPSET: Table = {1: Field("domain", "text"), 2: Field("version", "int")}
MODEL: Table = {
    1: Field("ir_version", "int"),
    2: Field("producer_name", "text"),
    3: Field("producer_version", "text"),
    7: Field("graph", GRAPH),
    8: Field("opset_import", OPSET, many=True),
}
