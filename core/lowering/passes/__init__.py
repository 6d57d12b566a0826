"""Passes that rewrite a lowered graph to one of fewer or faster operators."""
