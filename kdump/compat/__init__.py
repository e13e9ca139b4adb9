"""DumpLogSegments itself: its walk, its reading of indexes, its releases, and Java's streams below it."""
