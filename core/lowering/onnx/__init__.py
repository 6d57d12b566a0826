"""Makes operators that odt trains of the nodes of an ONNX file. Independent of its bytes.

Each module has the kinds of one family, one function for each; lower.py joins their tables.
"""
