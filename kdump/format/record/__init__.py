"""Records of batches: from the bytes of a window to columns, and the findings of reading them."""
