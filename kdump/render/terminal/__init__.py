"""Sinks for people at a terminal: tables, colours, the progress bar."""
