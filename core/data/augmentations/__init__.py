"""Augmentations: random changes of training samples, different in each epoch."""
