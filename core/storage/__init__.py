"""Files and memory maps: reading, atomic writing, truncation. Independent of file formats."""
