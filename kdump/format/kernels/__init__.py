"""What all kernels share, once: reads of big-endian numbers and varints, and appending of bytes and numbers."""
