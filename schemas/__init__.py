"""FlatBuffers schemas: the Circle schema as generated tables, and the one of training info."""
