"""The verbs groups, transactions and cluster: what internal topics come to, at the end or at a time.

`copies` says which copy of a partition is folded, `partition_log` reads it up to a time; a coordinator or an image
holds the state; `groups`, `transactions` (which of them hang) and `cluster` make the rows.
"""
