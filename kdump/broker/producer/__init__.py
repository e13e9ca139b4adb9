"""ProducerStateManager: producers and transactions, replayed as a broker does it."""
