"""One module for each command; the folder is the list of commands."""
