"""Figures of trained models: classification reports and comparisons."""
