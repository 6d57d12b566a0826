"""Output of commands: reports, progress, warnings, signals, checks of output paths."""
