"""Streaming models: the state that they keep in variables becomes activations of a sequence.

Independent of gradients, and of the rewrites of other graphs.
"""
