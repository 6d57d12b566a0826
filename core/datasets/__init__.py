"""Published data sets, folders, tables and archives into data files. Knows no gradient."""
