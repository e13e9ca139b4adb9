"""The report for people: tables, blocks and sentences, on a terminal and in a pipe."""
