"""ONNX files: bytes become a model with the nodes of the file. Independent of lowering."""
