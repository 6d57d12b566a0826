"""Converts data sets, folders, tables and archives to data files. Independent of training."""
