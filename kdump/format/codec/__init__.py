"""Codecs of records sections: gzip, snappy, lz4, zstd, and what is decoded of a damaged stream."""
