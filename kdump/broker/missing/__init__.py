"""Offsets that readers do not get: which they are, and whether they are lost. One home for all verbs.

| module | question |
|-|-|
| `ranges` | what is missing: one type for it |
| `damage` | which offsets damaged bytes had |
| `index_proofs` | what the indexes of a log know of batches that are not in it |
| `judge` | whether a hole is lost, absent or unexplained |
| `losses` | what of it is told, each offset once |
| `lost_holes` | which holes with batches behind them are lost, in one walk over headers: for dump, lookups, groups |
| `findings` | the findings about holes |
"""
