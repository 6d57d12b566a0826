"""What training takes, and how it is made to take less."""
