"""Codecs of records sections: gzip, snappy, lz4 and zstd, also of damaged streams."""
