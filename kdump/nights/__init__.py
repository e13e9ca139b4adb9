"""Nights: what is known of files since the last run, and which files of tables are the present state.

A night asks two things. Which segments are as they were (`known.py`), and which files of the store have the rows of
what is there (`present.py`). verify, export and Spark ask both here.
"""
