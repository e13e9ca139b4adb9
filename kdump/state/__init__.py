"""The verbs groups and transactions: what internal topics come to, at the end or at a time."""
