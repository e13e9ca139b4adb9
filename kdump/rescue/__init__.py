"""What can still be had: clean partitions out of damaged replicas (salvage), batches out of any bytes (carve)."""
