"""Sinks that write plain text: Kafka's layout, and one fact a line."""
