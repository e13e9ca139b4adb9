"""Options that several commands share, or that belong together."""
