"""Options of the commands, and the Click types of their values."""
