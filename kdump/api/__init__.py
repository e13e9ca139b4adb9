"""The library behind `import kdump`: logs, their records, and the answers of verify and find as values."""
