"""A training step as a C program. Independent of model formats and of the loop over batches."""
