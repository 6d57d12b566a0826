"""Formats of sources; each module ends in `FORMATS`. Independent of preprocessing."""
