"""LogManager and LogLoader: what a broker does with a log directory when it starts."""
