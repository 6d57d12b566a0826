"""Finds the constants that do not train, since a converter or an author holds them constant."""
