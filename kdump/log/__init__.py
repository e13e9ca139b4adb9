"""Paths to segments: names, files and directories of a broker's disk."""
