"""What a broker of Kafka 4.3 does with files, as functions over them: nothing here prints, writes or guesses."""
