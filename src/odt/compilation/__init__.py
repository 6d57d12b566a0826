"""Training as a C program."""
