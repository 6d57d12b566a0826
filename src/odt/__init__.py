"""Trains the Circle or TFLite model file that is already shipped, on the device it runs on."""

__version__ = "0.1.0"
