"""Options that more than one command has, or that a command has many of."""
