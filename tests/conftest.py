"""Tests are sentences; helpers over fixtures; numbers say where they come from."""
