"""The verb verify: what is wrong for a reader or a broker, where, and since which offset."""
