"""LogCleaner: which part of a log is cleanable, which records are retained, and the segments of a pass."""
