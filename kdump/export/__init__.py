"""The verb export: the tables that a log directory is, in columns, and their files."""
