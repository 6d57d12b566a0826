"""TFLite and Circle files: their tables, reading and editing. Independent of training."""
