"""The indexes of a segment: offset, time and transaction index."""
