"""Files and memory maps: reading, atomic writing, files that become shorter. Knows no format."""
