"""Offsets that readers do not get: which they are, and whether they are lost. One home for all verbs.

| module | question |
|-|-|
| `ranges` | what is missing: one type for it |
| `damage` | which offsets damaged bytes had |
| `index_proofs` | what the indexes of a log know of batches that are not in it |
| `judge` | whether a hole is lost, absent or unexplained |
| `losses` | what of it is told, each offset once |
| `lost_holes` | all of that for one partition, in one walk over its headers: for dump, lookups, groups |
| `findings` | the findings about holes |
"""
