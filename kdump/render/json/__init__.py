"""Sinks that write JSON: one object a line."""
