"""Tables of ONNX Runtime's training checkpoints, version 2, as far as odt reads and writes them.

Source: checkpoint.fbs and ort.fbs of onnxruntime 1.19.2. The form of the tables is that of
circle.py; the names of the tables begin with Ort, because circle.py has a table Tensor, too.
"""

IDENTIFIER = b"ODTC"
VERSION = 2

TABLES = {
    "OrtCheckpoint": (
        "version:i module_state:OrtModuleState optimizer_groups:[OrtOptimizerGroup]"
        " property_bag:OrtPropertyBag"
    ),
    "OrtModuleState": (
        "requires_grad_params:[OrtTensor] frozen_params:[OrtTensor] is_nominal_state:?"
        " has_external_data:?"
    ),
    "OrtTensor": "name:str -:str dims:[q] data_type:i raw_data:[B]",
    "OrtOptimizerGroup": (
        "group_name:str step:q initial_learning_rate:f optimizer_states:[OrtParameterState]"
    ),
    "OrtParameterState": "param_name:str momentums:[OrtTensor]",
    "OrtPropertyBag": "ints:[OrtInt] floats:[OrtFloat] strings:[OrtString]",
    "OrtInt": "name:str value:q",
    "OrtFloat": "name:str value:f",
    "OrtString": "name:str value:str",
}
