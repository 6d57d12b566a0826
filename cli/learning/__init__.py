"""`odt learn`: the commands that make a model of photos, sounds or a table, and their options."""
