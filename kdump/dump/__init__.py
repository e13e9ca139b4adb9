"""The verb dump: the contents of a broker's files, as a stream of items."""
