"""Augmentations: random changes of training samples, made anew in each epoch."""
