"""LogCleaner: what may be cleaned, which records stay, and the segments that a pass makes."""
