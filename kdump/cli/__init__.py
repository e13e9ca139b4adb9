"""The command line: one file for each subcommand, no logic. Parse, call, render, exit."""
