"""Interfaces of other programs, over odt."""
