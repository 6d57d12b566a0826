"""What commands print and where they write: reports, progress, warnings, signals, output paths."""
