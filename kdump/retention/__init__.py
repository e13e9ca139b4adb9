"""The verb retention: which segments a broker will delete, roll and compact, when, and why."""
