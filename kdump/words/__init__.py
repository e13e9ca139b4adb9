"""What sentences are made of: below all that says something."""
