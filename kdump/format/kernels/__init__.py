"""The parts that all kernels share: big-endian reads, varints, and appending of bytes and numbers."""
