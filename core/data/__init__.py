"""Data files and samples: columns of arrays, splits, sample orders. Independent of plans."""
