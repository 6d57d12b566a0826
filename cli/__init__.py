"""The commands: Click, and nothing that computes."""
