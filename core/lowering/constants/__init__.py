"""Finds the constants that do not train, because a converter or an author holds them constant.

Independent of gradients, and of other passes over graphs.
"""
