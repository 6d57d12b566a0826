"""Post-training quantization: from a float model and sample data to a model of integers."""
