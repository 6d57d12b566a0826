"""FlatBuffers schemas that are published nowhere, and the code generated from them."""
