"""Artifacts folders, from which devices train."""
