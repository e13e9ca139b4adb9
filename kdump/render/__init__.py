"""Values to text: Kafka's layouts. Knows types only; reads no file and decides nothing."""
