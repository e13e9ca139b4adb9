"""The verb du: what uses the space, by topic, partition, kind of file, codec, producer, day, group or key."""
