"""Where an offset or a time is: what a broker answers, what the data says, and where the two differ."""
