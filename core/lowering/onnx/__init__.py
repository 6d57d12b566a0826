"""Makes operators that odt trains of the nodes of an ONNX file. Independent of its bytes.

Each module has the kinds of one family, one function for each; lower.py joins their tables. A
function takes a node as a `Use`, adds operators to its builder, and returns the tensor with the
node's output, or the tensors with its first outputs. It raises ShapeError for a form of the node
that odt does not compute; the message is the reason that users read.
"""
