"""From data sets as people have them to the files that training reads."""
