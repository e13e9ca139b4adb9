"""The order of offsets from batch to batch, and which of two batches is wrong where they disagree.

Strategy: a base offset is outside the CRC, so a wrong one shows only against the neighbours. A batch that adjoins the
good one before it is good. Any other one waits, for a few batches or until some adjoin each other; then it is known how
the fewest are wrong. Batches that are wrong side by side have the place that they fill between the good ones around
them. Behind damage nothing adjoins, and a batch waits like any other. The last batches of a segment have no next one:
where they reach into the next segment, which may be a stale one, or over the end that all other files know, their base
offsets are wrong only if one bit of each makes them fill what lies between the good batch and that offset. Where none
knows that end, the batch before them alone tells nothing: a broker writes such an overlap where an append failed
half-way, or leaders changed. Nor is a batch moved with which its epoch begins by the leader-epoch-checkpoint. A batch
that overlaps the one before it, and that nothing moves, stays where it is: a broker serves its offsets from there. The
first one of a segment overlaps the segment before it where it begins below its name: that is the log end offset then.
Source: LocalLog.roll, LogSegment.ensureOffsetInRange.

| module | step |
|-|-|
| `header` | what is compared of a batch, and what lies before the next one |
| `fold` | batches in file order: each is right, or waits |
| `chain` | which of those that wait are right |
| `far` | which lie too far above the name of their segment, and are right all the same |
| `places` | where the wrong ones belong, and which of them stay |
| `either` | where the one behind is as likely wrong |
| `findings` | what is told of them |
| `right` | windows with the right offsets, by these findings |

Other copies of a batch tell more: `kdump.rescue.base_offset`. A log under a wrong name is another question, of one file
name and not of each batch: `kdump.storage.misplaced`.
"""
