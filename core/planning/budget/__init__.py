"""Forecasts of memory, and the fastest way to train within a budget."""
