"""kdump: shows, checks and repairs the files that Apache Kafka brokers write."""

__version__ = "0.1.0"
