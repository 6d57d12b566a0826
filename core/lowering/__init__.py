"""Passes from a file's graph to the graph that is trained, for any batch. Knows no gradient."""
