"""Salvage, patch-header and carve against a truth that is known: a model of a cluster, damage, and brute force.

    python -m tests.support.rescue_truth --salvages 3000 --patch-headers 800 --carves 300 --seed 0 --jobs 2

Each run has a number, which decides everything: one partition with one to three replicas lives through appends,
fetches, elections, truncations, passes of the cleaner and deletions; what its brokers leave on their disks is damaged;
kdump works on that; and what comes of it is held against what was there. Nothing of kdump says what is right.

| module | what |
|-|-|
| `batches` | batches of magic 0 to 2 to bytes, and bytes to batches |
| `cluster` | the model: replicas, leaders, followers, and which batch follows which |
| `disks` | what a broker leaves of a replica, and each damaged byte beside the true one |
| `damage` | one way to damage a copy each |
| `cases` | a case by its number |
| `truth` | what was at each offset, and what is left of it: branches, fates, losses, witnesses |
| `verdicts` | the laws that a result of salvage keeps |
| `runs` | salvage, patch-header and carve, each held against its laws |
| `excuses` | what nobody can know, each kind with its reason |
| `show` | a case as lines for a person |
| `known` | kinds that do not hold yet |
"""
