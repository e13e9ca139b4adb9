"""What all kernels share."""
