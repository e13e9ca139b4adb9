"""Bytes to values: the formats of every file that a broker writes. Sees a Source, never a path."""
