"""The verbs salvage and carve: what is intact in damaged bytes is handed back.

salvage: `sources` finds the copies, `scanned_log` reads one log, `line` decides which copy counts at which offset,
`epochs` how far, `partition_salvage` puts a partition together, `segments` and `target` write it. carve: `image_search`
finds batches, `runs` joins them, `run_owners` says whose they are, `carve_output` writes them.
"""
