"""The verb export: the tables of a log directory, in columns, and their files."""
