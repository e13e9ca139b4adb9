"""The verb find: a broker's answer for an offset or a time, the answer of the data, and where they differ."""
