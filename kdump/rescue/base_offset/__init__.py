"""Base offsets that the other copies of a batch know better than its own log does.

| module | question |
|-|-|
| `seen` | the batches of a log as they are compared, and their neighbours |
| `misplaced_batches` | where does a batch belong that adjoins nothing in its own log? |
| `behind_holes` | is the last batch of a copy wrong, behind a hole that nothing else explains? |
| `duplicate_batches` | which of two places of one batch is right, where each log bears its own one out? |

What a log tells by itself is in `kdump.format.batch.base_offset`.
"""
