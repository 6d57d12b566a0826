"""Streaming models: the state that they keep in variables becomes activations of a sequence."""
