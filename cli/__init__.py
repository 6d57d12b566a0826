"""The command line, built with Click. Commands parse options, call the Python API and print."""
