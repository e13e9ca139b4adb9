"""The small files of a broker: checkpoints, properties, JSON files, producer snapshots."""
