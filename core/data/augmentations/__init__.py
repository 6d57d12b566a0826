"""Augmentations: random changes of training samples in each epoch. Independent of plans."""
