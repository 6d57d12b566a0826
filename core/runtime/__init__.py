"""Binds plans to memory and runs them on workers. Independent of files."""
