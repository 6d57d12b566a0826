"""Options of commands, and Click types of their values."""
