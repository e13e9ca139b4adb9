"""The model of a Kafka 4.3 broker, as functions over its files: nothing here prints or writes."""
