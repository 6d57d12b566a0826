"""Plans bound to memory and run by workers. Knows no file."""
