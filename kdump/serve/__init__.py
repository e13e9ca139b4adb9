"""The verb serve: a read-only Kafka endpoint over log files."""
