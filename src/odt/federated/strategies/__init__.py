"""Strategies: how a server makes new tensors from the updates of a round."""
