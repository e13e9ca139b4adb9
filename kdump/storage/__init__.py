"""Paths to log directories, partitions and segments; sources of bytes; and the only module that writes."""
