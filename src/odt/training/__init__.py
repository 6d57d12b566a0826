"""Training: the trainer, its loop, callbacks, state and forecasts."""
