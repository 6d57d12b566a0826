"""Lowers a file's graph to the graph that is trained. Independent of gradients."""
