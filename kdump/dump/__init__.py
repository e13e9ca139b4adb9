"""The verb dump: what is in a file of a broker, as a stream of items. `checked` is ours, `kafka` mirrors the tool."""
