"""A cluster as what makes it again: commands of Kafka's own tools, or resources of Strimzi."""
