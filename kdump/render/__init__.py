"""Values to text: sinks in Kafka's layouts. They know types only, read no file and decide nothing."""
