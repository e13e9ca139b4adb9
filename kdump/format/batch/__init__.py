"""Record batches: the numbers of the format, the scan of headers, the checked walk and its findings."""
