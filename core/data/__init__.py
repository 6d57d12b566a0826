"""Data files and samples: raw, .npy, .npz and HDF5 columns, splits and orders. Knows no plan."""
