"""What verify finds as one HTML page, for those who were not there: see `verify` and `page`."""
