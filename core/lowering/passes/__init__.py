"""Passes that rewrite a graph to fewer or faster operators. Independent of gradients."""
