"""Helpers that several tests use; contains no tests."""
