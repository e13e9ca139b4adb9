"""LogManager and LogLoader: how a broker loads a log directory at start."""
