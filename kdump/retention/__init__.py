"""The verb retention: what a broker will delete, roll and compact, when, and why."""
