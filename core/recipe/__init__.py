"""Resolves a training run: losses, optimizer, trainable weights. Independent of the runtime."""
